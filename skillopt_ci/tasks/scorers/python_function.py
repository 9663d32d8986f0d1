"""The scorer that calls a Python function of the repository."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from skillopt_ci.errors import UsageError
from skillopt_ci.settings.scorer import PythonScorer
from skillopt_ci.tasks.answers import extract
from skillopt_ci.tasks.problems import did_you_mean
from skillopt_ci.tasks.scorers.grading import blamed, reaches
from skillopt_ci.tasks.scorers.score import GraderBroke, Score
from skillopt_ci.tasks.scorers.task_data import task_data
from skillopt_ci.tasks.scorers.wording import one_line
from skillopt_ci.tasks.task import Task
from skillopt_ci.user_code import last_line, user_module

GradeFunction = Callable[[dict[str, object], str], object]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PythonGrader:
    """Calls ``function(task, answer)`` in a thread of its own."""

    spec: PythonScorer
    function: GradeFunction

    async def score(self, task: Task, response: str) -> Score:
        """Grade with what the function returns.

        Raises :class:`~skillopt_ci.tasks.scorers.score.GraderError` when on an empty answer as well
        as on this one it raises, exceeds its time or returns no score. If it does so on this one
        only, the answer scores 0.
        """
        answer = extract(response, self.spec.answer, self.spec.tag)
        return await blamed(
            lambda: self._score(task, response), lambda: self.score_empty(task), answer
        )

    async def score_empty(self, task: Task) -> Score:
        """Grade an empty answer; raises a grader's error if the function cannot."""
        return await self._score(task, "")

    async def _score(self, task: Task, response: str) -> Score:
        answer = extract(response, self.spec.answer, self.spec.tag)
        returned = await in_thread(
            lambda: self.function(task_data(task), answer), self.spec.entry, self.spec.timeout
        )
        return returned_score(self.spec, returned, answer)


async def in_thread(work: Callable[[], Result], entry: str, timeout: float) -> Result:
    """Do ``work``, which calls the function ``entry``, in a thread of its own.

    Raises :class:`GraderBroke` when it raises or takes longer than ``timeout`` seconds.
    """

    def call() -> Result:
        try:
            return work()
        except (Exception, SystemExit) as error:
            raise GraderBroke(f"{entry} raised {last_line(error)}") from error

    try:
        async with asyncio.timeout(timeout):
            return await _in_thread(call)
    except TimeoutError:
        raise GraderBroke(f"{entry} took longer than {timeout:g} s") from None


def load_function(entry: str, root: Path) -> GradeFunction:
    """The function that ``entry`` names, its module imported with ``root`` on the import path.

    The root comes last on the path: a file of the repository can never take the place of a
    library. Raises :class:`UsageError` when it cannot be imported or found, or is async.
    """
    source, _, name = entry.rpartition(":")
    try:
        module = user_module(source, root)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{source} cannot be imported: {last_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = (key for key, value in vars(module).items() if inspect.isfunction(value))
        raise UsageError(f"{source} has no function {name!r}; {did_you_mean(name, functions)}")
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"{entry} must be a plain function, not async")
    found: GradeFunction = function
    return found


def returned_score(spec: PythonScorer, returned: object, answer: str) -> Score:
    """What a grader returned, as a score; raises :class:`GraderBroke` when it is none.

    A truth value or a number from 0 to 1 is the soft score; a dict has ``soft`` or ``hard`` or
    both, and perhaps a ``reason``.
    """
    given = returned if isinstance(returned, dict) else {"soft": returned}
    if unknown := given.keys() - {"hard", "soft", "reason"}:
        raise GraderBroke(f"{spec.entry} returned the unknown key {min(map(str, unknown))!r}")
    if not given.keys() & {"hard", "soft"}:
        raise GraderBroke(f"{spec.entry} returned neither 'soft' nor 'hard'")
    soft = _share(spec, given.get("soft", given.get("hard")))
    hard = _share(spec, given["hard"]) if "hard" in given else float(reaches(soft, spec.hard_at))
    reason = one_line(str(given.get("reason", ""))) or f"{spec.entry} gave {soft:g}"
    return Score(float(hard >= 1), soft, reason, answer)


def _share(spec: PythonScorer, value: object) -> float:
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        shown = one_line(repr(value), 80)
        raise GraderBroke(f"{spec.entry} returned {shown}, expected a score from 0 to 1")
    return float(value)


async def _in_thread(work: Callable[[], Result]) -> Result:
    # Not asyncio.to_thread: its pool is joined at exit, so one hung grader would hang the run.
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # handed over to the waiting task
            future.set_exception(error)

    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name="skillopt-grader", daemon=True).start()
    return await asyncio.wrap_future(future)
