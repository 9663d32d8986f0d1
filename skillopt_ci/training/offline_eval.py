"""Measure without training: score skills on a split, regrade attempts, calibrate the gate."""

import random
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from skillopt_ci.aio import map_ordered
from skillopt_ci.errors import TooManyErrors, UsageError
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, Usage
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout import metrics
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.events import AttemptTrace, attempt_traces, read_events
from skillopt_ci.rollout.types import Attempt, Status
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import plural
from skillopt_ci.training.gate import compare
from skillopt_ci.training.measure import clusters_of, measure
from skillopt_ci.training.plan import judged
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.util import pick


@dataclass(frozen=True, slots=True)
class NamedSkill:
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text)


#: The target without a skill: its prompt does not mention one, and no file is installed.
_NO_SKILL = NamedSkill("no skill", "")


@dataclass(frozen=True, slots=True)
class Evaluated:
    skill: NamedSkill
    measurement: Measurement
    summary: metrics.Statistics


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """``difference`` is second skill minus first; ``worth`` is last skill minus ``baseline``."""

    split: str
    skills: tuple[Evaluated, ...]
    difference: metrics.PairedDifference | None
    usage: Usage
    simulated: bool
    baseline: Evaluated | None = None
    worth: metrics.PairedDifference | None = None


async def evaluate_skills(
    run: Run, skills: Sequence[NamedSkill], split: str, *, baseline: bool = False
) -> EvaluationResult:
    """Roll out the tasks of ``split`` under each skill, equal texts only once.

    With ``baseline``, also without any. Raises TooManyErrors, with the number of measured tasks in
    ``details``, if there are too few.
    """
    tasks = tasks_of(run, split)
    clusters = clusters_of(tasks)
    measured: dict[str, Evaluated] = {}
    # each command has a scope of its own, which is not charged for what others paid
    async with run.models(f"{secrets.token_hex(4)} eval") as models:
        for skill in (*skills, _NO_SKILL) if baseline else skills:
            if skill.sha256 not in measured:
                measured[skill.sha256] = await _evaluate(run, models, skill, split, tasks)
    each = tuple(replace(measured[skill.sha256], skill=skill) for skill in skills)
    none = replace(measured[_NO_SKILL.sha256], skill=_NO_SKILL) if baseline else None

    def gain(one: Evaluated, other: Evaluated) -> metrics.PairedDifference:
        return metrics.paired(one.measurement.hard_scores, other.measurement.hard_scores, clusters)

    model, asks = run.config.model, judged(run.config, tasks)
    roles = (model.target, model.judge or (model.optimizer if asks else None))
    return EvaluationResult(
        split,
        each,
        difference=gain(each[0], each[1]) if len(each) > 1 else None,
        usage=models.meter.total(),
        simulated=any(role is not None and role.provider == "simulated" for role in roles),
        baseline=none,
        worth=gain(none, each[-1]) if none else None,
    )


async def _evaluate(
    run: Run, models: OpenModels, skill: NamedSkill, split: str, tasks: Sequence[Task]
) -> Evaluated:
    outcomes: list[metrics.Graded] = []
    try:
        found = await measure(
            run,
            models,
            skill.text,
            tasks,
            stage=split,
            seen=lambda one: outcomes.append(metrics.graded(one)),
        )
    except TooManyErrors as error:
        done = {one.task_id for one in outcomes if one.status.measured}
        counts = {"tasks": len(done), "errors": len({one.task_id for one in outcomes} - done)}
        error.details = {"split": split, "skills": [pick(skill, "name sha256") | counts]}
        raise
    due = dict.fromkeys((task.id for task in tasks), run.config.rollout.attempts)
    return Evaluated(
        skill, found, metrics.summarise(outcomes, expected=due, clusters=clusters_of(tasks))
    )


def tasks_of(run: Run, split: str) -> tuple[Task, ...]:
    splits = {"train": run.splits.train, "selection": run.selection, "test": run.test}
    return splits[split] if split in splits else sum(splits.values(), ())


#: Attempts with these statuses left something to grade.
_GRADED = (Status.SCORED, Status.LIMIT, Status.GRADER_ERROR)


@dataclass(frozen=True, slots=True)
class Regraded:
    """An attempt with its old and new score, None where the grader failed, and the reason."""

    trace: AttemptTrace
    before: Score | None
    after: Score | None
    reason: str


@dataclass(frozen=True, slots=True)
class Rescored:
    """All regraded attempts; ``gone`` counts those whose files are no longer stored."""

    attempts: tuple[Regraded, ...]
    gone: int
    usage: Usage


async def rescore(run: Run, *, stage: str | None = None, own_scorers: bool = True) -> Rescored:
    """Regrade the latest recorded attempts; without ``own_scorers``, all with the run's scorer."""
    tasks = {
        task.id: task if own_scorers else replace(task, scorer=None) for task in run.splits.all
    }
    found = _recorded(run, tasks, stage)
    run.observer(StageStarted("rescore", len(found)))
    async with run.models(f"{secrets.token_hex(4)} rescore") as models:

        async def one(trace: AttemptTrace) -> Regraded | None:
            regraded = await _regrade(models.runner.attempting, tasks[trace.task], trace)
            run.observer(StageAdvanced("rescore", trace.task))
            return regraded

        results = await map_ordered(one, found, limit=models.runner.slots.limit)
    graded = tuple(result for result in results if result is not None)
    run.observer(StageFinished("rescore", plural(len(graded), "attempt")))
    return Rescored(graded, len(results) - len(graded), models.meter.total())


def _recorded(run: Run, tasks: Mapping[str, Task], stage: str | None) -> list[AttemptTrace]:
    latest: dict[tuple[object, ...], AttemptTrace] = {}
    for trace in attempt_traces([] if run.events is None else read_events(run.events)):
        work, end = trace.work, trace.end
        left = work is not None and end is not None and end.get("status") in _GRADED
        if left and trace.task in tasks and stage in (None, trace.stage):
            # keep only the events that grading needs
            latest[trace.stage, trace.task, trace.attempt, trace.skill_sha256] = replace(
                trace, events=[{**(work or {}), "response": trace.response}, end or {}]
            )
    if not latest:
        wanted = f"attempt of stage {stage!r}" if stage else "attempt"
        raise UsageError(
            f"No {wanted} is recorded that could be graded again.",
            hint="Attempts are recorded in the clone that makes them.",
        )
    return list(latest.values())


async def _regrade(attempting: AttemptRunner, task: Task, trace: AttemptTrace) -> Regraded | None:
    work, end, before = trace.work or {}, trace.end or {}, None
    if end.get("status") != Status.GRADER_ERROR:
        hard, soft = float(end.get("hard") or 0.0), float(end.get("soft") or 0.0)
        before = Score(hard, soft, str(end.get("reason", "")), "")
    # an agent's files are in the store; a chat answer is in the trace itself
    attempt = Attempt((), trace.response)
    if key := str(work.get("key") or ""):
        stored = attempting.cache.store.get(key) if attempting.cache else None
        if stored is None:
            return None
        attempt = stored.attempt
    try:
        after = await attempting.grading.grade(task, attempt)
    except (GraderError, ModelUnavailable, ModelRefusal) as failure:
        return Regraded(trace, before, None, failure.message)
    return Regraded(trace, before, after, after.reason)


# Calibrate: how often the gate errs. Measurements of one skill differ only by chance, so each gain
# among them is a false accept. How often each task is solved drives simulated comparisons.


@dataclass(frozen=True, slots=True)
class Rates:
    """The shares of equal, worse and better skills that are accepted with this many ``tasks``."""

    tasks: int
    same: float
    worse: float
    better: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gate's error rates on a run's tasks, for gains of ``effect``, by ``draws`` measurements.

    ``undecided`` is the share of tasks solved in some draws only; each rate takes ``trials``.
    """

    tasks: int
    draws: int
    effect: float
    mean: float
    undecided: float
    same_accepted: int
    same_compared: int
    trials: int
    rates: tuple[Rates, ...]
    usage: Usage
    simulated: bool


#: Simulated comparisons per rate, enough for two digits.
_TRIALS = 600
#: The seed of their dice.
_SEED = 20_240_229


async def calibrate(run: Run, skill: str, effect: float, draws: int) -> Calibration:
    if not run.config.evaluation.use_gate:
        raise UsageError(
            "There is nothing to calibrate: evaluation.use_gate is false.",
            hint="Set it to true, or try a gate with -o evaluation.use_gate=true.",
        )
    async with run.models(f"{secrets.token_hex(4)} calibrate") as models:

        async def one(number: int) -> Measurement:
            return await measure(run, models, skill, run.selection, number=number)

        drawn = await map_ordered(one, range(draws), limit=draws)
    names = [name for name in drawn[0].tasks if all(name in one.tasks for one in drawn)]
    if not names:
        raise UsageError("No selection task could be measured in every attempt.")
    raw = [sum(one.tasks[name][0] for one in drawn) / draws for name in names]
    mean = sum(raw) / len(raw)
    # rates from few attempts differ too much: take out the share of their variance that is chance
    each = run.config.rollout.attempts
    chance = sum(rate * (1 - rate) for rate in raw) / (draws * each - 1)
    spread = sum((rate - mean) ** 2 for rate in raw)
    noise = min(1.0, chance / spread) if spread else 0.0
    rates = [rate + noise * (mean - rate) for rate in raw]
    return Calibration(
        tasks=len(rates),
        draws=draws,
        effect=effect,
        mean=mean,
        undecided=sum(0 < rate < 1 for rate in raw) / len(rates),
        same_accepted=sum(
            compare(new, old, old, run.config.evaluation).stays
            for old, new in permutations(drawn, 2)
        ),
        same_compared=draws * (draws - 1),
        trials=_TRIALS,
        rates=tuple(
            Rates(
                tasks=len(rates) * times,
                same=accepted_share(rates * times * each, 0.0),
                worse=accepted_share(rates * times * each, -effect),
                better=accepted_share(rates * times * each, effect),
            )
            for times in (1, 2, 4)  # times as many tasks
        ),
        usage=models.meter.total(),
        simulated=run.simulated,
    )


def accepted_share(rates: Sequence[float], lift: float) -> float:
    """The share of simulated candidates, better by ``lift``, that beat the incumbent."""
    dice, better = random.Random(_SEED), lifted(rates, lift)

    def solved(chances: Sequence[float]) -> int:
        return sum(dice.random() < chance for chance in chances)

    return sum(solved(better) > solved(rates) for _ in range(_TRIALS)) / _TRIALS


def lifted(rates: Sequence[float], lift: float) -> list[float]:
    """Raise the mean of ``rates`` by ``lift``; each task gains the same share of its room."""
    room = [1 - rate if lift > 0 else rate for rate in rates]
    share = min(1.0, abs(lift) * len(rates) / sum(room)) if sum(room) else 0.0
    sign = 1 if lift > 0 else -1
    return [rate + sign * share * left for rate, left in zip(rates, room, strict=True)]
