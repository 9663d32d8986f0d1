"""The race of a step's edits: what each was found to be worth, and the subsets that were tried."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from skillopt_ci.ledger.records import ArmRecord, HeatRecord, ProposalRecord
from skillopt_ci.page.effects import effect_text
from skillopt_ci.report.arithmetic import race_text
from skillopt_ci.report.figures import plural, score


@dataclass(frozen=True, slots=True)
class Arm:
    """A subset: a mark for each edit, and its mean score over the tasks that it was tried on."""

    has: tuple[bool, ...]
    score: str
    tasks: str


@dataclass(frozen=True, slots=True)
class Heat:
    """Subsets that were tried on the same tasks, the best first."""

    arms: tuple[Arm, ...]
    errors: int


@dataclass(frozen=True, slots=True)
class RaceTable:
    """``effects`` has for each edit what it is believed to add, and whether it was kept."""

    told: str
    effects: tuple[tuple[str, bool], ...]
    heats: tuple[Heat, ...]

    @property
    def width(self) -> int:
        """The number of edits."""
        return len(self.effects)


def race_table(proposal: ProposalRecord) -> RaceTable | None:
    """The race of a proposal; None where there was none."""
    race = proposal.race
    if race is None:
        return None
    return RaceTable(
        race_text(proposal),
        tuple((effect_text(one.mean, one.sd, one.helpful), one.kept) for one in race.effects),
        tuple(_heats(race.heats, len(race.effects))),
    )


def _heats(heats: tuple[HeatRecord, ...], edits: int) -> Iterator[Heat]:
    for heat in heats:
        arms = sorted(heat.arms, key=_mean, reverse=True)
        yield Heat(tuple(_arm(arm, edits) for arm in arms), heat.errors)


def _arm(arm: ArmRecord, edits: int) -> Arm:
    has = tuple(number in arm.edits for number in range(edits))
    value = score(_mean(arm)) if arm.scores else "–"
    return Arm(has, value, plural(len(arm.scores), "task"))


def _mean(arm: ArmRecord) -> float:
    return fmean(arm.scores.values()) if arm.scores else -1.0
