"""Programs in real processes of their own, forked from one that has imported everything already.

Python and what we import take a second of a core to start, more than most commands take to run.
``run`` does what ``subprocess.run([sys.executable, *words])`` does, in a fortieth of that. What it
starts can be killed as any process can. Only the place where the kernel keeps the environment that
a process began with is the server's; tests of that place start Python themselves.

As a program this file is the server: each connection brings the words, folder and environment of a
process, and its standard output and error; it is told the process' id, then how it ended.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

Finished = subprocess.CompletedProcess[str]


def run(
    words: list[str],
    *,
    cwd: Path,
    env: dict[str, str],
    timeout: float = 120,
    merged: bool = False,
) -> Finished:
    """Run ``python WORDS`` and return what it printed; ``merged`` puts errors into the output.

    Its process id is in ``MORTAL``, for hooks that kill it. Raises subprocess.TimeoutExpired.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(_server())
            asked = {"words": [str(word) for word in words], "cwd": str(cwd), "env": env}
            files = [out.fileno(), (out if merged else err).fileno()]
            socket.send_fds(talk, [json.dumps(asked).encode() + b"\n"], files)
            talk.settimeout(timeout)
            with talk.makefile() as lines:
                pid = int(lines.readline())
                try:
                    code = int(lines.readline())
                except TimeoutError:
                    os.kill(pid, 9)
                    raise subprocess.TimeoutExpired(words, timeout) from None
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, code, *texts)


@cache
def _server() -> str:
    """Start the server, which ends with this process; return its socket's path."""
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    path = f"{folder.name}/socket"
    plain = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, __file__, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder.name,
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
        folder.cleanup()

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
    for name in ("aiohttp", "anthropic", "openai", "rich.live", "rich.progress"):
        importlib.import_module(name)


def _serve(path: str) -> None:
    """Fork for each connection; returns only in a child, which is to run what was asked."""
    import gc
    import select
    import signal

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
            os._exit(0)
        talk, _ = listener.accept()
        if os.fork() == 0:
            break
        talk.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    content, files, _, _ = socket.recv_fds(talk, 1 << 20, 2)
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
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *files]):
        os.dup2(file, number)
        os.close(file)
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


if __name__ == "__main__":
    sys.path.pop(0)
    _serve(sys.argv[1])
    _run()
