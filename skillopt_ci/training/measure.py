"""Evaluate: one skill text on a list of tasks."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.progress import Note, Observer, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.text import score_text
from skillopt_ci.rollout.runner import Runner, refuse_errors
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.scorers.base import one_line
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import as_read, semantic_density
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.attempts import round_of
from skillopt_ci.training.gate import gate_score
from skillopt_ci.training.gates.tally import Tally


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
