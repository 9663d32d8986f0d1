"""Scorers that call a command or Python function of the repository, or a judge model."""

import asyncio
import inspect
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from skillopt_ci.config.scorers import CommandScorer, PythonScorer, RubricScorer
from skillopt_ci.confinement import current, public_environ
from skillopt_ci.errors import ComputerFailure, EnvironmentFailure, UsageError
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.messages import fenced
from skillopt_ci.program import run_program, signal_name, visible_environ
from skillopt_ci.scorers import base
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import repaired, user_object
from skillopt_ci.worker import Side, Worker, WorkerGone

_TAIL_BYTES = 4096


async def run_command(
    spec: CommandScorer,
    root: Path,
    environ: Mapping[str, str],
    task: Task,
    response: str,
    answer: str,
) -> base.Score:
    program = spec.command[0]
    with scratch_folder("grader") as name:
        work = Path(name)
        paths = {
            "answer": work / "answer.txt",
            "response": work / "response.txt",
            "task": work / "task.json",
            "dir": work,
        }
        texts = {
            **{work / "files" / file.name: file.content for file in task.files},
            paths["answer"]: answer,
            paths["response"]: response,
            paths["task"]: json.dumps(base.task_data(task), ensure_ascii=False, indent=1),
        }
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="replace", newline="")
        placeholder = re.compile(rf"\{{({'|'.join(paths)})\}}")
        try:
            done = await run_program(
                [placeholder.sub(lambda found: str(paths[found[1]]), w) for w in spec.command],
                stdin=response.encode("utf-8", "replace"),
                work=work,
                cwd=root,
                environ=visible_environ(environ, spec.env),
                timeout=spec.timeout,
                output_bytes=2 * _TAIL_BYTES,
            )
        except TimeoutError:
            raise base.GraderBroke(f"{program} took longer than {spec.timeout:g} s") from None
        except ComputerFailure as error:
            raise base.GraderError(f"{program} cannot be run: {error}") from error
    output, errors = done.out.tail(_TAIL_BYTES), done.err.tail(_TAIL_BYTES)
    said = base.last_words(errors.strip() or output) or "it said nothing"
    if done.signal:
        raise base.GraderBroke(f"{program} was killed by {signal_name(done.signal)}: {said}")
    if done.exit_code in spec.error_status:
        raise base.GraderBroke(f"{program} ended with error status {done.exit_code}: {said}")
    hard_at = None if spec.score == "exit_status" else spec.hard_at
    return base.program_score(program, done.exit_code, (output, errors), answer, hard_at)


def check_command(spec: CommandScorer, root: Path, environ: Mapping[str, str]) -> str | None:
    program = spec.command[0]
    if "/" in program:
        executable = (root / program).is_file() and os.access(root / program, os.X_OK)
        return None if executable else f"{program!r} is not an executable file in {root}"
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    return None if found else f"{program!r} is not found on the PATH"


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """The Python functions of a run; the first call of each starts its worker.

    They see the variables in ``environ`` that are not secrets.
    """

    environ: Mapping[str, str]
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _workers: dict[object, Worker] = field(default_factory=dict)

    async def call(
        self, entry: str, arguments: Sequence[object], *, root: Path, timeout: float
    ) -> object:
        """Call the function ``entry`` below ``root`` with JSON ``arguments``; return its result.

        Raises :class:`GraderBroke` if it raises, takes too long or returns something besides JSON.
        """
        job = {"arguments": list(arguments)}
        try:
            try:
                shared = await asyncio.to_thread(self.worker, entry, root)
                result = await asyncio.wait_for(shared.attempt(job), timeout)
            except WorkerGone:  # perhaps killed by another answer: retry in a separate worker
                with closing(await asyncio.to_thread(self._started, entry, root)) as own:
                    result = await asyncio.wait_for(own.attempt(job), timeout)
        except TimeoutError:
            raise base.GraderBroke(f"{entry} took longer than {timeout:g} s") from None
        except EnvironmentFailure as failure:
            raise base.GraderBroke(f"{entry}: {failure.message}") from failure
        return result.get("returned")

    def worker(self, entry: str, root: Path) -> Worker:
        key = (entry, root, current())
        with self._starting:
            if key in self._workers and self._workers[key].gone:
                self._workers.pop(key).close()
            if key not in self._workers:
                self._workers[key] = self._started(entry, root)
            return self._workers[key]

    def _started(self, entry: str, root: Path) -> Worker:
        return Worker(__name__, {"entry": entry}, root, public_environ(self.environ), entry)

    def close(self) -> None:
        with self._starting:
            while self._workers:
                self._workers.popitem()[1].close()


async def call_function(
    spec: PythonScorer, root: Path, functions: Functions, task: Task, _response: str, answer: str
) -> base.Score:
    returned = await functions.call(
        spec.entry, (base.task_data(task), answer), root=root, timeout=spec.timeout
    )
    given: dict[str, Any] = returned if isinstance(returned, dict) else {"soft": returned}
    if given.keys() - {"hard", "soft", "reason"} or not given.keys() & {"hard", "soft"}:
        raise base.GraderBroke(
            f"{spec.entry} returned a dict with the keys "
            f"{base.brief(', '.join(map(repr, given)), 80)}; expected 'soft', 'hard' or both, and "
            "perhaps a 'reason'"
        )
    for value in (given[key] for key in ("soft", "hard") if key in given):
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise base.GraderBroke(
                f"{spec.entry} returned {base.brief(repr(value), 80)}, expected a score from 0 to 1"
            )
    soft = float(given["soft" if "soft" in given else "hard"])
    solved = given["hard"] >= 1 if "hard" in given else base.reaches(soft, spec.hard_at)
    reason = base.brief(str(given.get("reason") or "")) or f"{spec.entry} gave {soft:g}"
    return base.scored(solved, reason, answer, soft=soft)


def load_function(entry: str, root: Path) -> Callable[..., object]:
    """Raises UsageError unless ``entry`` names a plain function below ``root``."""
    found = user_object(entry, root, "function", inspect.isfunction)
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise UsageError(f"{entry} must be a plain function, not async")
    return found


@dataclass(frozen=True)
class _Side(Side):
    function: Callable[..., object]

    def attempt(self, job: Mapping[str, Any], _: Path) -> Mapping[str, object]:
        returned = self.function(*job["arguments"])
        try:
            json.dumps(returned, allow_nan=False, default=float)
        except (TypeError, ValueError):
            shown = base.brief(repr(returned), 80)
            raise UsageError(f"it returned {shown}, expected a score from 0 to 1") from None
        return {"returned": returned}


def open_side(options: Mapping[str, Any], root: Path) -> _Side:
    return _Side(load_function(options["entry"], root))


_PLACEHOLDER = re.compile(r"\{(task|references|rubric|answer)\}")


async def ask_judge(
    spec: RubricScorer, judge: base.Judge, task: Task, _response: str, answer: str
) -> base.Score:
    """The judge's score; asks once more if the reply has none."""
    if fault := check_rubric_task(spec, task):
        raise base.GraderError(f"task {task.id!r} cannot be graded: {fault}")
    prompt = rubric_prompt(spec, task, answer)
    reply = await judge(prompt)
    try:
        soft, reason = parse_score(reply)
    except ValueError as error:
        again = (
            f"{prompt}\n## Your previous reply\n{fenced(reply, least=4)}\n\n"
            f"It could not be used: {error}. Reply with the JSON object alone.\n"
        )
        try:
            soft, reason = parse_score(await judge(again))
        except ValueError as still:
            raise base.GraderBroke(f"the judge gave no score twice: {still}") from still
    return base.scored(base.reaches(soft, spec.hard_at), reason, answer, soft=soft)


def rubric_prompt(spec: RubricScorer, task: Task, answer: str) -> str:
    """The judge's prompt; all text from tasks and models is fenced as data."""
    references = "\n".join(f"- {reference}" for reference in task.references)
    conversation = "\n\n".join(f"[{m.role}] {m.content}" for m in task.messages)
    attached = "".join(f"\n\n[file {file.name}]\n{file.content}" for file in task.files)
    parts = {
        "task": fenced(conversation + attached, least=4),
        "references": fenced(references, least=4) if references and spec.rubric else "(none)",
        "rubric": fenced(spec.rubric or references, least=4),
        "answer": fenced(answer, least=4),
    }
    template = files(__package__).joinpath("rubric.md").read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda found: parts[found[1]], template)


#: json_repair reads objects that are alike as one, the last.
_SCORES = re.compile(r"[\"']score[\"']\s*:\s*([\d.]+)")
_TEXT_SCORES = re.compile(r"[\"']score[\"']\s*:\s*[\"'](\d*\.?\d+)[\"']")
#: Of a longer reply that needs repairs the end is read.
_MOST_REPAIRED = 10_000
_WHOLE_SCORE = re.compile(r"score\W+[^\s,}\]\"']+\s*[^\s\w./%]")


def parse_score(reply: str) -> tuple[float, str]:
    try:
        parsed = json.loads(reply)
    except (ValueError, RecursionError):
        parsed = repaired(reply[-_MOST_REPAIRED:])
    candidates = parsed if isinstance(parsed, list) else [parsed]
    replies = [item for item in candidates if isinstance(item, Mapping) and "score" in item]
    if not replies:
        raise ValueError(f'{base.quote(reply)} holds no JSON object with a "score"')
    score, numbers = replies[-1]["score"], {*_SCORES.findall(reply)}
    if isinstance(score, str) and not numbers and {*_TEXT_SCORES.findall(reply)} == {score}:
        score = float(score)
    if len(numbers) > 1:  # it may quote one from the answer
        raise ValueError(f"{base.quote(reply)} holds several scores")
    if not _WHOLE_SCORE.search(reply):
        raise ValueError(f"the score of {base.quote(reply)} is cut off")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise ValueError(f"the score {base.quote(repr(score))} is not a number from 0 to 1")
    reason = base.brief(str(replies[-1].get("reason") or ""))
    return float(score), reason or f"the judge gave {score:g}"


def check_rubric_task(spec: RubricScorer, task: Task) -> str | None:
    missing = "neither the scorer's rubric nor the task's references say what a good answer does"
    return None if spec.rubric.strip() or task.references else missing
