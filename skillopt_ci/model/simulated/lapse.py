"""The simulated analyst's reminders: rules that the skill states and that were not followed."""

import re

from skillopt_ci.model.simulated.analyst import broken_conventions
from skillopt_ci.model.simulated.brief import AnalystBrief
from skillopt_ci.model.simulated.houses import BY_NAME
from skillopt_ci.model.simulated.sections import sections
from skillopt_ci.model.simulated.skill_reading import stances, subject

_BEGINNING = "Before you answer, look again: "
_REMINDER = re.compile(r"^- (.*\S)", re.MULTILINE)


def lapse_notes(brief: AnalystBrief) -> list[str]:
    """Return one reminder for each kind of failure that a rule of the skill would prevent."""
    taken = stances(brief.skill)
    lapses = [name for name in broken_conventions(brief.trajectories) if taken[name] == {"for"}]
    notes = [_reminder(BY_NAME[name].rules[0]) for name in lapses]
    return [note for note in notes if note not in brief.skill]


def condense(prompt: str) -> dict[str, object]:
    """Return the reminders that the prompt lists, one for each subject."""
    listed = next((one.data for one in sections(prompt) if one.title.startswith("Reminders")), "")
    kept: dict[str, str] = {}
    for note in _REMINDER.findall(listed):
        about = subject(note)
        kept.setdefault(about[0] if about else note, note.removeprefix(_BEGINNING))
    return {"appendix_notes": list(kept.values())}


def _reminder(rule: str) -> str:
    return f"{_BEGINNING}{rule[0].lower()}{rule[1:]}"
