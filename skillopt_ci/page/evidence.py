"""All that a report tells of: the whole record of a run, and the texts of its skill."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt_ci.ledger.records import Measurement
from skillopt_ci.page.effects import Effects
from skillopt_ci.page.trajectories import Recorded
from skillopt_ci.page.versions import Version
from skillopt_ci.report.run_view import RunView


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence, the skill's ``versions`` oldest first (the last is now).

    ``candidates`` has the text before and after each candidate, by the anchor of its section; a
    candidate whose commits cannot be reached any more is missing there. ``attempts`` are those that
    this machine has on record, ``effects`` what is believed of single edits, ``first`` is the
    measurement that training began with.
    """

    run: RunView
    versions: tuple[Version, ...]
    candidates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    meta_skill: str = ""
    attempts: Recorded = field(default_factory=Recorded)
    effects: Effects = field(default_factory=dict)
    first: Measurement | None = None
