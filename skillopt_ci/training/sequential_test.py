"""The sequential test: a candidate against the current skill, task by task, until it is clear."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Literal

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.stats import normal_threshold, sign_flip_p
from skillopt_ci.training.measure import Tallies, Tally, Worth, exact, tallies, text_of, worth_in

#: Why a test ended: all was measured, no outcome could have changed the verdict, another verdict
#: was unlikely, or the candidate was sure enough to be better before all rounds were through.
End = Literal["measured", "certain", "futile", "convinced"]
#: (Hard, soft) scores by task.
Scores = Mapping[str, tuple[float, float]]
#: Tasks to attempt, each with the number of earlier attempts at it.
Lot = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Attempt these tasks under the candidate and under the current skill."""

    candidate: Lot
    current: Lot = ()
    sure: Callable[[Scores], tuple["Ask", ...]] = field(
        default=lambda _: (), repr=False, compare=False
    )
    """What is asked next, in that order, whatever comes of the rest: it may be begun now. It is
    told what the candidate's attempts at this ask's tasks and those came to so far."""


@dataclass(frozen=True, slots=True)
class Answer:
    """(Hard, soft) scores of the tasks that could be measured, under each skill."""

    candidate: Scores
    current: Scores = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a test is about: the tasks in ``order``, of which the ``eligible`` ones count.

    ``rates`` is how often each task was solved so far, ``bonus`` what the candidate is ahead by
    besides tasks. If ``tie_wins``, an equal mean is accepted.
    """

    order: tuple[str, ...]
    eligible: frozenset[str]
    rates: Mapping[str, float]
    worth: Worth
    settings: GateConfig
    bonus: Fraction = Fraction()
    tie_wins: bool = False

    @property
    def rounds(self) -> int:
        """Most attempts at a task."""
        return self.settings.attempts if self.settings.policy == "sequential" else 1

    @property
    def alpha(self) -> float:
        """The chance of a false accept that each round may spend: all keep to it (union bound)."""
        return (1 - self.settings.confidence) / self.rounds

    @property
    def margin(self) -> Fraction:
        """The gain that tasks must show."""
        return exact(self.settings.min_effect) - self.bonus


@dataclass(frozen=True, slots=True)
class Measured:
    """Where a test stands: what was measured, and how often which side was asked."""

    candidate: Tallies
    current: Tallies
    asked: tuple[str, ...] = ()
    candidate_attempts: int = 0
    current_attempts: int = 0

    def differences(self, setup: Setup) -> list[Fraction]:
        """Candidate minus current, of the tasks that count and are measured."""
        return [
            setup.worth(self.candidate[task]) - setup.worth(self.current[task])
            for task in setup.order
            if task in setup.eligible and task in self.candidate
        ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended; ``convincing`` says whether the sign-flip test was passed."""

    end: End
    measured: Measured
    convincing: bool = False
    p_value: float | None = None
    rounds: int = 1


Test = Generator[Ask, Answer, Outcome]


def sequential_test(setup: Setup, current: Tallies, known: Tallies) -> Test:
    """Compare a candidate with the ``current`` skill's tallies; ``known`` are some of its own.

    After each round the sign-flip test says whether the candidate is better; close tasks are
    attempted again.
    """
    state, end = yield from _Round(setup, known).measure(Measured({}, current), setup.order)
    if setup.settings.policy == "strict" or end is not None:
        return Outcome(end or "measured", state)
    for number in range(1, setup.rounds + 1):
        p_value = sign_flip_p([one - setup.margin for one in state.differences(setup)])
        if p_value <= setup.alpha:
            end = "measured" if number == setup.rounds else "convinced"
            return Outcome(end, state, True, p_value, number)
        close = _undecided(state, setup)
        if number == setup.rounds or not close:
            return Outcome("measured", state, False, p_value, number)
        if _chance(setup, state, (), number) < setup.settings.futility:
            return Outcome("futile", state, False, p_value, number)
        state, _ = yield from _Round(setup, {}, both=True).measure(state, close)
    raise AssertionError("the last round ends the test")


@dataclass(frozen=True, slots=True)
class _Round:
    """How tasks are measured once: what is ``known`` is not asked.

    After the first round ``both`` sides are asked, and nothing ends a round early.
    """

    setup: Setup
    known: Tallies
    both: bool = False

    def measure(
        self, state: Measured, tasks: Sequence[str]
    ) -> Generator[Ask, Answer, tuple[Measured, End | None]]:
        """Measure ``tasks`` in lots, looking at the results after each."""
        settings = self.setup.settings
        size = max(1, settings.look_every if settings.early_stop else len(tasks))
        lots = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        for number, lot in enumerate(lots):
            here = {task: self.known[task] for task in lot if task in self.known}
            candidate = {**state.candidate, **here}
            state = replace(state, candidate=candidate, asked=(*state.asked, *here))
            if ask := self._ask(state, lot):
                answer = yield replace(ask, sure=partial(self._sure, state, lots[number:]))
                state = self._taken(state, ask, answer)
            if (end := self._end(state, lots[number + 1 :])) is not None:
                return state, end
        return state, None

    def _end(self, state: Measured, lots: Sequence[Sequence[str]]) -> End | None:
        left = [task for lot in lots for task in lot]
        if self.both or not left or not self.setup.settings.early_stop:
            return None
        return _end_before(self.setup, state, left)

    def _sure(
        self, state: Measured, lots: Sequence[Sequence[str]], found: Scores
    ) -> tuple[Ask, ...]:
        """Of the lots after the first, those that no result of the ones before can spare.

        If not even failing everywhere ends the round where nothing is ``found`` yet, nothing does.
        (With `futility` odd scores may: the chance also depends on how much scores differ.)
        """
        seen = {**self.known, **{task: Tally(*one) for task, one in found.items()}}
        asks: list[Ask] = []
        for number, (lot, following) in enumerate(pairwise(lots), start=1):
            failed = {task: seen.get(task, Tally(0.0, 0.0)) for task in lot}
            state = replace(state, candidate={**state.candidate, **failed})
            if self._end(state, lots[number:]) is not None:
                break
            if ask := self._ask(state, following):
                asks.append(ask)
        return tuple(asks)

    def _ask(self, state: Measured, lot: Sequence[str]) -> Ask | None:
        """Ask for the tasks of ``lot`` that nothing is known of."""
        tasks = [task for task in lot if task not in self.known]

        def numbered(side: Tallies) -> Lot:
            return tuple((task, side[task].count if task in side else 0) for task in tasks)

        current = numbered(state.current) if self.both else ()
        return Ask(numbered(state.candidate), current) if tasks else None

    def _taken(self, state: Measured, ask: Ask, answer: Answer) -> Measured:
        return Measured(
            candidate=_added(state.candidate, answer.candidate),
            current=_added(state.current, answer.current),
            asked=tuple(dict.fromkeys((*state.asked, *(task for task, _ in ask.candidate)))),
            candidate_attempts=state.candidate_attempts + len(ask.candidate),
            current_attempts=state.current_attempts + len(ask.current),
        )


def _added(known: Tallies, scores: Scores) -> Tallies:
    more = {
        task: known[task].plus(*score) if task in known else Tally(*score)
        for task, score in scores.items()
    }
    return {**known, **more}


def _undecided(state: Measured, setup: Setup) -> tuple[str, ...]:
    """The tasks on which not all attempts under both skills came to the same."""
    worths = {
        task: {setup.worth(state.candidate[task]), setup.worth(state.current[task])}
        for task in setup.order
        if task in setup.eligible and task in state.candidate
    }
    return tuple(task for task, found in worths.items() if found not in ({0}, {1}))


# When rejection is certain, or acceptance unlikely, before all is measured.


def _end_before(setup: Setup, state: Measured, tasks: Sequence[str]) -> End | None:
    """Why the first round ends before ``tasks``, if it does."""
    seen = state.differences(setup)
    left = [task for task in tasks if task in setup.eligible]
    room = [1 - setup.worth(state.current[task]) for task in left]
    if setup.settings.policy == "strict":
        return "certain" if _out_of_reach(setup, seen, room) else None
    if setup.rounds == 1:
        # the p-value never rises with a difference: the best outcome of each task decides
        best = [one - setup.margin for one in seen]
        best += [max(one - setup.margin, Fraction()) for one in room]
        if sign_flip_p(best) > setup.alpha:
            return "certain"
    return "futile" if _chance(setup, state, left, 1) < setup.settings.futility else None


def _out_of_reach(setup: Setup, seen: Sequence[Fraction], room: Sequence[Fraction]) -> bool:
    """Whether no higher mean is possible, with ``room`` for each task that is left.

    Any of them may also end in an error and count for neither side.
    """
    best = accumulate(sorted(room, reverse=True), initial=sum(seen, Fraction()))
    # the sign of gain / count + bonus, without dividing fractions
    leads = [gain + setup.bonus * count for count, gain in enumerate(best, len(seen)) if count]
    return all(lead < 0 if setup.tie_wins else lead <= 0 for lead in leads)


#: How many standard deviations of luck the rounds to come may bring.
_HOPE = 1.0


def _chance(setup: Setup, state: Measured, left: Sequence[str], number: int) -> float:
    """The chance that round ``number`` ends in acceptance, or where another is worth while.

    A gain above the margin is to be shown, if the gain really is `effect`; of the tasks that are
    ``left`` each is solved as often as it used to be, and by that effect more often.
    """
    margin = float(setup.margin)
    effect = max(setup.settings.effect, margin)
    known = [float(one) - margin for one in state.differences(setup)]
    rates = {task: min(1.0, setup.rates[task] + effect) for task in left}
    means = [
        rate - float(setup.worth(state.current[task])) - margin for task, rate in rates.items()
    ]
    variance = math.fsum(rate * (1 - rate) for rate in rates.values())
    squares = math.fsum(one * one for one in (*known, *means)) + variance
    expected = math.fsum((*known, *means))
    needed = normal_threshold(squares, setup.alpha)
    count = len(known) + len(means)
    if number < setup.rounds and count:
        # noise averages out in the rounds to come: a lower sum leaves hope
        share = number / setup.rounds
        final = needed * math.sqrt(share)
        spread = math.sqrt(squares * share * (1 - share))
        hoped = (effect - margin) * count * (1 - share)
        needed = min(needed, (final - hoped - spread * _HOPE) / share)
    if variance == 0:
        return float(expected >= needed)
    return NormalDist().cdf((expected - needed) / math.sqrt(variance))


# What a comparison is about.


def setup(
    skill: str,
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[Tallies],
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Setup:
    """The setup on which the candidate ``skill`` meets the ``current`` one on ``planned`` tasks.

    Tasks that the skills so far solve least come first: there a candidate shows soonest that it
    gains nothing. ``notes_only`` needs to do no harm; an open gate wants to know the whole score.
    """
    worth, (density, words) = worth_in(evaluation), text_of(skill, evaluation)
    known = tallies(current)
    mean = float(sum(map(worth, known.values())) / max(1, len(known)))

    def rate(task: str) -> float:
        """How often it was solved; the mean of all tasks counts like one more attempt."""
        found = [one[task] for one in (known, *past) if task in one]
        total = sum(float(worth(one)) * one.count for one in found)
        return (total + mean) / (sum(one.count for one in found) + 1)

    rates = {task: rate(task) for task in planned}
    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    changes: dict[str, object] = {}
    if notes_only or not evaluation.use_gate:
        changes["policy"] = "strict"
    if not evaluation.use_gate:
        changes["early_stop"] = False
    dense = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    shorter = evaluation.ties == "prefer_shorter" and words < current.words
    return Setup(
        order=tuple(sorted(planned, key=lambda task: (task not in eligible, rates[task]))),
        eligible=eligible,
        rates=rates,
        worth=worth,
        settings=evaluation.gate.model_copy(update=changes),
        bonus=exact(dense) * (exact(density) - exact(current.density)),
        tie_wins=shorter or notes_only,
    )
