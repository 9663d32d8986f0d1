"""Grade attempts with the task's or the run's scorer; check scorers before any paid call."""

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree as ET

from skillopt_ci.computer.archive import Member, pack, unpack
from skillopt_ci.computer.computer import HOME, Computer
from skillopt_ci.config import scorers as specs
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.confinement import current
from skillopt_ci.errors import ComputerFailure, FileRefused, UsageError
from skillopt_ci.program import CommandResult
from skillopt_ci.rollout.attempt import ARTIFACT_BYTES
from skillopt_ci.rollout.computer_pool import NEEDS_COMPUTER, ComputerPool, how_it_ended, limits_of
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers import code
from skillopt_ci.scorers.base import (
    FallibleScorer,
    GraderBroke,
    GraderError,
    Judge,
    Score,
    Scorer,
    blamed,
    brief,
    grade_parts,
    program_score,
    scored,
)
from skillopt_ci.scorers.text import GRADERS, grade_answer, grade_varies
from skillopt_ci.tasks.files import TaskProblem, refuse
from skillopt_ci.tasks.task import Splits, Task

_PROGRAMS = (specs.ComputerScorer, specs.CommandScorer, specs.PythonScorer)
#: Only comments and instructions may stand before a document type; later text is a test's own.
_DOCTYPE = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.DOTALL)
#: Not allowed in XML, but test runners copy them from messages, also as numbers (Bats, Mocha).
_NO_XML = re.compile(
    r"(?i)[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
    r"|&#x0*(?:[0-8bcef]|1[\da-f]|d[89a-f][\da-f]{2}|fff[ef]);"
    r"|&#0*(?:[0-8]|1[124-9]|2\d|3[01]|55(?:29[6-9]|[3-9]\d\d)|56\d{3}|57[0-2]\d\d"
    r"|573(?:[0-3]\d|4[0-3])|6553[45]);"
)
_DISABLED = ("notrun", "disabled")  # GoogleTest and CTest write no <skipped> for these tests
#: Totals count these as failures: tests that passed when repeated (Gradle), and to-dos (Node.js).
_EXCUSED = (".//flakyFailure", ".//flakyError", ".//skipped[@type='todo']")
#: Exit statuses of commands killed by a signal; 255 is excluded, since programs use it.
_SIGNALLED = range(129, 193)


@cache
def _script(name: str) -> str:
    """The text of a file beside this module, which runs on the grader's computer."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ComputerGrader:
    """Grades one ``attempt`` on a computer; ``spec.folder`` is relative to ``root``."""

    spec: specs.ComputerScorer
    attempt: Attempt
    pool: ComputerPool
    root: Path
    limits: AttemptLimits

    async def __call__(self, task: Task, response: str) -> Score:
        return await blamed(
            lambda: self._score(task, self.attempt, response),
            lambda: self.score_empty(task),
            response,
        )

    async def score_empty(self, task: Task) -> Score:
        try:
            async with self.pool.prepared(task, self.limits.setup_seconds) as computer:
                paths = self.pool.block(task).artifacts
                artifacts = await computer.export(paths, max_bytes=ARTIFACT_BYTES)
                untouched = Attempt((), "", artifacts=artifacts, computer=computer)
                if self.spec.same_computer:
                    return await self._score(task, untouched, "")
        except (ComputerFailure, FileRefused) as failure:
            raise GraderError(failure.message) from failure
        return await self._score(task, untouched, "")

    async def _score(self, task: Task, attempt: Attempt, response: str) -> Score:
        try:
            left = attempt.artifacts
            if self.spec.run_work is not None:
                async with self.pool.open(task) as computer:
                    if left:
                        await computer.load(left)
                    for command in self.spec.run_work:
                        result = await computer.run(command, timeout=self.limits.grading_seconds)
                        if result.timed_out or result.limit:
                            how = how_it_ended(result, self.limits.grading_seconds)
                            return scored(False, f"running the work {how}", response)
                    found = unpack(await computer.export(["**"], max_bytes=ARTIFACT_BYTES))
                below = (replace(member, name=f"work/{member.name}") for member in found)
                left = pack([Member("work", folder=True), *below])
            if self.spec.same_computer:
                if attempt.computer is None:
                    raise GraderError("the agent's own computer is gone (scorer: same_computer)")
                return await self._grade_on(attempt.computer, response)
            async with self.pool.open(task) as computer:
                if left:
                    await computer.load(left)
                return await self._grade_on(computer, response)
        except FileRefused as refused:
            raise GraderBroke(refused.message) from refused
        except ComputerFailure as failure:
            raise GraderError(failure.message) from failure

    async def _install(
        self, computer: Computer
    ) -> Callable[[Sequence[str]], Awaitable[CommandResult]]:
        files, seconds = dict(grader_files(self.spec, self.root)), self.limits.grading_seconds
        stale = () if self.spec.report is None else (self.spec.report.file,)
        if files or stale:
            cleared = await computer.run(
                ["sh", "-c", _script("clear.sh"), "sh", *files, *stale], timeout=seconds
            )
            if cleared.exit_code or cleared.timed_out:
                raise GraderBroke(f"making room for the grader {how_it_ended(cleared, seconds)}")
        for name, content in files.items():
            await computer.write(name, content, executable=content.startswith(b"#!"))
        # a name that the agent cannot have guessed, even if this is its own computer
        folder = f"{HOME}/.grading-{secrets.token_hex(8)}"
        modules = {PurePosixPath(name).parts[0].removesuffix(".py") for name in files}
        site = f"OWN = {sorted(modules)!r}\n{_script('installed_first.py.template')}"
        await computer.write(f"{folder}/sitecustomize.py", site.encode())

        async def run(command: Sequence[str]) -> CommandResult:
            script = ("sh", "-c", _script("in_order.sh"), "sh", computer.locate(folder))
            return await computer.run([*script, *command], timeout=seconds)

        return run

    async def _grade_on(self, computer: Computer, response: str) -> Score:
        run, seconds = await self._install(computer), self.limits.grading_seconds
        for number, command in enumerate(self.spec.setup, start=1):
            result = await run(command)
            if result.exit_code or result.timed_out:
                how = f"Set-up command {number} of the grader {how_it_ended(result, seconds)}"
                raise GraderBroke(how) from ComputerFailure(how)
        report = self.spec.report
        result = await run(report.command if report else self.spec.command or ())
        how = f"the grading command {how_it_ended(result, seconds)}"
        if result.timed_out and self.spec.on_timeout == "error":
            raise GraderError(how)
        if result.timed_out:
            return scored(False, how, response)
        if result.limit or result.exit_code in (*self.spec.error_status, *_SIGNALLED):
            raise GraderBroke(how)
        if report is not None:
            try:
                content = await computer.read(report.file, max_bytes=10_000_000)
            except FileRefused as error:
                missing = f"no test report: {error.message.removesuffix('.')}; {how}"
                raise GraderBroke(missing) from error
            passed, failed = read_report(content)
            total = passed + len(failed)
            if not total:
                return scored(False, "the test report has no tests", response)
            if not failed and result.exit_code:  # what else failed counts as one more test
                reason = f"every test passed, but {how}"
                return scored(False, reason, response, soft=passed / (total + 1))
            names = brief(f"; failed: {', '.join(failed)}") if failed else ""
            reason = f"{passed} of {total} tests passed{names}"
            return scored(not failed, reason, response, soft=passed / total)
        hard_at = None if self.spec.score == "exit" else self.spec.hard_at
        streams = (result.stdout, result.stderr)
        return program_score("the grading command", result.exit_code, streams, response, hard_at)


def grader_files(spec: specs.ComputerScorer, root: Path) -> Iterator[tuple[str, bytes]]:
    yield from ((name, text.encode()) for name, text in spec.files.items())
    if spec.folder is None:
        return
    folder = root / spec.folder
    try:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            yield file.relative_to(folder).as_posix(), file.read_bytes()
    except OSError as error:
        raise GraderError(f"the grader's files cannot be read: {error}") from error


def read_report(content: bytes) -> tuple[int, list[str]]:
    """Count a JUnit report's passed tests and name the failed ones. Raises GraderBroke."""
    try:
        text = _NO_XML.sub(" ", content.decode("utf-8-sig")).lstrip()  # "" might join ]]> or tags
        if _DOCTYPE.match(text):
            raise GraderBroke("the test report has a document type")
        root = ET.fromstring(text)  # noqa: S314 - no entities without a document type
    except (ET.ParseError, ValueError) as error:
        raise GraderBroke(f"the test report is not XML in UTF-8: {error}") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise GraderBroke(f"the test report begins with <{root.tag[:40]}>, not with <testsuites>")
    cases = [
        case
        for suite in root.iter()
        for case in _tested(suite)
        if _failing(case) or (case.find("skipped") is None and case.get("status") not in _DISABLED)
    ]
    failed = [case.get("name") or "a test without a name" for case in cases if _failing(case)]
    # What breaks outside of a test, such as an import, may be told of its suite alone.
    broken = [
        suite.get("name") or "a suite without a name"
        for suite in root.iter("testsuite")
        if _failing(suite)
        or (
            suite.find("testsuite") is None
            and any(suite.get(key, "").strip("0") for key in ("failures", "errors"))
            and not any(map(_failing, suite.iter("testcase")))
            and not any(map(suite.findall, _EXCUSED))
        )
    ]
    return len(cases) - len(failed), failed + broken


def _tested(suite: ET.Element) -> Iterable[ET.Element]:
    """The test cases of a suite, without the tries that pytest and Bats repeated.

    They write those like passed tests, but leave them out of the suite's count.
    """
    cases, counted = suite.findall("testcase"), suite.get("tests", "")[:9]
    if not counted.isdecimal() or int(counted) >= len(cases):
        return cases
    # of each test the last try that failed or, if none did, the last one
    return {
        (one.get("classname"), one.get("name")): one for one in sorted(cases, key=_failing)
    }.values()


def _failing(element: ET.Element) -> bool:  # Catch2 skips expected failures, CTest what is unbuilt
    told = any(map(element.findall, ("failure", "error"))) and element.find("skipped") is None
    return told or element.find("skipped[@message='Unable to find executable']") is not None


@dataclass(kw_only=True, eq=False)
class TaskScorers:
    """Grades with each task's scorer, or else the default.

    Commands run in ``root`` and see the variables of ``functions``, which the caller closes.
    """

    default: specs.ScorerSpec | None = field(kw_only=False)
    judge: Judge | None
    root: Path
    functions: code.Functions
    pool: ComputerPool | None = None
    limits: AttemptLimits = field(default_factory=AttemptLimits)

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        return await self._build(self.spec(task), attempt, task)(task, attempt.response)

    def programs(self, tasks: Iterable[Task]) -> list[tuple[specs.ScorerSpec, Task]]:
        """Each grader of ``tasks`` that is a program, once per computer, with one of its tasks."""
        found: dict[str, tuple[specs.ScorerSpec, Task]] = {}
        for task in tasks:
            for part in specs.parts_of(self.spec(task)):
                key = part.model_dump_json()
                if isinstance(part, specs.ComputerScorer) and self.pool is not None:
                    key += self.pool.block(task).model_dump_json()
                if isinstance(part, _PROGRAMS):
                    found.setdefault(key, (part, task))
        return list(found.values())

    async def try_out(self, part: specs.ScorerSpec, task: Task) -> None:
        """Grade an empty submission with one of :meth:`programs`; raises :class:`GraderError`."""
        if isinstance(part, specs.ComputerScorer):
            # one that has no time for nothing has none for work
            part = part.model_copy(update={"on_timeout": "error"})
        scorer = self._build(part, Attempt((), ""), task)
        assert isinstance(scorer, ComputerGrader | FallibleScorer)  # noqa: S101
        await scorer.score_empty(task)

    def spec(self, task: Task) -> specs.ScorerSpec:
        if (spec := task.scorer or self.default) is None:
            raise GraderError(f"task {task.id!r} has no scorer")
        return spec

    def keeps_computer(self, task: Task) -> bool:
        return any(
            isinstance(part, specs.ComputerScorer) and part.same_computer
            for part in specs.parts_of(task.scorer or self.default)
        )

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """What a score depends on besides the attempt; None if not all of that is known."""
        spec = task.scorer or self.default
        if spec is None or any(map(grade_varies, specs.parts_of(spec))):
            return None
        parts = [part for part in specs.parts_of(spec) if isinstance(part, specs.ComputerScorer)]
        # increment when the same files and commands grade differently
        version = 8 if any(part.report for part in parts) else 2
        limits = limits_of(task, self.limits, self.pool)
        seconds = limits.model_dump(include={"grading_seconds"}, exclude_defaults=True)
        return {
            **({"grading": version, **seconds} if parts else {}),
            "scorer": spec.model_dump(mode="json", by_alias=True),
            "files": [
                [name, hashlib.sha256(content).hexdigest()]
                for part in parts
                for name, content in grader_files(part, self.root)
            ],
        }

    def _build(self, spec: specs.ScorerSpec, attempt: Attempt, task: Task) -> Scorer:
        """The scorer that ``spec`` describes; raises UsageError if it needs what is missing."""
        functions, root = self.functions, self.root
        match spec:
            case specs.Combination():
                parts = [self._build(part, attempt, task) for part in spec.of]
                return partial(grade_parts, spec, parts)
            case specs.CommandScorer():
                return FallibleScorer(
                    spec, partial(code.run_command, spec, root, functions.environ)
                )
            case specs.PythonScorer():
                return FallibleScorer(spec, partial(code.call_function, spec, root, functions))
            case specs.RubricScorer():
                if self.judge is None:
                    raise UsageError(
                        "a rubric scorer needs a judge model", hint="Set `model.judge`."
                    )
                return FallibleScorer(spec, partial(code.ask_judge, spec, self.judge))
            case specs.ComputerScorer():
                if self.pool is None:
                    raise UsageError("a computer scorer needs a computer", hint=NEEDS_COMPUTER)
                limits = limits_of(task, self.limits, self.pool)
                return ComputerGrader(spec, attempt, self.pool, root, limits)
            case _:
                return partial(grade_answer, spec)


def check_scorers(
    splits: Splits, default: specs.ScorerSpec | None, *, root: Path, environ: Mapping[str, str]
) -> None:
    """Raise UsageError, or TaskFileError naming the tasks, if a scorer cannot grade its tasks."""
    problems = []
    with closing(code.Functions(environ)) as functions:
        if default is not None and (fault := check_spec(default, root, functions)):
            raise UsageError(f"scorer: {fault}")
        for task in splits.all:
            if task.scorer is not None:
                fault = check_spec(task.scorer, root, functions) or check_task(task.scorer, task)
            elif default is not None:
                fault = check_task(default, task)
            else:
                fault = "the task has no scorer, and the configuration has none for all"
            if fault:
                problems.append(TaskProblem(task.file, task.line, f"task {task.id!r}: {fault}"))
    refuse(problems)


def check_spec(spec: specs.ScorerSpec, root: Path, functions: code.Functions) -> str | None:
    """The fault of ``spec``, if any. Raises UsageError for a function that cannot be loaded."""
    parts = [*specs.parts_of(spec)]
    unkept = [one.type for one in parts if grade_varies(one)]
    if unkept and any(one.type == "computer" and one.same_computer for one in parts):
        return (
            f"`same_computer` cannot stand beside `{unkept[0]}`, whose grades are not kept: each "
            "evaluation would make the attempts again"
        )
    for part in parts:
        match part:
            case specs.ContainsScorer() if "" in (*part.contains, *part.not_contains):
                return "every answer contains an empty text"
            case specs.CommandScorer() if fault := code.check_command(
                part, root, functions.environ
            ):
                return fault
            case specs.PythonScorer():
                functions.worker(part.entry, root)
            case specs.ComputerScorer(folder=str(folder)) if not (root / folder).is_dir():
                return f"the grader's folder is not there: {root / folder}"
            case specs.ComputerScorer(folder=str(folder)):
                cell, files = current(), (root / folder).rglob("*")
                if out := next((file for file in files if cell.hides(file, cell.root)), None):
                    return f"the grader's folder {folder!r} may not lead to {out.resolve()}"
    return None


def check_task(spec: specs.ScorerSpec, task: Task) -> str | None:
    checks = {kind: grader.check for kind, grader in GRADERS.items()}
    checks[specs.RubricScorer] = code.check_rubric_task
    faults = (checks[type(one)](one, task) for one in specs.parts_of(spec) if type(one) in checks)
    return next(filter(None, faults), None)
