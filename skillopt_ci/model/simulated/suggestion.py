"""The simulated optimizer's suggestions: edits in words, merged, and carried out in a rewrite."""

from collections.abc import Sequence

from skillopt_ci.model.simulated.brief import PatchEdit, read_items, read_skill
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.merge import merged
from skillopt_ci.model.simulated.revision import Change, attribution, change_of, revised
from skillopt_ci.model.simulated.temperament import Temperament

_REMOVE = "Remove: "
_INSTEAD = "Write instead: "


def as_suggestions(reasoning: str, edits: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return an analyst's proposal in the form of suggestions."""
    suggestions = [
        {
            **_suggestion(change_of(edit), edit["support_count"]),
            **attribution(edit.get("note_ids")),
        }
        for edit in edits
    ]
    return {"reasoning": reasoning, "revise_suggestions": suggestions}


def merge_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the merged list: one suggestion for each subject."""
    kept, reasoning = merged(_read(prompt), dice, temperament)
    return {
        "reasoning": reasoning,
        "revise_suggestions": [
            {
                **_suggestion(_change(one.content), one.support),
                "type": one.op,
                "source_type": one.source,
                **attribution(one.note_ids),
            }
            for one in kept
        ],
    }


def rewrite(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the document that the prompt shows, with the suggestions carried out."""
    changes = [_change(edit.content) for edit in _read(prompt)]
    return {
        "reasoning": "The suggestions were carried out where they belong.",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(read_skill(prompt), changes, dice, temperament),
    }


def _suggestion(change: Change, support: object) -> dict[str, object]:
    kind = "add_rule" if not change.old else "clarify" if change.new else "remove_rule"
    return {
        "type": kind,
        "title": change.summary[:60],
        "motivation": "Answers differ from their references here.",
        "instruction": _instruction(change),
        "priority_hint": "high" if isinstance(support, int) and support > 1 else "low",
        "support_count": support,
    }


def _instruction(change: Change) -> str:
    if not change.old:
        return change.new
    return f"{_REMOVE}{change.old}" + (f"\n{_INSTEAD}{change.new}" if change.new else "")


def _change(instruction: str) -> Change:
    if not instruction.startswith(_REMOVE):
        return Change(new=instruction)
    old, _, new = instruction.removeprefix(_REMOVE).partition(f"\n{_INSTEAD}")
    return Change(old, new)


def _read(prompt: str) -> tuple[PatchEdit, ...]:
    return tuple(
        PatchEdit(
            op=item.text("type"),
            target="",
            content=item.text("instruction"),
            support=item.support,
            source=item.source,
            note_ids=item.note_ids,
        )
        for item in read_items(prompt, "instruction")
    )
