"""When the rejection of a candidate is certain before all tasks are measured."""

import math
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from statistics import NormalDist
from typing import Literal

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.ledger.records import GateRecord, Measurement
from skillopt_ci.stats import normal_threshold, sign_flip_p
from skillopt_ci.training.measure import (
    Gate,
    Tallies,
    Tally,
    Verdict,
    Worth,
    admit_notes,
    exact,
    tallies,
    text_of,
    worth_in,
)


def cannot_win(
    seen: Sequence[Fraction], room: Sequence[Fraction], bonus: Fraction, *, tie_wins: bool
) -> bool:
    """Whether a higher mean is out of reach, whatever the tasks that are left come to.

    ``seen`` are differences of scores, candidate minus current, ``room`` the most that each task
    still to come can add, ``bonus`` what the candidate is ahead by besides tasks (or behind, when
    negative). Any of the tasks to come may also end in an error and count for neither side. If
    ``tie_wins``, an equal mean is a win as well.
    """
    total, count = sum(seen, Fraction()), len(seen)
    best = [total, *_running(total, sorted(room, reverse=True))]
    # the sign of gain / (count + more) + bonus, without dividing fractions
    leads = (gain + bonus * (count + more) for more, gain in enumerate(best) if count + more)
    return all(lead < 0 if tie_wins else lead <= 0 for lead in leads)


def cannot_convince(
    seen: Sequence[Fraction], room: Sequence[Fraction], alpha: float, margin: Fraction
) -> bool:
    """Whether the sign-flip test's p cannot reach ``alpha``, whatever the tasks that are left.

    ``margin`` is the gain that the test must be sure of. The p-value never rises with a
    difference, so that the best outcome of each task decides.
    """
    best = [one - margin for one in seen] + [max(one - margin, Fraction()) for one in room]
    return sign_flip_p(best) > alpha


def _running(total: Fraction, gains: Sequence[Fraction]) -> list[Fraction]:
    sums: list[Fraction] = []
    for gain in gains:
        total += gain
        sums.append(total)
    return sums


# When a candidate would hardly be accepted any more: stopping then can only lower false
# accepts.

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ToCome:
    """A task that is still to be measured: its score under the current skill, its usual score."""

    current: float
    rate: float


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be shown: a gain above ``margin`` at ``alpha``, if the gain really is ``effect``.

    ``rounds`` are left after this one (``done`` with this one), in which noise averages out.
    """

    margin: float
    effect: float
    alpha: float
    done: int = 1
    rounds: int = 0


def chance(seen: Sequence[Fraction], to_come: Sequence[ToCome], aim: Aim) -> float:
    """The chance that the round ends in acceptance, or where another round is worth while."""
    known = [float(one) - aim.margin for one in seen]
    rates = [min(1.0, task.rate + aim.effect) for task in to_come]
    means = [rate - task.current - aim.margin for rate, task in zip(rates, to_come, strict=True)]
    variance = math.fsum(rate * (1 - rate) for rate in rates)
    squares = math.fsum(one * one for one in (*known, *means)) + variance
    expected = math.fsum((*known, *means))
    needed = _needed(squares, len(known) + len(means), aim)
    if variance == 0:
        return float(expected >= needed)
    return _NORMAL.cdf((expected - needed) / math.sqrt(variance))


def _needed(squares: float, count: int, aim: Aim) -> float:
    """The sum of differences that is accepted, or that leaves hope for the rounds to come."""
    accepted = normal_threshold(squares, aim.alpha)
    if not aim.rounds or count == 0:
        return accepted
    share = aim.done / (aim.done + aim.rounds)
    final = accepted * math.sqrt(share)
    spread = math.sqrt(squares * share * (1 - share))
    hoped = (aim.effect - aim.margin) * count * (1 - share)
    return min(accepted, (final - hoped - spread * _HOPE) / share)


#: How many standard deviations of luck the rounds to come may bring.
_HOPE = 1.0


# Duel: a candidate against the current skill, task by task, until the verdict is clear.

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


# A duel whose results are all known beforehand.


def known_duel(terms: Terms, current: Tallies, candidate: Tallies) -> bool:
    """Whether ``candidate`` wins its first round; further rounds would need new attempts."""
    once = terms.settings.model_copy(update={"attempts": 1, "early_stop": False})
    about = replace(terms, settings=once)
    battle = duel(about, current, candidate)
    try:
        next(battle)
        while True:
            battle.send(Answer({}))
    except StopIteration as done:
        outcome = done.value
    if once.policy != "strict":
        return bool(outcome.convincing)
    gain = sum(outcome.standoff.differences(about), Fraction()) + about.bonus
    return gain >= 0 if about.tie_wins else gain > 0


# The arithmetic of a duel, as it is recorded.


def gate_record(outcome: Outcome, terms: Terms, losses: dict[str, float]) -> GateRecord:
    """What is remembered of a duel."""
    standoff, settings = outcome.standoff, terms.settings
    differences = standoff.differences(terms)
    doubts = settings.policy != "strict"
    return GateRecord(
        policy=settings.policy,
        planned=len(terms.order),
        compared=len(differences),
        difference=float(_record_mean(differences)),
        standard_error=_standard_error(differences),
        p_value=outcome.p_value,
        alpha=terms.alpha if doubts else None,
        margin=settings.min_effect if doubts else 0.0,
        confidence=settings.confidence if doubts else None,
        rounds=outcome.rounds,
        end=outcome.end,
        candidate_attempts=standoff.candidate_attempts,
        current_attempts=standoff.current_attempts,
        saved=len(terms.order) - len(standoff.asked),
        losses=losses,
    )


def _record_mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / max(1, len(values))


def _standard_error(values: Sequence[Fraction]) -> float | None:
    count, mean = len(values), _record_mean(values)
    if count <= 1:
        return None
    variance = sum((one - mean) ** 2 for one in values) / (count - 1)
    return math.sqrt(variance / count)


# No-regression guard: a gain on the whole may not be paid for by one type of task.


def losses(
    standoff: Standoff, terms: Terms, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    """The types of task whose mean score fell by more than ``allowed``, and by how much.

    Tasks without a type are no type. None allows any loss.
    """
    if allowed is None:
        return {}
    groups: dict[str, list[Fraction]] = {}
    for task in terms.order:
        if task in terms.eligible and task in standoff.candidate and types.get(task):
            ours, theirs = standoff.candidate[task], standoff.current[task]
            groups.setdefault(types[task], []).append(terms.worth(ours) - terms.worth(theirs))
    limit = Fraction(allowed).limit_denominator(1_000_000)
    lost = {kind: -_regression_mean(differences) for kind, differences in sorted(groups.items())}
    return {kind: float(loss) for kind, loss in lost.items() if loss > limit}


def _regression_mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / len(values)


# Rehearsal: duels with dice in place of models, to see how often a gate errs and what it takes.


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Of ``trials`` duels, the share that was accepted and the attempts that one took."""

    trials: int
    accepted: float
    attempts: float


def rehearse(
    rates: Sequence[float], lift: float, settings: GateConfig, trials: int, seed: int
) -> Rehearsed:
    """Let a candidate that is better by ``lift`` meet a skill that solves tasks at ``rates``."""
    known = {str(number): rate for number, rate in enumerate(rates)}
    better = dict(zip(known, lifted(rates, lift), strict=True))
    dice, wins, made = random.Random(seed), 0, 0
    for _ in range(trials):
        outcome, attempts = _fight(known, better, settings, dice)
        wins += _wins(outcome, settings)
        made += attempts
    return Rehearsed(trials, wins / trials, made / trials)


def lifted(rates: Sequence[float], lift: float) -> list[float]:
    """Rates whose mean is higher by ``lift``, as far as there is room for it.

    Every task gains the same share of what is left to gain on it (or loses, for a negative lift).
    """
    room = [1 - rate if lift > 0 else rate for rate in rates]
    share = min(1.0, abs(lift) * len(rates) / sum(room)) if sum(room) else 0.0
    sign = 1 if lift > 0 else -1
    return [rate + sign * share * left for rate, left in zip(rates, room, strict=True)]


def _fight(
    known: Mapping[str, float],
    better: Mapping[str, float],
    settings: GateConfig,
    dice: random.Random,
) -> tuple[Outcome, int]:
    current = {task: _draw(rate, dice) for task, rate in known.items()}
    terms = Terms(
        order=tuple(sorted(known, key=lambda task: known[task])),
        eligible=frozenset(known),
        rates=known,
        worth=worth_in(Evaluation()),
        settings=settings,
    )
    battle, made = duel(terms, {task: Tally(*one) for task, one in current.items()}, {}), 0
    try:
        ask: Ask = next(battle)
        while True:
            made += len(ask.candidate) + len(ask.current)
            ask = battle.send(
                Answer(
                    {task: _draw(better[task], dice) for task, _ in ask.candidate},
                    {task: _draw(known[task], dice) for task, _ in ask.current},
                )
            )
    except StopIteration as done:
        outcome: Outcome = done.value
    return outcome, made


def _wins(outcome: Outcome, settings: GateConfig) -> bool:
    if settings.policy != "strict":
        return outcome.convincing
    both = (outcome.standoff.candidate, outcome.standoff.current)
    ours, theirs = (sum(Fraction(one[task].hard) for task in both[0]) for one in both)
    return outcome.end == "measured" and ours > theirs


def _draw(rate: float, dice: random.Random) -> tuple[float, float]:
    score = float(dice.random() < rate)
    return score, score


# The terms of a duel: which tasks count, in which order they are measured, what is sought.

#: How much the mean of all tasks weighs beside what is known of a single one, in attempts.
_PRIOR_ATTEMPTS = 1.0


def terms_of(
    skill: str,
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[Tallies],
    evaluation: Evaluation,
    gate: Gate,
) -> Terms:
    """The terms on which the candidate ``skill`` meets the ``current`` one on ``planned`` tasks.

    Tasks that the skills so far solve least come first: there a candidate shows soonest that it
    gains nothing. ``past`` are the tallies of earlier candidates.
    """
    worth, text = worth_in(evaluation), text_of(skill, evaluation)
    known = tallies(current)
    mean = _terms_mean(known, evaluation)
    rates = {task: _rate(task, [known, *past], mean, evaluation) for task in planned}
    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    order = sorted(planned, key=lambda task: (task not in eligible, rates[task]))
    dense = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    shorter = evaluation.ties == "prefer_shorter" and text.words < current.words
    return Terms(
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


def _terms_mean(known: Mapping[str, Tally], evaluation: Evaluation) -> float:
    worth = worth_in(evaluation)
    return float(sum(map(worth, known.values())) / max(1, len(known)))


# What becomes of a candidate after a duel, with the arithmetic in words.

_ENDS = {"futile": "a gain was unlikely to be shown by the rest", "certain": "no gain was in reach"}


def partial_rejection(outcome: Outcome, terms: Terms, density: Fraction) -> Verdict:
    """The verdict on a candidate of which not all tasks were measured.

    Its score is an estimate: where it was not tried, it is taken to do as the current skill does.
    ``density`` is what the current skill's words add to its score.
    """
    before = _verdicts_mean(outcome.standoff.current, terms) + density
    differences = outcome.standoff.differences(terms)
    gain = sum(differences, Fraction()) / max(1, len(terms.eligible)) + terms.bonus
    told = (
        f"after {len(differences)} of {len(terms.eligible)} tasks "
        f"({_signed(sum(differences, Fraction()))} in sum) {_ENDS[outcome.end]}"
    )
    return Verdict("reject", told, float(before + gain), float(before))


def tested(outcome: Outcome, terms: Terms, density: Fraction, *, beats_best: bool) -> Verdict:
    """The verdict of the paired test on a candidate that was measured on all tasks."""
    differences = outcome.standoff.differences(terms)
    current = _verdicts_mean(outcome.standoff.current, terms, outcome.standoff.candidate) + density
    gain = sum(differences, Fraction()) / len(differences) + terms.bonus
    told = _test_in_words(outcome, terms, gain, len(differences))
    scores = float(current + gain), float(current)
    if not outcome.convincing:
        return Verdict("reject", told, *scores)
    return Verdict("accept_new_best" if beats_best else "accept", told, *scores, beats_best)


def _test_in_words(outcome: Outcome, terms: Terms, gain: Fraction, count: int) -> str:
    sure = "more than chance explains" if outcome.convincing else "not more than chance explains"
    over = f" beyond {terms.settings.min_effect:g}" if terms.settings.min_effect else ""
    p_value = 1.0 if outcome.p_value is None else outcome.p_value
    rounds = "" if outcome.rounds == 1 else f" after {outcome.rounds} rounds of attempts"
    tasks = "1 task" if count == 1 else f"{count} tasks"
    return (
        f"the difference of {_signed(gain)} on {tasks}{rounds} is {sure}{over} "
        f"(p = {p_value:.3f}, accepted at {terms.alpha:.3g} or less)"
    )


def _verdicts_mean(tallies: Tallies, terms: Terms, among: Tallies | None = None) -> Fraction:
    known = [tallies[task] for task in terms.order if _counts(task, terms, among)]
    return sum(map(terms.worth, known), Fraction()) / max(1, len(known))


def _counts(task: str, terms: Terms, among: Tallies | None) -> bool:
    return task in terms.eligible and (among is None or task in among)


def _signed(value: Fraction) -> str:
    return f"{float(value):+.4g}"
