"""The scorer that asks a program of the repository."""

import asyncio
import atexit
import inspect
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skillopt_ci.config.scorers import CommandScorer, PythonScorer
from skillopt_ci.confinement import current, without_secrets
from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.program import Ended, run_program, signal_name, tail, visible_environ
from skillopt_ci.scorers.base import (
    GraderBroke,
    GraderError,
    Score,
    blamed,
    extract,
    last_words,
    one_line,
    quote,
    reaches,
    task_data,
    verdict,
)
from skillopt_ci.tasks.files import did_you_mean
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import last_line, user_module
from skillopt_ci.worker import Worker

_PLACEHOLDER = re.compile(r"\{(answer|response|task|dir)\}")
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CommandGrader:
    """Runs the command in ``root``, each time with a folder of its own for the material."""

    spec: CommandScorer
    root: Path
    environ: Mapping[str, str]

    async def score(self, task: Task, response: str) -> Score:
        """Grade with the program's exit status or output.

        Raises :class:`GraderError` when it cannot start; and when on an empty answer as well as on
        this one it exceeds its time, dies of a signal, ends with an ``error_status`` or prints no
        score. If it does so on this one only, the answer scores 0.
        """
        answer = extract(response, self.spec.answer, self.spec.tag)
        return await blamed(
            lambda: self._score(task, response), lambda: self.score_empty(task), answer
        )

    async def score_empty(self, task: Task) -> Score:
        """Grade an empty answer; raises :class:`GraderError` if the program cannot."""
        return await self._score(task, "")

    async def _score(self, task: Task, response: str) -> Score:
        answer = extract(response, self.spec.answer, self.spec.tag)
        with TemporaryDirectory(prefix="skillopt-grader-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            _write_material(folder / "work", task, answer, response)
            ended = await self._run(folder)
            return _verdict(self.spec, ended, answer)

    async def _run(self, folder: Path) -> Ended:
        program = self.spec.command[0]
        try:
            return await run_program(
                _arguments(self.spec.command, folder / "work"),
                stdin=folder / "work" / "response.txt",
                folder=folder,
                work=folder / "work",
                cwd=self.root,
                environ=visible_environ(self.environ, self.spec.env),
                timeout=self.spec.timeout,
            )
        except TimeoutError:
            raise GraderBroke(f"{program} took longer than {self.spec.timeout:g} s") from None
        except (OSError, ValueError) as error:
            raise GraderError(f"{program} cannot be run: {error}") from error


def check_command(spec: CommandScorer, root: Path, environ: Mapping[str, str]) -> str | None:
    """Why the program cannot be run; None if it is there and executable."""
    program = spec.command[0]
    if "/" in program:
        executable = (root / program).is_file() and os.access(root / program, os.X_OK)
        return None if executable else f"{program!r} is not an executable file in {root}"
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    return None if found else f"{program!r} is not found on the PATH"


def _write_material(folder: Path, task: Task, answer: str, response: str) -> None:
    folder.mkdir()
    (folder / "answer.txt").write_text(answer, encoding="utf-8", newline="")
    (folder / "response.txt").write_text(response, encoding="utf-8", newline="")
    record = json.dumps(task_data(task), ensure_ascii=False, indent=1)
    (folder / "task.json").write_text(record, encoding="utf-8")
    for file in task.files:
        path = folder / "files" / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.content, encoding="utf-8", newline="")


def _arguments(command: tuple[str, ...], folder: Path) -> list[str]:
    paths = {
        "answer": folder / "answer.txt",
        "response": folder / "response.txt",
        "task": folder / "task.json",
        "dir": folder,
    }
    return [_PLACEHOLDER.sub(lambda found: str(paths[found[1]]), part) for part in command]


def _verdict(spec: CommandScorer, ended: Ended, answer: str) -> Score:
    errors = tail(ended.errors, _TAIL_BYTES)
    said = last_words(errors.strip() or tail(ended.output, _TAIL_BYTES))
    if ended.status < 0:
        name = signal_name(ended.status)
        raise GraderBroke(f"{spec.command[0]} was killed by {name}: {said}")
    if ended.status in spec.error_status:
        raise GraderBroke(f"{spec.command[0]} ended with error status {ended.status}: {said}")
    if spec.score == "exit_status":
        reason = said or f"exit status {ended.status}"
        return verdict(ended.status == 0, reason, answer)
    soft = _printed_score(spec, ended)
    reason = last_words(errors) or f"{spec.command[0]} gave {soft:g}"
    return verdict(reaches(soft, spec.hard_at), reason, answer, soft=soft)


def _printed_score(spec: CommandScorer, ended: Ended) -> float:
    line = extract(tail(ended.output, _TAIL_BYTES), "last_line")
    try:
        soft = float(line)
    except ValueError:
        soft = -1.0
    if not 0 <= soft <= 1:
        raise GraderBroke(
            f"{spec.command[0]} printed {quote(line)} where a number from 0 to 1 was expected"
            f" (exit status {ended.status}): {last_words(tail(ended.errors, _TAIL_BYTES))}"
        )
    return soft


# The scorer that calls a Python function of the repository.

GradeFunction = Callable[[dict[str, object], str], object]


@dataclass(frozen=True, slots=True)
class PythonGrader:
    """Calls ``function(task, answer)`` of the repository at ``root``, in a process of its own."""

    spec: PythonScorer
    root: Path
    environ: Mapping[str, str]

    async def score(self, task: Task, response: str) -> Score:
        """Grade with what the function returns.

        Raises :class:`~skillopt_ci.scorers.base.GraderError` when on an empty answer as well
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
