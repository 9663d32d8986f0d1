"""Grade attempts that were made before, without making them again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from skillopt_ci.aio import map_ordered
from skillopt_ci.errors import UsageError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, Usage
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.attempt import Attempting
from skillopt_ci.rollout.events import Course, courses, read_events
from skillopt_ci.rollout.types import Attempt, Status
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.session import Session

#: An attempt that ended so left something to grade.
_GRADED = (Status.SCORED, Status.LIMIT, Status.GRADER_ERROR)


@dataclass(frozen=True, slots=True)
class Regraded:
    """An attempt with its score then and now; either is None where the grader failed.

    ``reason`` says why the score is what it is now, or why there is none.
    """

    course: Course
    before: Score | None
    after: Score | None
    reason: str


@dataclass(frozen=True, slots=True)
class Rescored:
    """All attempts that were graded again; ``gone`` counts those whose files are not stored."""

    attempts: tuple[Regraded, ...]
    gone: int
    usage: Usage


async def rescore(
    session: Session, *, stage: str | None = None, own_scorers: bool = True
) -> Rescored:
    """Grade the recorded attempts at the run's tasks with the scorers of ``session``.

    Of each attempt at a task under a skill the latest one counts. Without ``own_scorers`` the run's
    scorer grades tasks that have one of their own too. Raises UsageError if nothing is recorded.
    """
    tasks = {
        task.id: task if own_scorers else replace(task, scorer=None)
        for part in (session.splits.train, session.splits.selection, session.splits.test)
        for task in part
    }
    found = _recorded(session, tasks, stage)
    meter = session.meter(session.clock(), Usage())
    session.observer(StageStarted("rescore", len(found)))
    async with session.bench("rescore", meter) as bench:

        async def one(course: Course) -> Regraded | None:
            regraded = await _regrade(bench.runner.attempting, tasks[course.task], course)
            session.observer(StageAdvanced("rescore", course.task))
            return regraded

        results = await map_ordered(one, found, limit=bench.runner.places.most)
    graded = tuple(result for result in results if result is not None)
    session.observer(StageFinished("rescore", plural(len(graded), "attempt")))
    return Rescored(graded, len(results) - len(graded), meter.total())


def _recorded(session: Session, tasks: Mapping[str, Task], stage: str | None) -> list[Course]:
    events = [] if session.events is None else read_events(session.events)
    latest: dict[tuple[object, ...], Course] = {}
    for course in _with_work(courses(events)):
        if course.task in tasks and stage in (None, course.stage):
            key = (course.stage, course.task, course.attempt, course.skill_sha256)
            latest[key] = course
    if not latest:
        raise UsageError(
            "No attempt is recorded that could be graded again.",
            hint="Attempts are recorded in the clone that makes them.",
        )
    return list(latest.values())


def _with_work(found: Iterable[Course]) -> Iterable[Course]:
    """The attempts that left something to grade, with only the events that say so."""
    for course in found:
        work, end = course.work, course.end
        if work is not None and end is not None and end.get("status") in _GRADED:
            yield replace(course, events=[{**work, "response": course.response}, end])


async def _regrade(attempting: Attempting, task: Task, course: Course) -> Regraded | None:
    attempt = _attempt(attempting, course)
    if attempt is None:
        return None
    before = _before(course)
    try:
        after = await attempting.grading.grade(task, attempt)
    except (GraderError, ModelUnavailable, ModelRefusal) as failure:
        return Regraded(course, before, None, failure.message)
    return Regraded(course, before, after, after.reason)


def _attempt(attempting: Attempting, course: Course) -> Attempt | None:
    """What was left behind: in the store for agents, in the record itself for answers."""
    work = course.work or {}
    key = str(work.get("key") or "")
    if not key:
        return Attempt((), course.response)
    stored = attempting.shelf.store.get(key) if attempting.shelf else None
    return None if stored is None else stored.worked.attempt


def _before(course: Course) -> Score | None:
    end = course.end or {}
    if end.get("status") == Status.GRADER_ERROR:
        return None
    hard, soft = float(end.get("hard") or 0.0), float(end.get("soft") or 0.0)
    return Score(hard, soft, str(end.get("reason", "")), "")
