"""What type an item is of, among those that its adapter declares."""

import re
from collections.abc import Iterator, Mapping, Sequence

#: Where items say what they are; in their questions the name of a type may stand by chance.
_TELLING = re.compile(r"type|kind|categor|topic|task|file|path", re.IGNORECASE)


def kind_of(item: Mapping[str, object], declared: Sequence[str]) -> str:
    """The type that ``item`` states, or else the one of ``declared`` that its facts name.

    The facts are those that tell kinds, files and paths: ALFWorld's items have theirs in the name
    of a game file, SpreadsheetBench's in other words. Of several that fit, the longest counts.
    """
    if stated := str(item.get("task_type") or ""):
        return stated
    if len(declared) == 1:
        return str(declared[0])
    facts = [_plain(text) for text in _facts(item)]
    named = [kind for kind in map(str, declared) if any(_plain(kind) in fact for fact in facts)]
    return max(named, key=len, default="")


def _facts(item: Mapping[str, object]) -> Iterator[str]:
    for key, value in item.items():
        if _TELLING.search(key):
            yield from map(str, value if isinstance(value, list) else [value])


def _plain(text: str) -> str:
    return re.sub(r"\W+|_+", "_", text.strip().lower())
