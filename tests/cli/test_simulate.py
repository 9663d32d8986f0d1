from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "skillopt_ci", "simulate", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        yield one
        one.kill()


def base_url(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return server.stdout.readline().strip()


def test_the_first_line_is_the_address_of_a_server_that_answers(
    server: subprocess.Popen[str],
) -> None:
    body = {"model": "simulated-target", "messages": [{"role": "user", "content": "ready?"}]}
    request = Request(
        f"{base_url(server)}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=10) as reply:
        assert json.load(reply)["model"] == "simulated-target"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_peace(server: subprocess.Popen[str], number: signal.Signals) -> None:
    assert base_url(server).startswith("http://127.0.0.1:")
    server.send_signal(number)
    _, err = server.communicate(timeout=10)
    assert (server.returncode, err) == (0, "")


def test_a_port_in_use_is_the_user_s_to_change(cli: Cli, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli(tmp_path, "simulate", "--port", str(port))
    assert done.code == 2
    assert f"Cannot serve on 127.0.0.1:{port}: Address already in use." in done.err


@pytest.mark.parametrize(
    "option", [("--port", "70000"), ("--fault-rate", "2"), ("--latency", "-1")]
)
def test_an_impossible_option_is_refused(cli: Cli, tmp_path: Path, option: tuple[str, str]) -> None:
    done = cli(tmp_path, "simulate", *option)
    assert done.code == 2
    assert option[0] in done.err
