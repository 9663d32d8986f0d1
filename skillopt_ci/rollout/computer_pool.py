"""Provide a computer for each attempt, with the task's files and set-up."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillopt_ci.aio import TimeUp, working_time
from skillopt_ci.computer.computer import Computer, Computers, ComputerSpec
from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import AttemptLimits, ComputerBlock, ComputerConfig
from skillopt_ci.errors import ComputerFailure, FileRefused, TaskFileError, UsageError
from skillopt_ci.program import CommandResult
from skillopt_ci.scorers.base import last_words
from skillopt_ci.tasks.records import task_files
from skillopt_ci.tasks.task import ComputerTask, Task

NEEDS_COMPUTER = "Set `rollout.computer`, with `type: sandbox` for instance."
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class ComputerPool:
    """Computers for tasks: all have ``base``, and ``common`` is added for every task."""

    computers: Computers
    base: ComputerSpec = field(default_factory=ComputerSpec)
    common: ComputerTask | None = None

    def block(self, task: Task) -> ComputerBlock:
        """The configuration of the computer for ``task``, including what all tasks share."""
        own = ComputerBlock() if task.computer is None else task.computer.block
        return own if self.common is None else own.over(self.common.block)

    def open(self, task: Task) -> AbstractAsyncContextManager[Computer]:
        return self.computers.open(self.spec(task))

    def spec(self, task: Task) -> ComputerSpec:
        block = self.block(task)
        return replace(
            self.base,
            network=block.network or self.base.network,
            image=self.base.image if block.image is None else block.image,
            environ={**self.base.environ, **block.environ},
        )

    @asynccontextmanager
    async def prepared(self, task: Task, seconds: float) -> AsyncIterator[Computer]:
        """A computer set up for ``task``; ComputerFailure if that takes more than ``seconds``."""
        async with AsyncExitStack() as opened:
            async with _within(seconds, task):
                computer = await opened.enter_async_context(self.open(task))
            async with _within(seconds, task):
                common = () if self.common is None else self.common.files
                own = () if task.computer is None else task.computer.files
                try:
                    for file in {file.name: file for file in (*common, *own)}.values():
                        script = file.content.startswith("#!")
                        await computer.write(file.name, file.content.encode(), executable=script)
                except FileRefused as error:
                    raise ComputerFailure(f"The files of task {task.id!r}: {error}") from error
                for number, command in enumerate(self.block(task).setup, start=1):
                    result = await computer.run(command, timeout=seconds)
                    if result.exit_code or result.timed_out:
                        how = how_it_ended(result, seconds)
                        raise ComputerFailure(f"Set-up command {number} of task {task.id!r} {how}")
            yield computer


def how_it_ended(result: CommandResult, seconds: float) -> str:
    said = last_words(result.stderr.strip() or result.stdout)
    if result.timed_out:
        how = f"took longer than {seconds:g} s"
    elif result.limit:
        how = f"reached the computer's limit of {result.limit}"
    else:
        how = f"ended with status {result.exit_code}"
    return f"{how}: {said}" if said else how


@asynccontextmanager
async def _within(seconds: float, task: Task) -> AsyncIterator[None]:
    try:
        async with working_time(seconds):
            yield
    except TimeUp:
        raise ComputerFailure(
            f"The computer of task {task.id!r} was not ready within {seconds:g} s (setup_seconds)"
        ) from None


def open_computer_pool(
    config: Config, root: Path, environ: Mapping[str, str]
) -> ComputerPool | None:
    """The configured computers, if any; raises UsageError for missing files."""
    settings, block = config.rollout.computer, config.rollout.task
    if settings is None:
        return None
    try:
        common = None if block is None else ComputerTask(block, task_files(block.files, root))
    except (TaskFileError, ValueError) as error:
        raise UsageError(f"rollout.task: files: {error}") from error
    base = ComputerSpec(**settings.model_dump(exclude={"type"}))
    return ComputerPool(computers(settings, environ), base, common)


def limits_of(task: Task, usual: AttemptLimits, pool: ComputerPool | None) -> AttemptLimits:
    """The task's own limits, then those of all tasks with a computer, then the ``usual`` ones."""
    return usual if pool is None else usual.changed(pool.block(task).limits)


def computers(settings: ComputerConfig, environ: Mapping[str, str]) -> Computers:
    """The configured kind of computer; ``environ`` provides PATH and Docker's variables."""
    # Imported late: runs that only chat do not need these.
    from skillopt_ci.computer.docker import Containers  # noqa: PLC0415
    from skillopt_ci.computer.local import Unconfined  # noqa: PLC0415
    from skillopt_ci.computer.sandbox import Sandboxes  # noqa: PLC0415

    search_path = environ.get("PATH") or _USUAL_PATH
    if settings.type == "docker":
        return Containers(environ, settings.image)
    return Unconfined(search_path) if settings.type == "unconfined" else Sandboxes(search_path)
