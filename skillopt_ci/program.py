"""Run a program under a time limit, and leave nothing of it behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.confinement import current

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

    The program is confined as far as this machine allows: it cannot read our secrets, and can write
    only to ``work``, a part of ``folder``; with ``keeps_home`` its user's home is there. All that
    it started is killed with it, after ``timeout`` seconds, on cancellation and after a normal end
    alike. Raises TimeoutError, and OSError or ValueError if it cannot be started.
    """
    # Files instead of pipes: a grandchild that keeps a pipe open cannot make us wait for it.
    # They are not in `work`: a program could put a link to another file in their place.
    output, errors = folder / "stdout", folder / "stderr"
    cell = await asyncio.to_thread(lambda: current().cell(work))
    command, variables = cell.command(
        arguments, environ, cwd, needs=arguments, keeps_home=keeps_home
    )
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


def visible_environ(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of ``environ`` that a program may see: a few basic ones and ``names``."""
    return {name: environ[name] for name in (*ALWAYS_VISIBLE, *names) if name in environ}


def tail(file: Path, size: int) -> str:
    """The last ``size`` bytes of ``file`` as text; bytes that are not UTF-8 are replaced."""
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - size))
        return stream.read().decode("utf-8", errors="replace")


def signal_name(status: int) -> str:
    """The name of the signal that a negative ``status`` stands for."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
