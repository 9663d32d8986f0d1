"""How long a run must at least take: its chain of calls that wait for each other."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
