"""What a simulated analyst proposes when it errs: plausible edits that do not help."""

from collections.abc import Callable, Mapping

from skillopt_ci.model.simulated.brief import AnalystBrief
from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.houses import ALL_CONVENTIONS, conventions_of
from skillopt_ci.model.simulated.skill_reading import stances

Mishap = Callable[[AnalystBrief, Dice], dict[str, object] | None]

PLATITUDES = (
    "Read the whole note before writing anything.",
    "Take care to be accurate and complete.",
    "Check your work once more before you answer.",
    "Keep a calm, professional tone.",
)


def _harmful(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    house = conventions_of(one.prompt for one in brief.trajectories)
    options = [c.harmful for c in house if not _known(c.harmful, brief)]
    return _append(dice.pick("harmful choice", options)) if options else None


def _platitude(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    options = [text for text in PLATITUDES if not _known(text, brief)]
    return _append(dice.pick("platitude choice", options)) if options else None


def _duplicate(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    said = stances(brief.skill)
    options = [rule for c in ALL_CONVENTIONS if "for" in said[c.name] for rule in c.rules]
    return _append(dice.pick("duplicate choice", options)) if options else None


def _missing_target(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    heading = dice.pick("missing heading", ("## Formatting rules", "## Layout", "## Checklist"))
    if heading in brief.skill:
        return None
    content = f"{heading}\n\nEvery line follows the rules below."
    return {"op": "replace", "target": heading, "content": content, "support_count": 1}


def _leak(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    answers = [answer for one in brief.trajectories for answer in one.references]
    if not answers:
        return None
    return _append(f"A right line looks like this: `{dice.pick('leaked answer', answers)}`")


def _link(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    del brief
    page = dice.pick("linked page", ("style", "examples", "faq"))
    return _append(f"Further rules are on https://ledger-handbook.example/{page}.")


def _known(text: str, brief: AnalystBrief) -> bool:
    return text in brief.previous or text in brief.skill


def _append(text: str) -> dict[str, object]:
    return {"op": "append", "content": f"- {text}", "support_count": 1}


#: By the name of the temperament's rate, in the order in which they are tried.
MISHAPS: Mapping[str, Mishap] = {
    "harmful": _harmful,
    "platitude": _platitude,
    "duplicate": _duplicate,
    "missing_target": _missing_target,
    "leak": _leak,
    "link": _link,
}
