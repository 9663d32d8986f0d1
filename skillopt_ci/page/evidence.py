"""All that a report tells of: the whole record of a run, and the texts of its skill."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillopt_ci.page.trajectories import Trajectory
from skillopt_ci.page.versions import Version
from skillopt_ci.report.run_view import RunView


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence, the skill's ``versions`` oldest first (the last is now).

    ``diffs`` has the text before and after each candidate, by the anchor of its section; a
    candidate whose commits cannot be reached any more is missing there.
    """

    run: RunView
    versions: tuple[Version, ...]
    candidates: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    meta_skill: str = ""
    trajectories: tuple[Trajectory, ...] = ()
    trajectories_left_out: int = 0
