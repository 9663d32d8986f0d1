"""The scorer that looks at what an agent left behind, on a computer that the agent never had."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from skillopt_ci.computer.computer import CommandResult, Computer
from skillopt_ci.computer.errors import ComputerFailure, FileRefused
from skillopt_ci.rollout.junit import read_report
from skillopt_ci.rollout.places import Places, ended, run_setup
from skillopt_ci.rollout.steps import Attempt
from skillopt_ci.settings.scorer import ComputerScorer, JUnitReport
from skillopt_ci.tasks.scorers.grading import reaches, verdict
from skillopt_ci.tasks.scorers.score import GraderError, Score
from skillopt_ci.tasks.scorers.wording import last_words, one_line, quote
from skillopt_ci.tasks.task import Task

_REPORT_BYTES = 10_000_000
_KILLED = 128 + SIGKILL
#: Takes away what stands in the way of the files that are named: an agent may have put a symbolic
#: link, a file or a folder there. Nothing outside the workspace is touched.
_CLEAR = """
for name do
    rest=$name folder=
    while case $rest in */*) true;; *) false;; esac; do
        folder=$folder${rest%%/*} rest=${rest#*/}
        if [ -L "./$folder" ] || { [ -e "./$folder" ] && [ ! -d "./$folder" ]; }; then
            rm -f -- "./$folder" || exit
        fi
        folder=$folder/
    done
    rm -rf -- "./$name" || exit
done
"""


@dataclass(frozen=True, slots=True)
class ComputerGrader:
    """Grades one ``attempt``; ``root`` is the folder that ``spec.folder`` is relative to."""

    spec: ComputerScorer
    attempt: Attempt
    places: Places
    root: Path
    seconds: float

    async def score(self, task: Task, response: str) -> Score:
        """Grade what the attempt left behind.

        Raises :class:`GraderError` when the grader's files, set-up, exit status or report show
        that it did not work, or when no computer could be had.
        """
        try:
            async with self._computer(task) as computer:
                await self._lay_over(computer)
                await run_setup(computer, self.spec.setup, self.seconds, "the grader")
                return await self._verdict(computer, response)
        except (ComputerFailure, FileRefused) as failure:
            raise GraderError(failure.message) from failure

    @asynccontextmanager
    async def _computer(self, task: Task) -> AsyncIterator[Computer]:
        own = self.attempt.computer if self.spec.same_computer else None
        if own is not None:
            yield own
            return
        async with self.places.open(task) as computer:
            if self.attempt.artifacts:
                await computer.load(self.attempt.artifacts)
            yield computer

    async def _lay_over(self, computer: Computer) -> None:
        files = dict(grader_files(self.spec, self.root))
        stale = () if self.spec.report is None else (self.spec.report.file,)
        if files or stale:
            cleared = await computer.run(
                ["sh", "-c", _CLEAR, "sh", *files, *stale], timeout=self.seconds
            )
            if cleared.exit_code:
                raise GraderError(f"making room for the grader {ended(cleared, self.seconds)}")
        for name, content in files.items():
            await computer.write(name, content)

    async def _verdict(self, computer: Computer, response: str) -> Score:
        report, command = self.spec.report, self.spec.command
        result = await computer.run(
            report.command if report else command or (), timeout=self.seconds
        )
        if result.timed_out and self.spec.on_timeout == "error":
            raise GraderError(f"the grading command {ended(result, self.seconds)}")
        if result.timed_out or result.limit:
            return verdict(False, f"the grading command {ended(result, self.seconds)}", response)
        if report is not None:
            return await _reported(computer, report, result, response)
        return self._printed(result, response)

    def _printed(self, result: CommandResult, response: str) -> Score:
        if result.exit_code in (*self.spec.error_status, _KILLED):
            raise GraderError(f"the grading command {ended(result, self.seconds)}")
        said = last_words(result.stderr.strip() or result.stdout)
        if self.spec.score == "exit":
            reason = said or f"exit status {result.exit_code}"
            return verdict(result.exit_code == 0, reason, response)
        soft = _number(result)
        reason = last_words(result.stderr) or f"the grading command gave {soft:g}"
        return verdict(reaches(soft, self.spec.hard_at), reason, response, soft=soft)


def grader_files(spec: ComputerScorer, root: Path) -> Iterator[tuple[str, bytes]]:
    """The grader's own files: paths in the workspace, and their content.

    Raises :class:`GraderError` if the folder cannot be read.
    """
    yield from ((name, text.encode()) for name, text in spec.files.items())
    if spec.folder is None:
        return
    folder = root / spec.folder
    try:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            yield file.relative_to(folder).as_posix(), file.read_bytes()
    except OSError as error:
        raise GraderError(f"the grader's files cannot be read: {error}") from error


async def _reported(
    computer: Computer, report: JUnitReport, result: CommandResult, response: str
) -> Score:
    try:
        content = await computer.read(report.file, max_bytes=_REPORT_BYTES)
    except FileRefused as error:
        said = last_words(result.stderr.strip() or result.stdout)
        raise GraderError(f"there is no test report {report.file}: {said}") from error
    counts = read_report(content)
    if not counts.total:
        return verdict(False, "the test report has no tests", response)
    soft = counts.passed / counts.total
    failed = one_line(f"; failed: {', '.join(counts.failed)}") if counts.failed else ""
    reason = f"{counts.passed} of {counts.total} tests passed{failed}"
    return verdict(not counts.failed, reason, response, soft=soft)


def _number(result: CommandResult) -> float:
    lines = result.stdout.strip().splitlines() or [""]
    try:
        soft = float(lines[-1].strip())
    except ValueError:
        soft = -1.0
    if not 0 <= soft <= 1:
        raise GraderError(
            f"the grading command printed {quote(lines[-1])} where a number from 0 to 1 was "
            f"expected (exit status {result.exit_code}): {last_words(result.stderr)}"
        )
    return soft
