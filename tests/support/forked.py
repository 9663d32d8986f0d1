"""Programs in real processes of their own, forked from one that has imported everything already.

Python and what we import take a second of a core to start, more than most commands take to run.
``run`` does what ``subprocess.run([sys.executable, *words])`` does, in a fortieth of that. What it
starts can be killed as any process can. Only the place where the kernel keeps the environment that
a process began with is the server's; tests of that place start Python themselves.

As a program this file is the server: each connection brings the words, folder and environment of a
process, and its standard input, output and error; it is told the process' id, then how it ended.
"""

import atexit
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

Finished = subprocess.CompletedProcess[str]


class Process:
    """``python WORDS`` in a session of its own, with the three standard files ``files``.

    If the first of them is a terminal, it is the session's.
    """

    def __init__(
        self, words: Sequence[str | Path], cwd: Path, env: Mapping[str, str], files: Sequence[int]
    ) -> None:
        self._talk = socket.socket(socket.AF_UNIX)
        self._talk.connect(_server())
        asked = {"words": [str(word) for word in words], "cwd": str(cwd), "env": dict(env)}
        socket.send_fds(self._talk, [json.dumps(asked).encode() + b"\n"], files)
        self._lines = self._talk.makefile()
        self.pid = int(self._lines.readline())

    def wait(self, timeout: float = 120) -> int:
        """Return how it ended; it is killed, and TimeoutError raised, after ``timeout`` seconds."""
        with self._talk, self._lines:
            self._talk.settimeout(timeout)
            try:
                return int(self._lines.readline())
            except TimeoutError:
                os.kill(self.pid, signal.SIGKILL)
                raise


def run(
    words: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float = 120,
    merged: bool = False,
) -> Finished:
    """Run ``python WORDS`` and return what it printed; ``merged`` puts errors into the output.

    Its process id is in ``MORTAL``, for hooks that kill it. Raises subprocess.TimeoutExpired.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        Path(os.devnull).open("rb") as nothing,
    ):
        printed = [nothing.fileno(), out.fileno(), (out if merged else err).fileno()]
        try:
            code = Process(words, cwd, env, printed).wait(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired([*map(str, words)], timeout) from None
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *texts)


@cache
def _server() -> str:
    """Start the server, which ends with this process; return its socket's path."""
    folder = tempfile.mkdtemp(prefix="forked-")  # the server removes it, also if we are killed
    path = f"{folder}/socket"
    plain = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, __file__, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=plain,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    @atexit.register
    def end() -> None:
        process.stdin.close()
        process.wait()
        process.stdout.close()

    return path


def _import_all() -> None:
    """Import the package, and the libraries that it imports when they are needed."""
    import importlib
    import pkgutil

    import skillopt_ci

    for module in pkgutil.walk_packages(skillopt_ci.__path__, "skillopt_ci."):
        if not module.name.endswith(("__main__", "_worker", "worker_process")):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue  # belongs to an extra
    clients = ("aiohttp", "httpcore2", "openai")
    for name in (*clients, "genai_prices", "git", "rich.live", "rich.progress", "skills_ref"):
        importlib.import_module(name)
    pages = importlib.import_module("skillopt_ci.report.html_page")._template().environment
    for name in pages.list_templates():
        pages.get_template(name)  # compiled for all


def _serve(path: str) -> None:
    """Fork for each connection; returns only in a child, which is to run what was asked."""
    import gc
    import select

    _import_all()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:  # whoever started the server is gone
            shutil.rmtree(Path(path).parent, ignore_errors=True)
            os._exit(0)
        talk, _ = listener.accept()
        if os.fork() == 0:
            break
        talk.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, files, _, _ = socket.recv_fds(talk, 1 << 20, 3)
    while not content.endswith(b"\n"):
        content += talk.recv(1 << 20)
    pid = os.fork()
    if pid:
        talk.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        try:
            talk.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        finally:
            os._exit(0)
    talk.close()
    asked = json.loads(content)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.setsid()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"], MORTAL=str(os.getpid()))
    sys.orig_argv[1:] = sys.argv[:] = asked["words"]


def _run() -> None:
    """Do what Python does with the words of its command line."""
    import runpy

    kind, rest = sys.argv[0], sys.argv[1:]
    if kind == "-m":
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


def _leave(code: int) -> None:
    """End as Python does, but let the kernel free what was imported: Python takes 70 ms for that.

    Where Python itself would have something to tell of the end, this returns.
    """
    import gc
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what speaks up as it is thrown away does so
    with suppress(AttributeError, OSError, ValueError):  # there is none, or it takes nothing more
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)
    _serve(sys.argv[1])
    try:
        _run()
    except SystemExit as end:
        if isinstance(end.code, int):
            _leave(end.code & 0xFF)
        raise
    _leave(0)
