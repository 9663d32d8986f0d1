"""What differs between two configurations, in words."""

import json
from collections.abc import Iterator, Mapping

_LONGEST_VALUE = 40


def changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Name each key whose value differs, with both values: ``train.batch_size (16 → 8)``.

    The mappings are configurations as JSON; a value too long to be read in passing is left out.
    """
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return tuple(
        _worded(key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    )


def _leaves(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _worded(key: str, old: object, new: object) -> str:
    shown = f"{_shown(old)} → {_shown(new)}"
    return f"{key} ({shown})" if len(shown) <= 2 * _LONGEST_VALUE else key


def _shown(value: object) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False).strip('"')
