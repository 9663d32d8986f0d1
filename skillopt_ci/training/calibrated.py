"""What a calibration found."""

from dataclasses import dataclass

from skillopt_ci.config.config import GateSettings
from skillopt_ci.model.types import Usage


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to decide: how often it errs, and the attempts that one verdict takes.

    ``false_accepts`` is the share of skills that are as good as the current one and are accepted,
    ``worse_accepted`` that of skills that are worse by the effect, ``found`` that of skills that
    are better by it.
    """

    settings: GateSettings
    configured: bool
    false_accepts: float
    worse_accepted: float
    found: float
    attempts: float


@dataclass(frozen=True, slots=True)
class Need:
    """With ``attempts`` at most, ``tasks`` find the effect with probability ``found``.

    ``tasks`` is None where none of the numbers that were tried out does.
    """

    attempts: int
    tasks: int | None
    found: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gate on a run's own tasks.

    ``mean`` is the skill's score over all draws, ``undecided`` the share of tasks that were solved
    in some draws and not in others. Of ``same_trials`` comparisons of the skill with itself,
    ``same_accepted`` were taken for a gain. ``rehearsals`` duels with dice were fought for each
    rate of a setting.
    """

    tasks: int
    draws: int
    effect: float
    mean: float
    undecided: float
    same_accepted: int
    same_trials: int
    rehearsals: int
    settings: tuple[Setting, ...]
    needs: tuple[Need, ...]
    usage: Usage
    simulated: bool
