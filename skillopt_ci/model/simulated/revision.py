"""Revisions of a document by the simulated optimizer: lines that go and lines that come."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.temperament import Temperament

_REGION = "<!-- "


@dataclass(frozen=True, slots=True)
class Change:
    """The line ``old`` becomes the lines ``new``; either may be empty, ``old`` may be unknown."""

    old: str = ""
    new: str = ""

    @property
    def summary(self) -> str:
        """The change in one line."""
        new = " ".join(self.new.removeprefix("- ").split())
        if not self.old:
            return f"Add: {new}"
        return f"Replace by: {new}" if new else f"Drop: {self.old.removeprefix('- ')}"


def change_of(edit: dict[str, object]) -> Change:
    """Return what an edit would do to the lines of the document."""
    content = str(edit.get("content") or "")
    if edit["op"] in ("replace", "delete"):
        return Change(str(edit.get("target") or ""), content)
    return Change(new=content)


def attribution(note_ids: object) -> dict[str, object]:
    """Return what a proposal says of the reviewers' notes that it follows; nothing without any."""
    return {"note_ids": note_ids} if note_ids else {}


def revised(document: str, changes: Iterable[Change], dice: Dice, temperament: Temperament) -> str:
    """Return the document with ``changes``, as carefully as the temperament has it."""
    lines = document.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith(_REGION)), len(lines))
    body, tail = lines[:start], lines[start:]
    for change in changes:
        body = _changed(body, change)
    if dice.chance("forgetful", temperament.forgetful):
        body = _without_one_rule(body, dice)
    if dice.chance("meddlesome", temperament.meddlesome):
        return "\n".join(_meddled_with(body))
    return "\n".join([*body, *tail])


def _changed(body: Sequence[str], change: Change) -> list[str]:
    new = change.new.splitlines()
    if change.old and change.old in body:
        place = body.index(change.old)
        return [*body[:place], *new, *body[place + 1 :]]
    rules = [place for place, line in enumerate(body) if line.startswith("- ")]
    place = rules[-1] + 1 if rules else len(body)
    gap = [] if rules or not body or not body[-1] else [""]
    return [*body[:place], *gap, *new, *body[place:]]


def _without_one_rule(body: Sequence[str], dice: Dice) -> list[str]:
    rules = [place for place, line in enumerate(body) if line.startswith("- ")]
    lost = dice.pick("lost rule", rules) if rules else -1
    return [line for place, line in enumerate(body) if place != lost]


def _meddled_with(body: Sequence[str]) -> list[str]:
    """Return what is left when frontmatter is taken for text that could be worded better."""
    return [line.replace("description:", "about:") for line in body]
