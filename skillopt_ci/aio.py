"""Bounded concurrency whose results do not depend on the order of completion."""

import asyncio
import contextlib
import os
import signal
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from skillopt_ci.confinement import current
from skillopt_ci.errors import BudgetExhausted, TooManyErrors

Item = TypeVar("Item")
Result = TypeVar("Result")


@asynccontextmanager
async def siblings() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure itself instead of a group around it.

    Callers act on the type of the failure (a budget, a wrong key); the group would hide it.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


class Begun(Generic[Item, Result]):
    """Work on items that may begin before its result is asked for; see :func:`begun`."""

    def __init__(self, work: Callable[[Item], Awaitable[Result]]) -> None:
        self._work = work
        self._tasks: dict[Item, asyncio.Future[Result]] = {}

    @property
    def any(self) -> bool:
        """Whether work on some item was begun."""
        return bool(self._tasks)

    def begin(self, item: Item) -> None:
        """Begin the work on ``item``, if that was not done before."""
        if item not in self._tasks:
            self._tasks[item] = asyncio.ensure_future(self._work(item))

    async def result(self, item: Item) -> Result:
        """What comes of the work on ``item``, or its failure."""
        self.begin(item)
        return await asyncio.shield(self._tasks[item])

    async def end(self, *, cancel: bool) -> None:
        """Wait until nothing is under way any more; ``cancel`` it first."""
        for task in self._tasks.values():
            if cancel:
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@asynccontextmanager
async def begun(
    work: Callable[[Item], Awaitable[Result]],
) -> AsyncIterator[Begun[Item, Result]]:
    """Let ``work`` on items begin ahead of time; what nobody waits for at the end is cancelled.

    What is under way is let finish where an orderly end keeps what was paid for: when a budget is
    used up, or too many errors forbid a statement.
    """
    ahead = Begun(work)
    try:
        yield ahead
    except (BudgetExhausted, TooManyErrors):
        await ahead.end(cancel=False)
        raise
    finally:
        await ahead.end(cancel=True)


async def map_ordered(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, limit: int
) -> list[Result]:
    """Apply ``work`` to every item, ``limit`` at a time, and return the results in item order.

    The first failure cancels what is under way and is raised as it is; only when a budget is used
    up is work that had begun let finish, for it is paid for. Items are drawn as workers come free,
    so a long iterable costs no more memory than its results.
    """
    results: dict[int, Result] = {}
    exhausted: list[BudgetExhausted] = []
    source: Iterator[tuple[int, Item]] = iter(enumerate(items))

    async def worker() -> None:
        for index, item in source:
            try:
                results[index] = await work(item)
            except BudgetExhausted as error:
                exhausted.append(error)
            if exhausted:
                return

    async with siblings() as group:
        for _ in range(limit):
            group.create_task(worker())
    if exhausted:
        raise exhausted[0]
    return [results[index] for index in sorted(results)]


async def stream(
    work: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item],
    *,
    limit: int,
    ordered: bool = False,
) -> AsyncGenerator[Result, None]:
    """Apply ``work`` to every item, ``limit`` at a time, and yield each result as it comes.

    With ``ordered`` they come in item order. At most four times ``limit`` items are begun and not
    yet taken, so a long iterable costs no memory. Failures are as with :func:`map_ordered`. Who
    does not take all results must close the generator; what is under way is then cancelled.
    """
    window = asyncio.Semaphore(4 * limit)
    done = asyncio.Queue[tuple[int, Result] | BaseException | None]()
    workers = asyncio.create_task(_work_through(work, items, limit, window, done))
    waiting: dict[int, Result] = {}
    following = 0
    try:
        while (found := await done.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            index, result = found
            waiting[index if ordered else following] = result
            while following in waiting:
                yield waiting.pop(following)
                following += 1
                window.release()
    finally:
        workers.cancel()
        await asyncio.gather(workers, return_exceptions=True)


async def _work_through(
    work: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item],
    limit: int,
    window: asyncio.Semaphore,
    done: asyncio.Queue[tuple[int, Result] | BaseException | None],
) -> None:
    """Put the result of each item into ``done`` with its index; at the end None, or a failure."""
    source = iter(enumerate(items))
    exhausted: list[BudgetExhausted] = []

    async def worker() -> None:
        while await window.acquire() and not exhausted:
            try:
                index, item = next(source)
            except StopIteration:
                window.release()
                return
            try:
                done.put_nowait((index, await work(item)))
            except BudgetExhausted as error:
                exhausted.append(error)
                for _ in range(limit):
                    window.release()  # nobody waits for room any more

    try:
        async with siblings() as group:
            for _ in range(limit):
                group.create_task(worker())
    except BaseException as error:  # noqa: BLE001 - raised by who takes the results
        done.put_nowait(error)
    else:
        done.put_nowait(exhausted[0] if exhausted else None)


def _first(failures: BaseExceptionGroup) -> BaseException:
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


# The scheduler: places for all work of a session, where only so much may be under way at once.


class Places:
    """Lets ``most`` pieces of work be under way; the others wait, whoever came first goes first.

    It belongs to one event loop. ``changed`` is set whenever a place is taken or left.
    """

    def __init__(self, most: int, changed: asyncio.Event | None = None) -> None:
        self.most = most
        self.taken = 0
        self._slots = asyncio.Semaphore(most)
        self._changed = changed or asyncio.Event()

    @property
    def free(self) -> bool:
        """Whether there is a place that nobody waits for."""
        return not self._slots.locked()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and keep it for the body."""
        async with self.spare():
            self._count(1)
            try:
                yield
            finally:
                self._count(-1)

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[None]:
        """The same for work that is not counted in ``taken``."""
        try:
            async with self._slots:
                yield
        finally:
            self._changed.set()

    def _count(self, by: int) -> None:
        self.taken += by
        self._changed.set()


#: Seconds after which a place that attempts have left counts as empty: when the last of a wave of
#: answers are in, the next wave is asked, and is not to find spare work in its places.
MOMENT = 0.03


class Scheduler:
    """The places of a session, which all of its work shares, whatever stage it belongs to.

    ``attempts`` are made at tasks, ``questions`` are put to the optimizer. ``moment`` is how long
    a place is kept free, in seconds.
    """

    def __init__(self, attempts: int, questions: int, *, moment: float = MOMENT) -> None:
        self._moment = moment
        self._changed = asyncio.Event()
        self.attempts = Places(attempts, self._changed)
        self.questions = Places(questions, self._changed)

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[None]:
        """Keep a place for an attempt, one that would stay empty while other work is under way.

        Between two stages nothing is begun: the next one is to find all places free.
        """
        await self._seen_empty()
        # who waits for a question asks for no places, but attempts may soon be followed by others
        while not self.questions.taken:
            await asyncio.sleep(self._moment)
            if self._has_spare:
                break
            await self._seen_empty()
        async with self.attempts.spare():
            yield

    async def _seen_empty(self) -> None:
        while not self._has_spare:
            self._changed.clear()
            await self._changed.wait()

    @property
    def _has_spare(self) -> bool:
        busy = self.attempts.taken or self.questions.taken
        return self.attempts.free and bool(busy)


# Time that is worked: a limit whose clock stands still while somebody else is waited for.


class TimeUp(Exception):
    """The working time is over."""


class _Clock:
    """One limit under way; ``waiting`` counts those who have it stand still."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._waiting = 0
        self._left = 0.0

    def stop(self) -> None:
        self._waiting += 1
        when = self._timeout.when()
        if self._waiting == 1 and when is not None and not self._timeout.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        self._waiting -= 1
        if not self._waiting and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def refund(self, seconds: float) -> None:
        when = self._timeout.when()
        if when is None:
            self._left += seconds
        elif not self._timeout.expired():
            self._timeout.reschedule(when + seconds)


_CLOCK: ContextVar[_Clock | None] = ContextVar("working_time", default=None)


@asynccontextmanager
async def working_time(seconds: float | None) -> AsyncIterator[None]:
    """Cancel the body after ``seconds`` of working time (None: never) and raise :class:`TimeUp`.

    A limit around another one is not stopped by what waits inside.
    """
    timeout = asyncio.timeout(seconds)
    token = _CLOCK.set(None if seconds is None else _Clock(timeout))
    try:
        async with timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise TimeUp from None
        raise
    finally:
        _CLOCK.reset(token)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Let the time in which the body waits count for nothing."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.go_on()


def refund(seconds: float) -> None:
    """Give time back that turned out to be somebody else's fault."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.refund(seconds)


# Work that is done to its end, whoever is cancelled meanwhile: cleaning up, above all.


async def undisturbed(work: Awaitable[Result]) -> Result:
    """Wait for ``work`` until it is done; a cancellation that comes meanwhile is raised then."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and not task.cancelled():
        task.exception()  # heard, and of less weight than the cancellation
        raise cancellation
    return task.result()


# Run a program under a time limit, and leave nothing of it behind.

#: What every program may see of the environment.
ALWAYS_VISIBLE = ("PATH", "HOME", "LANG")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its status (negative: the signal that killed it) and what it wrote."""

    status: int
    output: Path
    errors: Path


async def run_program(
    arguments: Sequence[str],
    *,
    stdin: Path,
    folder: Path,
    work: Path,
    cwd: Path,
    environ: Mapping[str, str],
    timeout: float,
    keeps_home: bool = False,
) -> Ended:
    """Run ``arguments`` with ``stdin``; its output goes to files in ``folder``.

    It is kept from our secrets as far as that can be had here, and may write to ``work`` alone, a
    part of ``folder``; with ``keeps_home`` its user's home is there.
    Whatever it started is killed with it, after ``timeout`` seconds, on cancellation and after a
    normal end alike. Raises TimeoutError, and OSError or ValueError if it cannot be started.
    """
    # Files instead of pipes: a grandchild that keeps a pipe open cannot make us wait for it.
    # They are not in `work`: a program could put a link to another file in their place.
    output, errors = folder / "stdout", folder / "stderr"
    cell = await asyncio.to_thread(lambda: current().cell(work))
    command, variables = cell.command(arguments, environ, cwd, trusted=True, keeps_home=keeps_home)
    with stdin.open("rb") as source, output.open("wb") as stdout, errors.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=source,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=variables,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(timeout):
            status = await process.wait()
    finally:
        # Also after a normal end: nothing that the program started outlives it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Ended(cell.status(status), output, errors)


def visible(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of ``environ`` that a program may see: a few basic ones and ``names``."""
    return {name: environ[name] for name in (*ALWAYS_VISIBLE, *names) if name in environ}


def tail(file: Path, size: int) -> str:
    """The last ``size`` bytes of ``file`` as text; what is not UTF-8 is replaced."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - size))
        return stream.read().decode("utf-8", errors="replace")


def signal_name(status: int) -> str:
    """The name of the signal that a negative ``status`` stands for."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
