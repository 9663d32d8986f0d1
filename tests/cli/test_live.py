from dataclasses import replace

import pytest

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.progress import Note, StageFinished, StageStarted

EVENTS = (StageStarted("rollout", 2), Note("hello"), Note("careful", "warning"))


@pytest.fixture
def settings() -> Globals:
    return replace(Globals.of_process(), environ={})


def told(settings: Globals, capsys: pytest.CaptureFixture[str]) -> str:
    with build_observer(settings) as observer:
        for event in (*EVENTS, StageFinished("rollout", "0.5")):
            observer(event)
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_a_log_gets_plain_lines(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(settings, capsys).splitlines()
    assert lines[0] == "· rollout     2 to do"
    assert lines[-1] == "✓ rollout     0.5"


def test_no_progress_leaves_notes(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    quieter = replace(settings, progress=False)
    assert told(quieter, capsys) == "· hello\n! warning: careful\n"


def test_quiet_leaves_warnings(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(replace(settings, verbosity=-1), capsys) == "! warning: careful\n"
