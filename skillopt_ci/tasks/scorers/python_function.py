"""The scorer that calls a Python function of the repository."""

import asyncio
import atexit
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.config.scorers import PythonScorer
from skillopt_ci.confinement import current, without_secrets
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.tasks.answers import extract
from skillopt_ci.tasks.files import did_you_mean
from skillopt_ci.tasks.scorers.grading import blamed, reaches
from skillopt_ci.tasks.scorers.score import GraderBroke, Score
from skillopt_ci.tasks.scorers.task_data import task_data
from skillopt_ci.tasks.scorers.wording import one_line
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import last_line, user_module
from skillopt_ci.worker import Worker

GradeFunction = Callable[[dict[str, object], str], object]


@dataclass(frozen=True, slots=True)
class PythonGrader:
    """Calls ``function(task, answer)`` of the repository at ``root``, in a process of its own."""

    spec: PythonScorer
    root: Path
    environ: Mapping[str, str]

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
        returned = await call_function(
            self.spec.entry,
            (task_data(task), answer),
            root=self.root,
            environ=self.environ,
            timeout=self.spec.timeout,
        )
        return returned_score(self.spec, returned, answer)


async def call_function(
    entry: str,
    arguments: Sequence[object],
    *,
    root: Path,
    environ: Mapping[str, str],
    timeout: float,
) -> object:
    """What the function returns for ``arguments``, which are JSON, in a process of its own.

    It sees the variables of ``environ`` that are no secrets. Raises :class:`GraderBroke` when it
    raises, takes longer than ``timeout`` seconds or returns what is no JSON.
    """

    def started() -> Worker:
        key = (entry, root, current())
        with _starting:
            if key not in _workers:
                seen, what = without_secrets(environ), entry
                _workers[key] = Worker(__name__, {"entry": entry}, root, seen, what)
                atexit.register(_workers[key].close)
            return _workers[key]

    worker = await asyncio.to_thread(started)
    try:
        async with asyncio.timeout(timeout):
            result = await worker.attempt({"arguments": list(arguments)})
    except TimeoutError:
        raise GraderBroke(f"{entry} took longer than {timeout:g} s") from None
    except EnvironmentFailure as failure:
        raise GraderBroke(f"{entry}: {failure.message}") from failure
    if "raised" in result:
        raise GraderBroke(f"{entry} raised {result['raised']}")
    if "odd" in result:
        raise GraderBroke(f"{entry} returned {result['odd']}, expected a score from 0 to 1")
    return result.get("returned")


_starting = threading.Lock()
#: One for each function of a repository: loading it may take long.
_workers: dict[object, Worker] = {}


@dataclass(frozen=True, slots=True)
class _Side:
    """The worker's side, see :class:`skillopt_ci.worker.Side`."""

    function: Callable[..., object]

    def tasks(self) -> None:
        """It has none."""

    def facts(self) -> Mapping[str, object]:
        """There are none."""
        return {}

    def attempt(self, job: Mapping[str, Any], folder: Path) -> Mapping[str, object]:
        """Call the function."""
        del folder
        try:
            returned = self.function(*job["arguments"])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told on the other side
            return {"raised": last_line(error)}
        try:
            json.dumps(returned, allow_nan=False)
        except (TypeError, ValueError):
            return {"odd": one_line(repr(returned), 80)}
        return {"returned": returned}


def open_side(options: Mapping[str, Any], root: Path) -> _Side:
    """The function, loaded; see :mod:`skillopt_ci.worker_process`."""
    return _Side(load_function(options["entry"], root))


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
