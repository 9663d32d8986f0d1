"""Compare a candidate with the current skill, task by task, until the verdict is clear."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Literal

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.stats import sign_flip_p
from skillopt_ci.training.measure import (
    Gate,
    Tallies,
    Tally,
    Worth,
    admit_notes,
    exact,
    tallies,
    text_of,
    worth_in,
)
from skillopt_ci.training.stopping import Aim, ToCome, cannot_convince, certain_rejection, chance

#: Why a test ended: all was measured, no outcome could have changed the verdict, another verdict
#: was unlikely, or the candidate was sure enough to be better before all rounds were through.
End = Literal["measured", "certain", "futile", "convinced"]
#: (Hard, soft) scores by task.
Scores = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Ask:
    """Attempt these tasks under the candidate and under the current skill.

    Each comes with the number of earlier attempts at it.
    """

    candidate: tuple[tuple[str, int], ...]
    current: tuple[tuple[str, int], ...] = ()
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
    """What a test is about.

    ``order`` are the tasks to be measured, in that order. ``eligible`` are those that count: they
    were measured under all skills concerned. ``rates`` is how often each task was solved so far.
    ``bonus`` is what the candidate is ahead by besides tasks; if ``tie_wins``, an equal mean is
    accepted.
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
        """The chance of a false accept that each round may spend: an equal part of the whole.

        By the union bound the whole holds however the rounds depend on each other.
        """
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
    errors: frozenset[str] = frozenset()

    def differences(self, setup: Setup) -> list[Fraction]:
        """Candidate minus current, of the tasks that count and are measured."""
        return [
            setup.worth(self.candidate[task]) - setup.worth(self.current[task])
            for task in setup.order
            if task in setup.eligible and task in self.candidate
        ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended.

    ``convincing`` says whether the sign-flip test was passed; ``p_value`` is that of the last
    round, None where none was completed.
    """

    end: End
    measured: Measured
    convincing: bool = False
    p_value: float | None = None
    rounds: int = 1


Test = Generator[Ask, Answer, Outcome]
#: Ends a test early, where that is justified.
Stop = Callable[[Measured, Sequence[str]], End | None]


def sequential_test(setup: Setup, current: Tallies, known: Tallies) -> Test:
    """Compare a candidate with the ``current`` skill's tallies; ``known`` are some of its own.

    Known results are used in place of attempts, in the same order.
    """
    state = Measured({}, current)
    stop = (
        _stop_if_certain(setup) if setup.settings.policy == "strict" else _stop_if_futile(setup, 1)
    )
    state, end = yield from _Round(setup, known, stop).measure(state, setup.order)
    if setup.settings.policy == "strict" or end is not None:
        return Outcome(end or "measured", state)
    return (yield from _test(state, setup))


def _test(state: Measured, setup: Setup) -> Test:
    """Test after each round whether the candidate is better; attempt close cases again."""
    for number in range(1, setup.rounds + 1):
        differences = [one - setup.margin for one in state.differences(setup)]
        p_value = sign_flip_p(differences)
        if p_value <= setup.alpha:
            end: End = "measured" if number == setup.rounds else "convinced"
            return Outcome(end, state, True, p_value, number)
        close = _deciding(state, setup)
        if number == setup.rounds or not close:
            return Outcome("measured", state, False, p_value, number)
        if _is_futile(state, setup, number):
            return Outcome("futile", state, False, p_value, number)
        again = _Round(setup, {}, lambda *_: None, both=True)
        state, _ = yield from again.measure(state, close)
    raise AssertionError("the last round ends the test")


@dataclass(frozen=True, slots=True)
class _Round:
    """How tasks are measured once: what is ``known`` is not asked, ``both`` sides may be."""

    setup: Setup
    known: Tallies
    stop: Stop
    both: bool = False

    def ends(self, state: Measured, left: Sequence[str]) -> End | None:
        """Why it ends before the tasks that are ``left``, if it does."""
        return self.stop(state, left) if self.setup.settings.early_stop else None

    def missing(self, lot: Sequence[str]) -> tuple[str, ...]:
        """The tasks of a lot that have to be attempted."""
        return tuple(task for task in lot if task not in self.known)

    def measure(
        self, state: Measured, tasks: Sequence[str]
    ) -> Generator[Ask, Answer, tuple[Measured, End | None]]:
        """Measure ``tasks`` in lots, looking at the results after each."""
        settings = self.setup.settings
        size = max(1, settings.look_every if settings.early_stop else len(tasks))
        lots = [tasks[start : start + size] for start in range(0, len(tasks), size)]
        for number, lot in enumerate(lots):
            state = _with_known(state, lot, self.known)
            if missing := self.missing(lot):
                sure = partial(self._sure, state, lots[number:])
                answer = yield replace(_ask(state, missing, self.both), sure=sure)
                state = _taken(state, missing, answer, self.both)
            end = self.ends(state, _tasks(lots[number + 1 :]))
            if end is not None:
                return state, end
        return state, None

    def _sure(
        self, state: Measured, lots: Sequence[Sequence[str]], found: Scores
    ) -> tuple[Ask, ...]:
        """Of the lots after the first, those that no result of the ones before can spare.

        If not even failing everywhere ends the round where nothing is ``found`` yet, nothing does.
        (With `futility` odd scores may: the chance also depends on how much scores differ.)
        """
        asks, seen = [], {**self.known, **{task: Tally(*one) for task, one in found.items()}}
        for number, (lot, following) in enumerate(pairwise(lots), start=1):
            failed = {task: Tally(0.0, 0.0) for task in lot}
            state = _with_known(state, lot, {**failed, **seen})
            if self.ends(state, _tasks(lots[number:])) is not None:
                break
            if missing := self.missing(following):
                asks.append(_ask(state, missing, self.both))
        return tuple(asks)


def _tasks(lots: Sequence[Sequence[str]]) -> list[str]:
    return [task for lot in lots for task in lot]


def _ask(state: Measured, tasks: Sequence[str], both: bool) -> Ask:
    def numbered(side: Tallies) -> tuple[tuple[str, int], ...]:
        return tuple((task, side[task].count if task in side else 0) for task in tasks)

    return Ask(numbered(state.candidate), numbered(state.current) if both else ())


def _with_known(state: Measured, lot: Sequence[str], known: Tallies) -> Measured:
    here = {task: known[task] for task in lot if task in known}
    if not here:
        return state
    return replace(state, candidate={**state.candidate, **here}, asked=(*state.asked, *here))


def _taken(state: Measured, tasks: Sequence[str], answer: Answer, both: bool) -> Measured:
    return Measured(
        candidate=_added(state.candidate, answer.candidate),
        current=_added(state.current, answer.current),
        asked=tuple(dict.fromkeys((*state.asked, *tasks))),
        candidate_attempts=state.candidate_attempts + len(tasks),
        current_attempts=state.current_attempts + (len(tasks) if both else 0),
        errors=state.errors | {task for task in tasks if task not in answer.candidate},
    )


def _added(tallies: Tallies, scores: Scores) -> Tallies:
    more = {
        task: tallies[task].plus(*score) if task in tallies else Tally(*score)
        for task, score in scores.items()
    }
    return {**tallies, **more}


def _stop_if_certain(setup: Setup) -> Stop:
    def stop(state: Measured, left: Sequence[str]) -> End | None:
        room = _room(state, setup, left)
        lost = certain_rejection(
            state.differences(setup), room, setup.bonus, tie_wins=setup.tie_wins
        )
        return "certain" if left and lost else None

    return stop


def _stop_if_futile(setup: Setup, number: int) -> Stop:
    settings = setup.settings

    def stop(state: Measured, left: Sequence[str]) -> End | None:
        if not left:
            return None
        seen, room = state.differences(setup), _room(state, setup, left)
        if setup.rounds == 1 and cannot_convince(seen, room, setup.alpha, setup.margin):
            return "certain"
        to_come = [
            ToCome(float(setup.worth(state.current[task])), setup.rates[task])
            for task in left
            if task in setup.eligible
        ]
        return "futile" if chance(seen, to_come, _aim(setup, number)) < settings.futility else None

    return stop


def _is_futile(state: Measured, setup: Setup, number: int) -> bool:
    if not setup.settings.futility:
        return False
    return chance(state.differences(setup), (), _aim(setup, number)) < setup.settings.futility


def _aim(setup: Setup, number: int) -> Aim:
    return Aim(
        margin=float(setup.margin),
        effect=max(setup.settings.effect, float(setup.margin)),
        alpha=setup.alpha,
        done=number,
        rounds=setup.rounds - number,
    )


def _room(state: Measured, setup: Setup, left: Sequence[str]) -> list[Fraction]:
    """The most that the candidate can still gain on each of the tasks that are left."""
    return [1 - setup.worth(state.current[task]) for task in left if task in setup.eligible]


def _deciding(state: Measured, setup: Setup) -> tuple[str, ...]:
    """The tasks on which not all attempts under both skills came to the same."""
    return tuple(
        task
        for task in setup.order
        if task in setup.eligible
        and task in state.candidate
        and not (
            setup.worth(state.candidate[task]) == setup.worth(state.current[task])
            and setup.worth(state.candidate[task]) in (0, 1)
        )
    )


#: How much the mean of all tasks weighs beside what is known of a single one, in attempts.
_PRIOR_ATTEMPTS = 1.0


def setup(
    skill: str,
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[Tallies],
    evaluation: Evaluation,
    gate: Gate,
) -> Setup:
    """The setup on which the candidate ``skill`` meets the ``current`` one on ``planned`` tasks.

    Tasks that the skills so far solve least come first: there a candidate shows soonest that it
    gains nothing. ``past`` are the tallies of earlier candidates.
    """
    worth, text = worth_in(evaluation), text_of(skill, evaluation)
    known = tallies(current)
    mean = _mean_worth(known, evaluation)
    rates = {task: _rate(task, [known, *past], mean, evaluation) for task in planned}
    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    order = sorted(planned, key=lambda task: (task not in eligible, rates[task]))
    dense = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    shorter = evaluation.ties == "prefer_shorter" and text.words < current.words
    return Setup(
        order=tuple(order),
        eligible=eligible,
        rates=rates,
        worth=worth,
        settings=_settings(evaluation, gate),
        bonus=exact(dense) * (exact(text.density) - exact(current.density)),
        tie_wins=shorter or gate is admit_notes,
    )


def _settings(evaluation: Evaluation, gate: Gate) -> GateConfig:
    """Reminders stay unless they do harm, and an open gate wants to know the whole score."""
    changes: dict[str, object] = {}
    if gate is admit_notes or not evaluation.use_gate:
        changes["policy"] = "strict"
    if not evaluation.use_gate:
        changes["early_stop"] = False
    return evaluation.gate.model_copy(update=changes)


def rotated(tasks: Sequence[str], size: int, turn: int) -> tuple[str, ...]:
    """The ``turn``-th part of ``size`` tasks, beginning anew at the end; all of them for 0."""
    if not 0 < size < len(tasks):
        return tuple(tasks)
    start = turn * size % len(tasks)
    return tuple((*tasks, *tasks)[start : start + size])


def _rate(
    task: str, sources: Sequence[Mapping[str, Tally]], mean: float, evaluation: Evaluation
) -> float:
    worth, found = worth_in(evaluation), [one[task] for one in sources if task in one]
    total = sum(float(worth(one)) * one.count for one in found)
    attempts = sum(one.count for one in found)
    return (total + mean * _PRIOR_ATTEMPTS) / (attempts + _PRIOR_ATTEMPTS)


def _mean_worth(known: Mapping[str, Tally], evaluation: Evaluation) -> float:
    worth = worth_in(evaluation)
    return float(sum(map(worth, known.values())) / max(1, len(known)))
