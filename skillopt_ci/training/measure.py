"""Evaluate: one skill text on a list of tasks."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol, TypeVar

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.progress import Note, Observer, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.runner import Runner, refuse_errors
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.scorers.base import one_line
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import as_read, semantic_density
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import score_text
from skillopt_ci.training.attempts import round_of

# Gate: whether a candidate becomes the current skill.

Metric = Literal["hard", "soft", "mixed"]
Number = TypeVar("Number", float, Fraction)

#: A score is a share: so many parts right of so many. The nearest share with at most this many
#: parts is the one that was meant by the float, and shares add up exactly where floats do not
#: (0.1 + 0.2 is more than 0.3): a tie must not pass for a gain because of rounding.
_PARTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Contender:
    """A skill at the gate: its (hard, soft) ``scores``, and what counts of its text.

    ``density`` is its share of leading words (0 to 1), ``words`` its length.
    """

    scores: Sequence[tuple[float, float]]
    density: float = 0.0
    words: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a candidate; ``reason`` is the arithmetic in words.

    ``candidate`` and ``current`` are the gate scores that were compared. ``beats_best`` says
    whether the candidate is better than the best skill, also where the gate stands open.
    """

    action: Literal["accept_new_best", "accept", "accept_notes", "force_accept", "reject"]
    reason: str
    candidate: float
    current: float
    beats_best: bool = False


class Gate(Protocol):
    """Decides on a candidate, like :func:`decide`."""

    def __call__(
        self, candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
    ) -> Verdict:
        """Return the verdict."""
        ...


def gate_score(hard: Number, soft: Number, metric: Metric, weight: Number) -> Number:
    """The mean ``hard`` and ``soft`` score in the gate's metric; ``weight`` is soft's in a mix."""
    if metric == "mixed":
        return (1 - weight) * hard + weight * soft
    return hard if metric == "hard" else soft


def decide(
    candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
) -> Verdict:
    """Judge the candidate by its scores and those of the current and best skill.

    All three must be over the same, at least one, tasks. Only a mean strictly above the current
    skill's is accepted: a tie would change the document without evidence. The configuration may
    prefer the shorter document of two that tie, or open the gate.
    """
    ours, theirs, record = (score(one, evaluation) for one in (candidate, current, best))
    told, scores = _told(ours, theirs, len(candidate.scores)), (float(ours), float(theirs))
    beats_best = ours > record or (ours == record and _shorter(candidate, best, evaluation))
    if not evaluation.use_gate:
        return Verdict("force_accept", f"{told}, taken over in any case", *scores, ours > record)
    if ours == theirs and _shorter(candidate, current, evaluation):
        told = f"{told}, but {current.words - candidate.words} words shorter"
    elif ours <= theirs:
        return Verdict("reject", told, *scores)
    if beats_best:
        return Verdict("accept_new_best", told, *scores, beats_best)
    told = f"{told}, but not above the best skill's {_digits(record)}"
    return Verdict("accept", told, *scores)


def admit_notes(
    candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
) -> Verdict:
    """Judge a candidate that only adds reminders: it stays unless it scores lower.

    With the gate open it stays in any case.
    """
    ours, theirs, record = (score(one, evaluation) for one in (candidate, current, best))
    told, scores = _told(ours, theirs, len(candidate.scores)), (float(ours), float(theirs))
    if ours >= theirs:
        return Verdict("accept_notes", f"{told}: the notes do no harm", *scores, ours > record)
    if not evaluation.use_gate:
        return Verdict("accept_notes", f"{told}, notes are kept in any case", *scores)
    return Verdict("reject", told, *scores)


def score(contender: Contender, evaluation: Evaluation) -> Fraction:
    """The exact gate score: the mean in the configured metric, and the bonus for density."""
    count = len(contender.scores)
    hard = sum((exact(hard) for hard, _ in contender.scores), Fraction()) / count
    soft = sum((exact(soft) for _, soft in contender.scores), Fraction()) / count
    mean = gate_score(hard, soft, evaluation.gate_metric, exact(evaluation.gate_mixed_weight))
    if not evaluation.use_semantic_density:
        return mean
    return mean + exact(evaluation.semantic_density_weight) * exact(contender.density)


def _shorter(one: Contender, other: Contender, evaluation: Evaluation) -> bool:
    return evaluation.ties == "prefer_shorter" and one.words < other.words


# a duel asks this of the same few scores again and again
@lru_cache(maxsize=4096)
def exact(score: float) -> Fraction:
    """The share that a float stands for."""
    return Fraction(score).limit_denominator(_PARTS)


def _told(ours: Fraction, theirs: Fraction, count: int) -> str:
    tasks = "1 task" if count == 1 else f"{count} tasks"
    if ours == theirs:
        return f"{_digits(ours)} is the same as the current skill's score on {tasks}"
    word, gain = "above" if ours > theirs else "below", abs(float(ours - theirs))
    return f"{_digits(ours)} is {gain:.4g} {word} the current skill's {_digits(theirs)} on {tasks}"


def _digits(score: Fraction) -> str:
    return f"{float(score):.4f}"


# Tally: what attempts at one task came to, and what that counts for in the gate's metric.


@dataclass(frozen=True, slots=True)
class Tally:
    """Mean scores over ``count`` measured attempts at a task under one skill."""

    hard: float
    soft: float
    count: int = 1

    def plus(self, hard: float, soft: float) -> "Tally":
        """The tally with one more attempt."""
        count = self.count + 1
        return Tally(
            (self.hard * self.count + hard) / count, (self.soft * self.count + soft) / count, count
        )


#: Tallies by task; a task that could not be measured is not there.
Tallies = Mapping[str, Tally]

#: What a tally is worth, from 0 to 1.
Worth = Callable[[Tally], Fraction]


def worth_in(evaluation: Evaluation) -> Worth:
    """What a tally is worth in the metric of the gate, as an exact number."""
    metric, weight = evaluation.gate_metric, exact(evaluation.gate_mixed_weight)

    def worth(tally: Tally) -> Fraction:
        return gate_score(exact(tally.hard), exact(tally.soft), metric, weight)

    return worth


def tallies(measurement: Measurement) -> dict[str, Tally]:
    """The tallies that a measurement consists of."""
    return {
        task: Tally(hard, soft, measurement.attempts.get(task, 1))
        for task, (hard, soft) in measurement.tasks.items()
    }


@dataclass(frozen=True, slots=True)
class Text:
    """What counts of a skill's text besides its scores: density of leading words, length."""

    density: float
    words: int


def text_of(skill: str, evaluation: Evaluation) -> Text:
    """Measure the text itself, as the target reads it."""
    read = as_read(skill)
    dense = evaluation.use_semantic_density
    density = semantic_density(read, evaluation.leading_words) if dense else 0.0
    return Text(density, word_count(read))


#: So many different reasons are recorded, the commonest ones.
_REASONS = 20


async def measure(
    skill: str,
    tasks: Sequence[Task],
    *,
    runner: Runner,
    evaluation: Evaluation,
    observer: Observer,
    stage: str = "selection",
    attempt: int = 0,
    seen: Callable[[Rollout], object] = lambda _: None,
) -> Measurement:
    """Roll out ``tasks`` under ``skill`` and return the scores per task and in the mean.

    ``attempt`` is the number of the round: another number means fresh answers. ``seen`` hears of
    every attempt as it comes; none of them is kept. Raises
    :class:`~skillopt_ci.errors.TooManyErrors` when too many could not be measured.
    """
    observer(StageStarted(stage, len(tasks) * runner.attempts))
    scores, empty = Scores(task.id for task in tasks), Counter[bool]()
    numbers = round_of(attempt, runner.attempts)
    rollouts = runner.stream(tasks, skill, stage=stage, attempts=numbers)
    async with aclosing(rollouts):
        async for one in rollouts:
            scores.add(one)
            seen(one)
            if one.status is Status.SCORED and one.messages:
                empty[not one.messages[-1].content.strip()] += 1
            observer(StageAdvanced(stage, one.task_id))
    refuse_errors(scores.reasons, scores.total, evaluation.max_error_rate, stage)
    if (note := all_empty(empty[True], empty.total())) is not None:
        observer(note)
    result = measurement_from(scores, evaluation, skill, caveat=runner.caveat)
    observer(StageFinished(stage, score_text(result.score, result.n)))
    return result.model_copy(update={"first_attempt": attempt})


class Scores:
    """What is kept of attempts at the tasks ``ids``: sums, in the order of the ids."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._measured: dict[str, list[tuple[float, float]]] = {task: [] for task in ids}
        self._made: Counter[str] = Counter()
        self._failed: Counter[tuple[Status, str]] = Counter()
        self.limits: Counter[str] = Counter()

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> "Scores":
        """What is kept of ``rollouts``."""
        scores = cls(())
        for rollout in rollouts:
            scores.add(rollout)
        return scores

    def add(self, rollout: Rollout) -> None:
        """Count an attempt."""
        self._made[rollout.task_id] += 1
        if rollout.status.measured:
            scores = (rollout.hard, rollout.soft)
            self._measured.setdefault(rollout.task_id, []).append(scores)
        else:
            self._measured.setdefault(rollout.task_id, [])
            self._failed[rollout.status, rollout.reason] += 1
        if rollout.limit is not None:
            self.limits[rollout.limit.value] += 1

    @property
    def total(self) -> int:
        """The attempts."""
        return self._made.total()

    @property
    def attempts(self) -> int:
        """The attempts at each task; the most, where infrastructure lost some."""
        return max(self._made.values(), default=1)

    @property
    def reasons(self) -> Counter[str]:
        """Why attempts were not measured."""
        found: Counter[str] = Counter()
        for (_, reason), count in self._failed.items():
            found[reason] += count
        return found

    def unmeasured(self) -> dict[str, int]:
        """The same with the kind of error, each on a line, the commonest ones first."""
        rows = sorted(self._failed.items(), key=lambda row: (-row[1], row[0]))
        return {f"{status}: {one_line(why)}": count for (status, why), count in rows[:_REASONS]}

    def means(self) -> dict[str, tuple[float, float]]:
        """Mean hard and soft score of the measured attempts at each task that has any."""
        return {task: _means(scores) for task, scores in self._measured.items() if scores}

    def missing(self) -> tuple[str, ...]:
        """The tasks of which no attempt was measured."""
        return tuple(task for task, scores in self._measured.items() if not scores)

    def pessimistic(self) -> tuple[float | None, float | None]:
        """The means over all tasks if what was not measured had failed; None if all was measured.

        A skill under which hard tasks break the infrastructure gains nothing by this number.
        """
        if not self._failed:
            return None, None
        rows = [
            _means([*scores, *[(0.0, 0.0)] * (self._made[task] - len(scores))])
            for task, scores in self._measured.items()
            if self._made[task]
        ]
        return _means(rows)


def measurement(
    rollouts: Sequence[Rollout], evaluation: Evaluation, skill: str = ""
) -> Measurement:
    """The measurement of ``skill`` that ``rollouts`` amount to, its score in the gate's metric."""
    return measurement_from(Scores.of(rollouts), evaluation, skill)


def measurement_from(
    scores: Scores, evaluation: Evaluation, skill: str = "", *, caveat: str = ""
) -> Measurement:
    """The measurement of ``skill`` that ``scores`` amount to."""
    found = {task: Tally(hard, soft) for task, (hard, soft) in scores.means().items()}
    return with_reservations(
        measurement_of(found, scores.missing(), evaluation, skill), scores, caveat
    )


def with_reservations(found: Measurement, scores: Scores, caveat: str = "") -> Measurement:
    """The measurement with what is to be said of the attempts that it stands on."""
    pessimistic_hard, pessimistic_soft = scores.pessimistic()
    return found.model_copy(
        update={
            "attempts_each": scores.attempts,
            "pessimistic_hard": pessimistic_hard,
            "pessimistic_soft": pessimistic_soft,
            "unmeasured": scores.unmeasured(),
            "limits": dict(sorted(scores.limits.items())),
            "caveat": caveat,
        }
    )


def measurement_of(
    tallies: Mapping[str, Tally],
    errors: Sequence[str],
    evaluation: Evaluation,
    skill: str,
    planned: int = 0,
    first_attempt: int = 0,
) -> Measurement:
    """The measurement of ``skill`` that ``tallies`` amount to, its score in the gate's metric."""
    text, rows = text_of(skill, evaluation), [(one.hard, one.soft) for one in tallies.values()]
    hard, soft = _means(rows)
    mean = gate_score(hard, soft, evaluation.gate_metric, evaluation.gate_mixed_weight)
    lost = [*rows, *[(0.0, 0.0)] * len(errors)]
    pessimistic = _means(lost) if errors else (None, None)
    return Measurement(
        hard=hard,
        soft=soft,
        score=mean + evaluation.semantic_density_weight * text.density,
        density=text.density,
        words=text.words,
        tasks={task: (one.hard, one.soft) for task, one in tallies.items()},
        errors=tuple(errors),
        planned=planned,
        attempts={task: one.count for task, one in tallies.items() if one.count > 1},
        first_attempt=first_attempt,
        pessimistic_hard=pessimistic[0],
        pessimistic_soft=pessimistic[1],
    )


def _means(scores: Sequence[tuple[float, float]]) -> tuple[float, float]:
    if not scores:
        return 0.0, 0.0
    return (
        math.fsum(hard for hard, _ in scores) / len(scores),
        math.fsum(soft for _, soft in scores) / len(scores),
    )


def all_empty(empty: int, scored: int) -> Note | None:
    """What to say of a model that answers nothing; such answers score 0, for whatever reason."""
    if not scored or empty < scored:
        return None
    return Note(
        f"All {scored} answers of the target were empty. A reasoning model may have spent "
        "its tokens before it answered: raise model.target.max_output_tokens, or check that "
        "the model is one for chat.",
        level="warning",
    )
