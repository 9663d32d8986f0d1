"""What a system's run amounts to: judged by the world's hidden truth, and its time by its calls."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.world.world import INITIAL_SKILL, World

# How long a run must at least take: its chain of calls that wait for each other.

#: A call: its phase, and the seconds of its arrival and of its answer.
Call = tuple[str, float, float]

#: Phases that need not wait for each other count as one.
_SIDE_BY_SIDE = {"optimizer/slow_update": "advice", "optimizer/meta_skill": "advice"}
_VERDICT = "target/selection"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work that ends with a verdict: a step, an epoch's end, the first measurement.

    ``seconds`` pass from the last answer before it to its own last one. In ``rounds`` of calls, as
    many at once as may be, it could be done.
    """

    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Timed:
    """The fewest rounds in which a run's calls could be made, 0 if it was not timed; its pieces."""

    rounds: int = 0
    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, trace: Sequence[Call], limit: int) -> "Timed":
        """What the ``trace`` of a run with ``limit`` calls at once amounts to."""
        return cls(rounds(trace, limit), tuple(pieces(trace, limit)))


UNTIMED = Timed()


def rounds(trace: Sequence[Call], limit: int) -> int:
    """The fewest rounds of calls, ``limit`` at once, in which the work of ``trace`` can be done.

    Calls of one phase that follow each other (rollouts, minibatches of analysts, a level of
    merging) do not depend on each other, nor do those that overlap; each other change of phase
    does.
    """
    return sum(math.ceil(len(wave) / limit) for wave in _waves(trace))


def pieces(trace: Sequence[Call], limit: int) -> list[Piece]:
    """The pieces of work of a run, without the first: what came before it was no call."""
    found: list[Piece] = []
    begun, last = 0, None
    waves = list(_waves(trace))
    for number, wave in enumerate(waves):
        begun += math.ceil(len(wave) / limit)
        if any(phase == _VERDICT for phase, _, _ in wave) or number == len(waves) - 1:
            end = max(answered for _, _, answered in wave)
            if last is not None:
                found.append(Piece(end - last, begun))
            begun, last = 0, end
    return found


def _waves(trace: Sequence[Call]) -> Iterator[list[Call]]:
    wave: list[Call] = []
    for call in sorted(trace, key=lambda one: one[1]):
        same = wave and _kind(wave[-1]) == _kind(call)
        if wave and not same and call[1] >= max(answered for _, _, answered in wave):
            yield wave
            wave = []
        wave.append(call)
    if wave:
        yield wave


def _kind(call: Call) -> str:
    return _SIDE_BY_SIDE.get(call[0], call[0])


# What its changes were truly worth.

#: Smaller differences of true scores are none.
_EPSILON = 1e-9

#: Phases of calls that the world should never see.
_MISUNDERSTOOD = {"failed", "optimizer/unknown"}


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that was tried: the text it was to replace, its own, and the verdict.

    One that was taken over without a measurement is not ``gated``.
    """

    before: str
    after: str
    accepted: bool
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A test of the current skill against the last confirmed one, and the truth of it.

    The truth is that of the selection tasks: what the test is about.
    """

    action: str
    before: float
    after: float

    @property
    def false(self) -> bool:
        """Whether a skill that is no better was confirmed."""
        return self.action == "confirmed" and self.after <= self.before + _EPSILON


@dataclass(frozen=True, slots=True)
class Outcome:
    """One system on one seed.

    ``true`` is the exact expected test score of the skill it ends with, ``start`` that of the
    first. ``worse_accepted`` of ``accepted`` candidates were not truly better, ``better_rejected``
    of ``rejected`` were; ``worse_ungated`` of ``ungated`` changes that no gate saw were not
    either. ``calls`` and ``tokens`` are the server's, by phase. ``curve`` has, where the system
    tells, the calls made so far and the true score of the skill that then stood, ``clock`` the
    same by the seconds since it began, ``timed`` the least that its calls could have taken,
    ``confirmations`` the tests of what was merged.
    """

    system: str
    seed: int
    start: float
    true: float
    accepted: int
    worse_accepted: int
    rejected: int
    better_rejected: int
    ungated: int
    worse_ungated: int
    calls: Mapping[str, int]
    tokens: Mapping[str, int]
    seconds: float
    curve: tuple[tuple[int, float], ...] = ()
    timed: Timed = UNTIMED
    confirmations: tuple[Confirmation, ...] = ()
    clock: tuple[tuple[float, float], ...] = ()

    @property
    def paid(self) -> int:
        """Calls other than test calls."""
        return sum(n for phase, n in self.calls.items() if phase != "target/test")

    @property
    def target_calls(self) -> int:
        """Calls of the target on training and selection tasks."""
        return self.calls.get("target/train", 0) + self.calls.get("target/selection", 0)


def judged(
    world: World,
    system: str,
    final: str,
    trials: Sequence[Trial],
    stats: Mapping[str, Mapping[str, int]],
    seconds: float,
    *,
    curve: tuple[tuple[int, float], ...] = (),
    timed: Timed = UNTIMED,
    confirmations: tuple[Confirmation, ...] = (),
) -> Outcome:
    """The outcome of a run that ended with the text ``final``."""
    verdicts = [(_better(world, trial), trial) for trial in trials if trial.gated]
    forced = [_better(world, trial) for trial in trials if not trial.gated]
    return Outcome(
        system=system,
        seed=world.seed,
        start=world.true_score(INITIAL_SKILL),
        true=world.true_score(final),
        accepted=sum(trial.accepted for _, trial in verdicts),
        worse_accepted=sum(trial.accepted and not good for good, trial in verdicts),
        rejected=sum(not trial.accepted for _, trial in verdicts),
        better_rejected=sum(good and not trial.accepted for good, trial in verdicts),
        ungated=len(forced),
        worse_ungated=forced.count(False),
        calls=dict(stats["calls"]),
        tokens=dict(stats["tokens"]),
        seconds=seconds,
        curve=curve,
        timed=timed,
        confirmations=confirmations,
    )


def _better(world: World, trial: Trial) -> bool:
    return world.true_score(trial.after) > world.true_score(trial.before) + _EPSILON


def refuse_misunderstood(stats: Mapping[str, Mapping[str, int]]) -> None:
    """Raise ValueError if the world could not make sense of a request: the run proves nothing."""
    lost = {phase: n for phase, n in stats["calls"].items() if phase in _MISUNDERSTOOD}
    if lost:
        raise ValueError(f"the world did not understand requests: {lost}")
