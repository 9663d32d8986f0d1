from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from skillopt_ci.config.loading import load

SCHEMA = Path(__file__).parents[2] / "configs" / "schema.json"


def test_what_is_printed_is_the_same_configuration(cli, untrained, tmp_path):
    done = cli(untrained, "config", "-o", "train.num_epochs=7")
    (tmp_path / "printed.yaml").write_text(done.out, encoding="utf-8")
    expected = load(untrained / "skillopt.yaml", ("train.num_epochs=7",)).config
    assert load(tmp_path / "printed.yaml").config == expected


def test_json_has_the_defaults_worked_in(cli, untrained):
    found = cli(untrained, "config", "--json").json
    assert found["evaluation"]["gate_metric"] == "hard"


def test_the_schema_is_the_committed_one(cli, tmp_path):
    printed = json.loads(cli(tmp_path, "config", "schema").out)
    assert printed == json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_warnings_go_to_stderr(cli, tmp_path):
    (tmp_path / "skillopt.yaml").write_text(
        "env: {skill_init: SKILL.md, split_dir: data}\ntrain: {num_epochs: 2}\n"
        "model: {target: m, optimizer: m}\nevaluation: {use_gate: true}\n",
        encoding="utf-8",
    )
    done = cli(tmp_path, "config", "-o", "run=x")
    assert done.code == 0, done.err
    assert done.err.startswith("warning: ")
    assert "warning" not in done.out


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_address_of_a_server_that_answers_is_printed_until_a_signal_ends_it(server, number):
    address = base_url(server)
    assert address.startswith("http://127.0.0.1:")
    body = {"model": "simulated-target", "messages": [{"role": "user", "content": "ready?"}]}
    request = Request(
        f"{address}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=10) as reply:
        assert json.load(reply)["model"] == "simulated-target"
    server.send_signal(number)
    _, err = server.communicate(timeout=10)
    assert (server.returncode, err) == (0, "")


def test_a_port_in_use_is_the_user_s_to_change(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli(tmp_path, "simulate", "--port", str(port))
    assert done.code == 2
    assert f"Cannot serve on 127.0.0.1:{port}: Address already in use." in done.err
