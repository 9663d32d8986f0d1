"""The scorer that looks at what an agent left behind, on a computer that the agent never had."""

import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from skillopt_ci.computer.computer import (
    HOME,
    CommandResult,
    Computer,
    ComputerFailure,
    FileRefused,
)
from skillopt_ci.computer.shell import Member, pack, unpack
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.config.scorers import ComputerScorer, JUnitReport
from skillopt_ci.rollout.junit import read_report
from skillopt_ci.rollout.leavings import ARTIFACT_BYTES
from skillopt_ci.rollout.places import Places, ended
from skillopt_ci.rollout.steps import Attempt
from skillopt_ci.scorers.base import (
    GraderBroke,
    GraderError,
    Score,
    blamed,
    last_words,
    one_line,
    quote,
    reaches,
    verdict,
)
from skillopt_ci.tasks.task import Task

_REPORT_BYTES = 10_000_000
#: Statuses of commands that a signal ended; some programs end with 255 by themselves.
_SIGNALLED = range(129, 193)
#: Takes away what stands in the way of the files that are named: an agent may have put a symbolic
#: link, a file or a folder there, or what Python takes before a module of that name. Nothing
#: outside the workspace is touched.
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
    case $name in *.py)
        module=${name%.py}
        if [ -L "./$module" ]; then rm -f -- "./$module" || exit; fi
        rm -rf -- "./$module"/__init__.* "./$module".so "./$module".*.so || exit;;
    esac
done
"""
#: Runs a command with Python's imports in order; the first argument is the folder in HOME that has
#: what it takes. Bytecode that the work left is never read.
_IN_ORDER = """
PYTHONPATH=$HOME/$1${PYTHONPATH:+:$PYTHONPATH} PYTHONPYCACHEPREFIX=$HOME/$1/compiled
export PYTHONPATH PYTHONPYCACHEPREFIX
shift
exec "$@"
"""
#: Python reads this at its start, before it puts the working folder, or that of the script, on the
#: path. As with `-P`, nothing there takes the place of the standard library or of what is
#: installed; unlike with `-P`, it can still be imported. OWN are the grader's own modules.
_SITE = """
import os, sys
from importlib.machinery import PathFinder

standard = os.path.dirname(os.__file__)
library = [standard, os.path.join(standard, "lib-dynload")]
installed = [path for path in sys.path if path and path not in library]

class InstalledFirst:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is not None or name in OWN:
            return None
        found = PathFinder.find_spec(name, library) or PathFinder.find_spec(name, installed)
        return found if found is not None and found.loader is not None else None

sys.meta_path.insert(sys.meta_path.index(PathFinder), InstalledFirst)
"""


@dataclass(frozen=True, slots=True)
class ComputerGrader:
    """Grades one ``attempt``; ``root`` is the folder that ``spec.folder`` is relative to."""

    spec: ComputerScorer
    attempt: Attempt
    places: Places
    root: Path
    limits: AttemptLimits

    async def score(self, task: Task, response: str) -> Score:
        """Grade what the attempt left behind.

        Raises :class:`GraderError` when the grader's files cannot be read, when no computer could
        be had, and when set-up, exit status or report show that the grader works on an empty
        submission no more than on this one. If it fails on this one only, the attempt scores 0.
        """
        return await blamed(
            lambda: self._score(task, self.attempt, response),
            lambda: self.score_empty(task),
            response,
        )

    async def score_empty(self, task: Task) -> Score:
        """Grade what an agent leaves that does nothing; raises :class:`GraderError`."""
        try:
            async with self.places.prepared(task, self.limits.setup_seconds) as computer:
                paths = self.places.block(task).artifacts
                artifacts = await computer.export(paths, max_bytes=ARTIFACT_BYTES)
                untouched = Attempt((), "", artifacts=artifacts, computer=computer)
                if self.spec.same_computer:
                    return await self._score(task, untouched, "")
        except (ComputerFailure, FileRefused) as failure:
            raise GraderError(failure.message) from failure
        return await self._score(task, untouched, "")

    async def _score(self, task: Task, attempt: Attempt, response: str) -> Score:
        try:
            left, fault = attempt.artifacts, ""
            if self.spec.run_work is not None:
                left, fault = await self._run_work(task, left)
            if fault:
                return verdict(False, fault, response)
            async with self._computer(task, attempt, left) as computer:
                grading = await self._lay_over(computer)
                await self._set_up(grading)
                return await self._verdict(grading, response)
        except FileRefused as refused:
            raise GraderBroke(refused.message) from refused
        except ComputerFailure as failure:
            raise GraderError(failure.message) from failure

    async def _run_work(self, task: Task, left: bytes) -> tuple[bytes, str]:
        """What the work leaves when it is run where no grader is, and why that was ended."""
        async with self.places.open(task) as computer:
            await computer.load(left)
            for command in self.spec.run_work or ():
                result = await computer.run(command, timeout=self.limits.grading_seconds)
                if result.timed_out or result.limit:
                    return b"", f"running the work {ended(result, self.limits.grading_seconds)}"
            found = unpack(await computer.export(["**"], max_bytes=ARTIFACT_BYTES))
        below = (replace(member, name=f"work/{member.name}") for member in found)
        return pack([Member("work", folder=True), *below]), ""

    @asynccontextmanager
    async def _computer(self, task: Task, attempt: Attempt, left: bytes) -> AsyncIterator[Computer]:
        own = attempt.computer if self.spec.same_computer else None
        if own is not None:
            yield own
            return
        async with self.places.open(task) as computer:
            if left:
                await computer.load(left)
            yield computer

    async def _lay_over(self, computer: Computer) -> "_Grading":
        files = dict(grader_files(self.spec, self.root))
        stale = () if self.spec.report is None else (self.spec.report.file,)
        seconds = self.limits.grading_seconds
        if files or stale:
            cleared = await computer.run(
                ["sh", "-c", _CLEAR, "sh", *files, *stale], timeout=seconds
            )
            if cleared.exit_code or cleared.timed_out:
                raise GraderBroke(f"making room for the grader {ended(cleared, seconds)}")
        for name, content in files.items():
            await computer.write(name, content)
        # A name that nobody can have guessed, on the agent's own computer neither.
        folder = f".grading-{secrets.token_hex(8)}"
        site = f"OWN = {sorted(_modules(files))!r}\n{_SITE}"
        await computer.write(f"{HOME}/{folder}/sitecustomize.py", site.encode())
        return _Grading(computer, folder, seconds)

    async def _set_up(self, grading: "_Grading") -> None:
        for number, command in enumerate(self.spec.setup, start=1):
            result = await grading.run(command)
            if result.exit_code or result.timed_out:
                how = ended(result, grading.seconds)
                failure = ComputerFailure(f"Set-up command {number} of the grader {how}")
                raise GraderBroke(failure.message) from failure

    async def _verdict(self, grading: "_Grading", response: str) -> Score:
        report, command = self.spec.report, self.spec.command
        result = await grading.run(report.command if report else command or ())
        how = f"the grading command {ended(result, grading.seconds)}"
        if result.timed_out and self.spec.on_timeout == "error":
            raise GraderError(how)
        if result.timed_out or result.limit:
            return verdict(False, how, response)
        if result.exit_code in self.spec.error_status or result.exit_code in _SIGNALLED:
            raise GraderBroke(how)
        if report is not None:
            return await _reported(grading.computer, report, result, response)
        return self._printed(result, response)

    def _printed(self, result: CommandResult, response: str) -> Score:
        said = last_words(result.stderr.strip() or result.stdout)
        if self.spec.score == "exit":
            reason = said or f"exit status {result.exit_code}"
            return verdict(result.exit_code == 0, reason, response)
        soft = _number(result)
        reason = last_words(result.stderr) or f"the grading command gave {soft:g}"
        return verdict(reaches(soft, self.spec.hard_at), reason, response, soft=soft)


@dataclass(frozen=True, slots=True)
class _Grading:
    """A computer with the grader on it; ``folder``, in HOME, puts Python's imports in order."""

    computer: Computer
    folder: str
    seconds: float

    async def run(self, command: Sequence[str]) -> CommandResult:
        ordered = ["sh", "-c", _IN_ORDER, "sh", self.folder, *command]
        return await self.computer.run(ordered, timeout=self.seconds)


def _modules(files: Iterable[str]) -> set[str]:
    """What a grader with these ``files`` can import from the workspace."""
    return {PurePosixPath(name).parts[0].removesuffix(".py") for name in files}


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
        raise GraderBroke(f"there is no test report {report.file}: {said}") from error
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
        raise GraderBroke(
            f"the grading command printed {quote(lines[-1])} where a number from 0 to 1 was "
            f"expected (exit status {result.exit_code}): {last_words(result.stderr)}"
        )
    return soft
