"""Duel: a candidate against the current skill, task by task, until the verdict is clear.

A duel is a generator: it says what is to be attempted next and is sent what came of it. So it is a
pure function of results in a fixed order, whoever makes the attempts, and in whatever order they
end: a trainer with models, or a calibration with dice.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Literal

from skillopt_ci.config.config import GateSettings
from skillopt_ci.stats import sign_flip_p
from skillopt_ci.training.gate import exact
from skillopt_ci.training.gates.certain import cannot_convince, cannot_win
from skillopt_ci.training.gates.futile import Aim, ToCome, chance
from skillopt_ci.training.gates.tally import Tallies, Tally, Worth

#: Why a duel ended: all was measured, no outcome could have changed the verdict, another verdict
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
class Terms:
    """What a duel is about.

    ``order`` are the tasks to be measured, in that order. ``eligible`` are those that count: they
    were measured under all skills concerned. ``rates`` is how often each task was solved so far.
    ``bonus`` is what the candidate is ahead by besides tasks; if ``tie_wins``, an equal mean is
    accepted.
    """

    order: tuple[str, ...]
    eligible: frozenset[str]
    rates: Mapping[str, float]
    worth: Worth
    settings: GateSettings
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
class Standoff:
    """Where a duel stands: what was measured, and how often which side was asked."""

    candidate: Tallies
    current: Tallies
    asked: tuple[str, ...] = ()
    candidate_attempts: int = 0
    current_attempts: int = 0
    errors: frozenset[str] = frozenset()

    def differences(self, terms: Terms) -> list[Fraction]:
        """Candidate minus current, of the tasks that count and are measured."""
        return [
            terms.worth(self.candidate[task]) - terms.worth(self.current[task])
            for task in terms.order
            if task in terms.eligible and task in self.candidate
        ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a duel ended.

    ``convincing`` says whether the sign-flip test was passed; ``p_value`` is that of the last
    round, None where none was completed.
    """

    end: End
    standoff: Standoff
    convincing: bool = False
    p_value: float | None = None
    rounds: int = 1


Duel = Generator[Ask, Answer, Outcome]
#: Ends a duel early, where that is justified.
Stop = Callable[[Standoff, Sequence[str]], End | None]


def duel(terms: Terms, current: Tallies, known: Tallies) -> Duel:
    """Compare a candidate with the ``current`` skill's tallies; ``known`` are some of its own.

    Known results are used in place of attempts, in the same order.
    """
    state = Standoff({}, current)
    stop = _strict_stop(terms) if terms.settings.policy == "strict" else _doubtful_stop(terms, 1)
    state, end = yield from _Round(terms, known, stop).measure(state, terms.order)
    if terms.settings.policy == "strict" or end is not None:
        return Outcome(end or "measured", state)
    return (yield from _test(state, terms))


def _test(state: Standoff, terms: Terms) -> Duel:
    """Test after each round whether the candidate is better; attempt close cases again."""
    for number in range(1, terms.rounds + 1):
        differences = [one - terms.margin for one in state.differences(terms)]
        p_value = sign_flip_p(differences)
        if p_value <= terms.alpha:
            end: End = "measured" if number == terms.rounds else "convinced"
            return Outcome(end, state, True, p_value, number)
        close = _deciding(state, terms)
        if number == terms.rounds or not close:
            return Outcome("measured", state, False, p_value, number)
        if _hopeless(state, terms, number):
            return Outcome("futile", state, False, p_value, number)
        again = _Round(terms, {}, lambda *_: None, both=True)
        state, _ = yield from again.measure(state, close)
    raise AssertionError("the last round ends the duel")


@dataclass(frozen=True, slots=True)
class _Round:
    """How tasks are measured once: what is ``known`` is not asked, ``both`` sides may be."""

    terms: Terms
    known: Tallies
    stop: Stop
    both: bool = False

    def ends(self, state: Standoff, left: Sequence[str]) -> End | None:
        """Why it ends before the tasks that are ``left``, if it does."""
        return self.stop(state, left) if self.terms.settings.early_stop else None

    def missing(self, lot: Sequence[str]) -> tuple[str, ...]:
        """The tasks of a lot that have to be attempted."""
        return tuple(task for task in lot if task not in self.known)

    def measure(
        self, state: Standoff, tasks: Sequence[str]
    ) -> Generator[Ask, Answer, tuple[Standoff, End | None]]:
        """Measure ``tasks`` in lots, looking at the results after each."""
        settings = self.terms.settings
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
        self, state: Standoff, lots: Sequence[Sequence[str]], found: Scores
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


def _ask(state: Standoff, tasks: Sequence[str], both: bool) -> Ask:
    def numbered(side: Tallies) -> tuple[tuple[str, int], ...]:
        return tuple((task, side[task].count if task in side else 0) for task in tasks)

    return Ask(numbered(state.candidate), numbered(state.current) if both else ())


def _with_known(state: Standoff, lot: Sequence[str], known: Tallies) -> Standoff:
    here = {task: known[task] for task in lot if task in known}
    if not here:
        return state
    return replace(state, candidate={**state.candidate, **here}, asked=(*state.asked, *here))


def _taken(state: Standoff, tasks: Sequence[str], answer: Answer, both: bool) -> Standoff:
    return Standoff(
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


def _strict_stop(terms: Terms) -> Stop:
    def stop(state: Standoff, left: Sequence[str]) -> End | None:
        room = _room(state, terms, left)
        lost = cannot_win(state.differences(terms), room, terms.bonus, tie_wins=terms.tie_wins)
        return "certain" if left and lost else None

    return stop


def _doubtful_stop(terms: Terms, number: int) -> Stop:
    settings = terms.settings

    def stop(state: Standoff, left: Sequence[str]) -> End | None:
        if not left:
            return None
        seen, room = state.differences(terms), _room(state, terms, left)
        if terms.rounds == 1 and cannot_convince(seen, room, terms.alpha, terms.margin):
            return "certain"
        to_come = [
            ToCome(float(terms.worth(state.current[task])), terms.rates[task])
            for task in left
            if task in terms.eligible
        ]
        return "futile" if chance(seen, to_come, _aim(terms, number)) < settings.futility else None

    return stop


def _hopeless(state: Standoff, terms: Terms, number: int) -> bool:
    if not terms.settings.futility:
        return False
    return chance(state.differences(terms), (), _aim(terms, number)) < terms.settings.futility


def _aim(terms: Terms, number: int) -> Aim:
    return Aim(
        margin=float(terms.margin),
        effect=max(terms.settings.effect, float(terms.margin)),
        alpha=terms.alpha,
        done=number,
        rounds=terms.rounds - number,
    )


def _room(state: Standoff, terms: Terms, left: Sequence[str]) -> list[Fraction]:
    """The most that the candidate can still gain on each of the tasks that are left."""
    return [1 - terms.worth(state.current[task]) for task in left if task in terms.eligible]


def _deciding(state: Standoff, terms: Terms) -> tuple[str, ...]:
    """The tasks on which not all attempts under both skills came to the same."""
    return tuple(
        task
        for task in terms.order
        if task in terms.eligible
        and task in state.candidate
        and not _settled(terms.worth(state.candidate[task]), terms.worth(state.current[task]))
    )


def _settled(candidate: Fraction, current: Fraction) -> bool:
    return candidate == current and candidate in (0, 1)
