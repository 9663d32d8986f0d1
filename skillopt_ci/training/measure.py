"""Measure: roll out one skill on tasks and summarise the scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeVar

from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import ModelSetupError, TooManyErrors
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.progress import Note, StageAdvanced, StageFinished, StageStarted, silent
from skillopt_ci.rollout.metrics import mean_scores
from skillopt_ci.rollout.types import AttemptRequest, Rollout, Status
from skillopt_ci.scorers.base import FAILS_GRADER, brief
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import as_read, semantic_density
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import capitalized, score_text
from skillopt_ci.training.run_context import OpenModels, Run

Number = TypeVar("Number", float, Fraction)

#: A float stands for the nearest fraction with at most this denominator. Fractions add up exactly
#: where floats do not (0.1 + 0.2 > 0.3), so that rounding cannot turn a tie into a gain.
_PARTS = 1_000_000


# a comparison converts the same few scores again and again
@lru_cache(maxsize=4096)
def exact(score: float) -> Fraction:
    return Fraction(score).limit_denominator(_PARTS)


def gate_score(
    hard: Number, soft: Number, metric: Literal["hard", "soft", "mixed"], weight: Number
) -> Number:
    """Combine ``hard`` and ``soft`` in the gate's metric; ``weight`` is that of soft in a mix."""
    if metric == "mixed":
        return (1 - weight) * hard + weight * soft
    return hard if metric == "hard" else soft


# Attempts are numbered, so that a repetition is always deliberate.


def rounds(
    tasks: Iterable[tuple[Task, int]], skill: str, stage: str, each: int
) -> tuple[AttemptRequest, ...]:
    """The attempts of the rounds given as (task, number), ``each`` attempts per round."""
    return tuple(
        AttemptRequest(task, skill, stage, attempt)
        for task, number in tasks
        for attempt in range(number * each, (number + 1) * each)
    )


def round_of(
    run: Run, tasks: Iterable[Task], skill: str, stage: str, number: int = 0
) -> tuple[AttemptRequest, ...]:
    """The attempts of one round at ``tasks``; a new ``number`` means fresh answers."""
    return rounds(((task, number) for task in tasks), skill, stage, run.config.rollout.attempts)


def made_under(
    skill_sha256: str, basis: str | None, records: Iterable[StepRecord]
) -> list[tuple[str, int]]:
    """The measured training attempts in ``records`` under this skill, and ``basis`` if given."""
    return [
        (task.id, task.attempt)
        for record in records
        if record.proposal.attempted_under == skill_sha256
        and (basis is None or record.basis_sha256 == basis)
        for task in record.proposal.rollout.tasks
        if task.status.measured
    ]


def next_rounds(
    tasks: Iterable[Task], made: Iterable[tuple[str, int]], each: int
) -> list[tuple[Task, int]]:
    """A new round, as (task, number), at each of ``tasks``; a task given twice gets two.

    ``made`` has (task id, attempt): a step would learn nothing from attempts that it has seen.
    """
    # the highest attempt of each task: the dictionary keeps the one that comes last
    latest, fresh = dict(sorted(made, key=lambda one: one[1])), list[tuple[Task, int]]()
    for task in tasks:
        number = latest.get(task.id, -1) // each + 1
        latest[task.id] = number * each
        fresh.append((task, number))
    return fresh


#: Mean (hard, soft) scores by task under one skill; tasks that could not be measured are missing.
TaskScores = Mapping[str, tuple[float, float]]


def worth(evaluation: Evaluation, scores: tuple[float, float]) -> Fraction:
    """The gate's metric of (hard, soft), from 0 to 1."""
    weight = exact(evaluation.gate_mixed_weight)
    return gate_score(exact(scores[0]), exact(scores[1]), evaluation.gate_metric, weight)


def clusters_of(tasks: Sequence[Task]) -> dict[str, str] | None:
    """The cluster of each task from its metadata; None unless all tasks have one."""
    named = {task.id: task.metadata.get("cluster") for task in tasks}
    return None if None in named.values() else {task: str(name) for task, name in named.items()}


def text_of(skill: str, evaluation: Evaluation) -> tuple[float, int]:
    """The density of leading words (0 if unused) and the length in words of a skill as read."""
    read, dense = as_read(skill), evaluation.use_semantic_density
    return semantic_density(read, evaluation.leading_words) if dense else 0.0, word_count(read)


async def measure(
    run: Run,
    models: OpenModels,
    skill: str,
    tasks: Sequence[Task],
    *,
    stage: str = "selection",
    number: int = 0,
    seen: Callable[[Rollout], object] = silent,
    baseline: bool = False,
) -> Measurement:
    """Roll out ``tasks`` under ``skill`` and return the scores per task and their mean.

    ``number`` is that of the round, see :func:`round_of`. ``seen`` is called with every rollout;
    none is kept. Raises TooManyErrors if too many could not be measured, and ModelSetupError if the
    target refused every task of a ``baseline``, which would compare as 0.
    """
    runner, evaluation = models.runner, run.config.evaluation
    requests = round_of(run, tasks, skill, stage, number)
    run.observer(StageStarted(stage, len(requests)))
    scores, blank = Scores(task.id for task in tasks), list[bool]()
    async with aclosing(runner.stream(requests)) as rollouts:
        async for one in rollouts:
            scores.add(one)
            seen(one)
            tools = any(m.tool_calls or m.role == "tool" for m in one.messages)  # files may answer
            if one.status in (Status.SCORED, Status.LIMIT) and one.messages and not tools:
                blank.append(not one.messages[-1].content.strip())
            run.observer(StageAdvanced(stage, one.task_id))
    if baseline and 0 < scores.made.total() == scores.refused.total():
        raise ModelSetupError(
            f"model.target refused every {stage} task: {scores.refused.most_common(1)[0][0]}",
            hint="Shorten or reword the skill or tasks, use a longer context, or relax the filter.",
        )
    scores.finish(run, stage, above=0.0)
    if blank and all(blank):
        told = (
            f"All {len(blank)} answers of the target were empty. Check that it is a chat model or "
            "a command that prints answers. If it reasons, raise model.target.max_output_tokens."
        )
        run.observer(Note(told, level="warning"))
    found = scores.measurement(evaluation, skill, runner.caveat)
    score = found.score if stage == "selection" else found.hard  # tests decide nothing
    run.observer(StageFinished(stage, score_text(score, found.n)))
    return found


#: At most this many reasons are recorded, the most common ones.
_REASONS = 20


class Scores:
    """The scores and errors of ``rollouts``, by task in the order of ``ids``."""

    def __init__(self, ids: Iterable[str] = (), rollouts: Iterable[Rollout] = ()) -> None:
        self.made: Counter[str] = Counter()
        self.failed: Counter[tuple[Status, str]] = Counter()
        self.refused, self.ungraded = Counter[str](), Counter[str]()
        self._measured: dict[str, list[tuple[float, float]]] = {task: [] for task in ids}
        self._limits: Counter[str] = Counter()
        self.add(*rollouts)

    def add(self, *rollouts: Rollout) -> None:
        for rollout in rollouts:
            self.made[rollout.task_id] += 1
            measured = self._measured.setdefault(rollout.task_id, [])
            if rollout.status.measured:
                measured.append((rollout.hard, rollout.soft))
            else:
                self.failed[rollout.status, rollout.reason] += 1
            if rollout.limit is not None:
                self._limits[rollout.limit.value] += 1
            if rollout.status is Status.REFUSED:
                self.refused[rollout.reason] += 1
            elif FAILS_GRADER in rollout.reason:
                self.ungraded[rollout.reason] += 1

    def refuse_errors(self, limit: float, stage: str, expected: int | None = None) -> None:
        """Raise TooManyErrors if a share above ``limit``, or everything, is unmeasured.

        With ``expected``, the share is of as many attempts, of which some may be still to come.
        """
        errors, made = self.failed.total(), self.made.total()
        all_failed = expected is None and 0 < made == errors
        if not all_failed and errors <= limit * max(made, expected or 0):
            return
        reasons = Counter(reason for _, reason in self.failed.elements())
        raise TooManyErrors(
            f"{errors:,} of {made:,} {stage} attempts could not be measured "
            f"(evaluation.max_error_rate is {limit:g}). Most often: {reasons.most_common(1)[0][0]}",
            hint="None of this is recorded. Every paid answer is kept: fix the cause, then rerun.",
        )

    def finish(self, run: Run, stage: str, expected: int | None = None, above: float = 0.5) -> None:
        """Refuse errors; warn if a larger share than ``above`` was refused or made graders fail."""
        self.refuse_errors(run.config.evaluation.max_error_rate, stage, expected)
        made = self.made.total()
        for bad, how in ((self.refused, "were refused"), (self.ungraded, "made their grader fail")):
            if bad.total() > above * made:
                told = f"{bad.total():,} of {made:,} {stage} attempts {how}, which scores 0. "
                run.observer(Note(told + capitalized(bad.most_common(1)[0][0]), level="warning"))

    def means(self, each: int = 1, tasks: Iterable[str] = ()) -> dict[str, tuple[float, float]]:
        """Mean (hard, soft) of ``tasks``, or all, that were measured with ``each`` attempts."""
        return {
            task: mean_scores(scores)
            for task in tasks or self._measured
            if (scores := self._measured[task]) and self.made[task] >= each
        }

    def measurement(self, evaluation: Evaluation, skill: str = "", caveat: str = "") -> Measurement:
        errors = tuple(task for task, scores in self._measured.items() if not scores)
        return self.described(measurement_of(self.means(), errors, evaluation, skill), caveat)

    def described(self, found: Measurement, caveat: str) -> Measurement:
        """``found`` with details of the attempts behind it."""
        rows = [
            mean_scores([*scores, *[(0.0, 0.0)] * (self.made[task] - len(scores))])
            for task, scores in self._measured.items()
            if self.made[task]
        ]
        # a part may have been measured before
        rows += [pair for task, pair in found.tasks.items() if not self.made[task]]
        hard, soft = mean_scores(rows) if self.failed else (None, None)
        reasons = sorted(self.failed.items(), key=lambda row: (-row[1], row[0]))[:_REASONS]
        return found.model_copy(
            update={
                # the maximum, since infrastructure errors may have lost some
                "attempts_each": max(self.made.values(), default=1),
                "pessimistic_hard": hard,
                "pessimistic_soft": soft,
                "unmeasured": {f"{status}: {brief(why)}": n for (status, why), n in reasons},
                "limits": dict(sorted(self._limits.items())),
                "caveat": caveat,
            }
        )


def measurement_of(
    scores: TaskScores, errors: Sequence[str], evaluation: Evaluation, skill: str, planned: int = 0
) -> Measurement:
    density, words = text_of(skill, evaluation)
    hard, soft = mean_scores(list(scores.values()))
    mean = gate_score(hard, soft, evaluation.gate_metric, evaluation.gate_mixed_weight)
    return Measurement(
        hard=hard,
        soft=soft,
        score=mean + evaluation.semantic_density_weight * density,
        density=density,
        words=words,
        tasks=dict(scores),
        errors=tuple(errors),
        planned=planned,
    )
