"""The installed command, run in a checkout as a person would."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
import pytest

Finished = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Done:
    """What a command said and ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on standard output."""
        (line,) = self.out.splitlines()
        return json.loads(line)


Cli = Callable[..., Done]


class Terminal(io.StringIO):
    """A terminal as far as programs can tell."""

    def isatty(self) -> bool:
        return True


def command_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Return what runs ``skillopt-ci`` in a folder, in this process."""
    from skillopt_ci.cli.main import main

    def run(folder: Path, *words: str | Path) -> Done:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = main([str(word) for word in words])
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run


def skillopt_ci(folder: Path, *words: str | Path, **env: str) -> Finished:
    """Run the command in ``folder``; ``env`` comes on top of the environment."""
    env = {**os.environ, "DEMO_KEY": "sk-demo-key", **env}
    return forked.run(["-m", "skillopt_ci", *words], cwd=folder, env=env)


@contextmanager
def serving_report(folder: Path, *program: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A real process that serves the report of a repository, and its port; it has to be ended."""
    process = subprocess.Popen(
        [sys.executable, *(program or ("-m", "skillopt_ci")), "report", "--serve", "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            told = json.loads(line)["address"] if "--json" in program else line
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", told)
            assert found is not None
            yield int(found[1]), process
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def overrides(*settings: str) -> list[str]:
    """The options that override ``section.key=value`` each."""
    return [word for setting in settings for word in ("-o", setting)]


def in_process(folder: Path, *words: str | Path) -> Finished:
    """Run the command in this process, which takes a tenth of the time."""
    from skillopt_ci.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        pytest.MonkeyPatch.context() as process,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        process.setenv("DEMO_KEY", "sk-demo-key")
        code = main([str(word) for word in words])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
