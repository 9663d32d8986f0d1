"""The sequential test: a candidate against the current skill, task by task, until it is clear."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.training.measure import Tallies, Tally, Worth, exact, tallies, worth_in

#: Why a test ended: all was measured, or no outcome could have led to acceptance.
End = Literal["measured", "certain"]
#: (Hard, soft) scores by task; a task that could not be measured is not there.
Scores = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Ask:
    tasks: tuple[str, ...]
    sure: Callable[[Scores], tuple["Ask", ...]] = field(
        default=lambda _: (), repr=False, compare=False
    )
    """What is asked next, in that order, whatever comes of the rest: it may be begun now. It is
    told what the attempts at this ask's tasks and those came to so far."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a test is about: the tasks in ``order``, of which the ``eligible`` ones count.

    ``bonus`` is what the candidate is ahead by besides tasks. If ``tie_wins``, an equal mean is
    accepted. A test that must not ``stop`` early measures all tasks.
    """

    order: tuple[str, ...]
    eligible: frozenset[str]
    current: Tallies
    worth: Worth
    look_every: int
    stop: bool = True
    bonus: Fraction = Fraction()
    tie_wins: bool = False

    def differences(self, candidate: Tallies) -> list[Fraction]:
        """Candidate minus current, of the tasks that count and are measured."""
        return [
            self.worth(candidate[task]) - self.worth(self.current[task])
            for task in self.order
            if task in self.eligible and task in candidate
        ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended: the candidate's tallies, the tasks it was asked and how many attempted."""

    end: End
    candidate: Tallies
    asked: tuple[str, ...] = ()
    attempts: int = 0


Test = Generator[Ask, Scores, Outcome]


def sequential_test(setup: Setup, known: Tallies) -> Test:
    """Measure a candidate in lots, looking at the results after each; ``known`` is not asked."""
    size = setup.look_every if setup.stop else max(1, len(setup.order))
    lots = [setup.order[start : start + size] for start in range(0, len(setup.order), size)]
    candidate: Tallies = {}
    asked: tuple[str, ...] = ()
    attempts = 0
    for number, lot in enumerate(lots):
        candidate = {**candidate, **{task: known[task] for task in lot if task in known}}
        asked += lot
        if tasks := _unknown(lot, known):
            scores = yield Ask(tasks, partial(_sure, setup, known, candidate, lots[number:]))
            candidate = {**candidate, **{task: Tally(*one) for task, one in scores.items()}}
            attempts += len(tasks)
        if setup.stop and _out_of_reach(setup, candidate, lots[number + 1 :]):
            return Outcome("certain", candidate, asked, attempts)
    return Outcome("measured", candidate, asked, attempts)


def _unknown(lot: Sequence[str], known: Tallies) -> tuple[str, ...]:
    return tuple(task for task in lot if task not in known)


def _sure(
    setup: Setup,
    known: Tallies,
    candidate: Tallies,
    lots: Sequence[Sequence[str]],
    found: Scores,
) -> tuple[Ask, ...]:
    """Of the lots after the first, those that no result of the ones before can spare.

    If not even failing everywhere ends the test where nothing is ``found`` yet, nothing does.
    """
    seen = {**known, **{task: Tally(*one) for task, one in found.items()}}
    asks: list[Ask] = []
    for number, (lot, following) in enumerate(pairwise(lots), start=1):
        failed = {task: seen.get(task, Tally(0.0, 0.0)) for task in lot}
        candidate = {**candidate, **failed}
        if setup.stop and _out_of_reach(setup, candidate, lots[number:]):
            break
        if tasks := _unknown(following, known):
            asks.append(Ask(tasks))
    return tuple(asks)


def _out_of_reach(setup: Setup, candidate: Tallies, lots: Sequence[Sequence[str]]) -> bool:
    """Whether no outcome of the ``lots`` that are left leads to acceptance.

    Any of their tasks may also end in an error and count for neither side.
    """
    left = [task for lot in lots for task in lot]
    if not left:
        return False
    room = sorted(
        (1 - setup.worth(setup.current[task]) for task in left if task in setup.eligible),
        reverse=True,
    )
    seen = setup.differences(candidate)
    best = accumulate(room, initial=sum(seen, Fraction()))
    # the sign of gain / count + bonus, without dividing fractions
    leads = [gain + setup.bonus * count for count, gain in enumerate(best, len(seen)) if count]
    return all(lead < 0 if setup.tie_wins else lead <= 0 for lead in leads)


def setup(
    text: tuple[float, int],
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[Tallies],
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Setup:
    """The setup on which a candidate meets the ``current`` skill on ``planned`` tasks.

    ``text`` is its density of leading words and its length. Tasks that the skills so far solve
    least come first: there a candidate shows soonest that it gains nothing. ``notes_only`` needs to
    do no harm; an open gate wants to know the whole score.
    """
    worth, (density, words), known = worth_in(evaluation), text, tallies(current)
    mean = float(sum(map(worth, known.values())) / max(1, len(known)))

    def rate(task: str) -> float:
        """How often it was solved; the mean of all tasks counts like one more attempt."""
        found = [one[task] for one in (known, *past) if task in one]
        total = sum(float(worth(one)) * one.count for one in found)
        return (total + mean) / (sum(one.count for one in found) + 1)

    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    dense = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    shorter = evaluation.ties == "prefer_shorter" and words < current.words
    return Setup(
        order=tuple(sorted(planned, key=lambda task: (task not in eligible, rate(task)))),
        eligible=eligible,
        current=known,
        worth=worth,
        look_every=evaluation.gate.look_every,
        stop=evaluation.gate.early_stop and evaluation.use_gate,
        bonus=exact(dense) * (exact(density) - exact(current.density)),
        tie_wins=shorter or notes_only,
    )
