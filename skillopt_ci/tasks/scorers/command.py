"""The scorer that asks a program of the repository."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from skillopt_ci.aio import Ended, run_program, signal_name, tail, visible
from skillopt_ci.config.scorers import CommandScorer
from skillopt_ci.tasks.answers import extract
from skillopt_ci.tasks.scorers.grading import blamed, reaches, verdict
from skillopt_ci.tasks.scorers.score import GraderBroke, GraderError, Score
from skillopt_ci.tasks.scorers.task_data import task_data
from skillopt_ci.tasks.scorers.wording import last_words, quote
from skillopt_ci.tasks.task import Task

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
                environ=visible(self.environ, self.spec.env),
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
