"""Servers and agents that are not as we would have them."""

import json
from collections.abc import Iterator
from typing import Any

import model_api
import pytest
import yaml
from command_line import Cli
from model_api import ModelApi

from tests.conftest import Checkout

SIMULATED = {"provider": "simulated", "model": "simulated-optimizer"}


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with model_api.serving() as served:
        served.key = "sk-demo-key"
        yield served


def configured(checkout: Checkout, **sections: Any) -> None:
    """Lay ``sections`` over the checkout's configuration."""
    file = checkout.folder / "skillopt.yaml"
    whole = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**whole, **sections}), encoding="utf-8")


def target(checkout: Checkout, **role: Any) -> None:
    """Let this model be the target."""
    made = {"api_key_env": "DEMO_KEY", "model": "m", "retries": 0, **role}
    configured(checkout, model={"target": made, "optimizer": SIMULATED})


def findings(cli: Cli, checkout: Checkout, part: str) -> str:
    """What `check --probe` has against a part."""
    done = cli(checkout.folder, "check", "--probe", "--json")
    return "\n".join(
        one["text"]
        for one in json.loads(done.out)["findings"]
        if one["part"] == part and one["level"] != "ok"
    )


# --- answers -------------------------------------------------------------------------------------


def test_an_answer_of_null_is_asked_for_again(workshop, cli):
    checkout, given = workshop.checkout(), iter([None])
    task = {"id": "one", "prompt": "What?", "references": "yes"}
    checkout.write("tasks/test.jsonl", json.dumps(task) + "\n")
    workshop.server.answer = lambda system, prompt: next(given, "<answer>yes</answer>")
    words = ("eval", "skills/SKILL.md", "--split", "test", "--json")
    done = cli(checkout.folder, *words, "-o", "model.target.retries=1")
    assert done.code == 0, done.err
    assert workshop.server.answered.total() == 2
    assert '"hard": 1' in done.out


# --- servers -------------------------------------------------------------------------------------


def test_the_address_of_anthropics_protocol_may_end_in_v1(checkout, cli, api):
    target(checkout, provider="anthropic", base_url=f"{api.url}/v1")
    cli(checkout.folder, "check", "--probe")
    assert set(api.paths) == {"/v1/messages"}


@pytest.mark.parametrize("provider", ["anthropic", "compatible"])
def test_headers_take_values_from_the_environment(checkout, cli, api, monkeypatch, provider):
    monkeypatch.setenv("GATEWAY_TEAM", "blue-team")
    url = api.url if provider == "anthropic" else f"{api.url}/v1"
    target(checkout, provider=provider, base_url=url, headers={"x-team": "the ${GATEWAY_TEAM}"})
    cli(checkout.folder, "check", "--probe")
    assert [sent.get("x-team") for sent in api.headers] == ["the blue-team"]


@pytest.mark.parametrize("value", [None, "", "blue\u200bteam"])
def test_a_header_without_its_variable_is_told_before_calls(checkout, cli, api, monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("GATEWAY_TEAM", value)
    url = f"{api.url}/v1"
    target(checkout, provider="compatible", base_url=url, headers={"x-team": "${GATEWAY_TEAM}"})
    assert "GATEWAY_TEAM" in findings(cli, checkout, "model.target")
    assert not api.bodies


def test_minimaxs_refused_key_is_one(checkout, cli, api):
    refused = {"base_resp": {"status_code": 1004, "status_msg": "login fail: carry the key"}}
    for _ in range(3):
        api.will({"id": "x", "choices": None, **refused})
    target(checkout, provider="minimax", base_url=f"{api.url}/v1", api_key_env="DEMO_KEY")
    assert "login fail" in findings(cli, checkout, "model.target")
    assert len(api.bodies) == 1


def test_qwens_thinking_is_refused(checkout, cli, api):
    target(checkout, provider="qwen", base_url=f"{api.url}/v1", thinking=True)
    done = cli(checkout.folder, "check", "--probe")
    assert done.code == 2
    assert "Qwen (Alibaba Cloud) has no switch for `thinking: true`" in done.out + done.err
    assert not api.bodies


# --- agents --------------------------------------------------------------------------------------


def agent(checkout: Checkout, name: str, script: str, **more: Any) -> None:
    """Let the tasks, one of each split, be worked on by a program in the place of a known agent."""
    program = checkout.folder / "agent.sh"
    program.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    program.chmod(0o755)
    for split in ("train", "selection", "test"):
        task = {"id": split, "prompt": f"Do {split}", "references": "done"}
        checkout.write(f"tasks/{split}.jsonl", json.dumps(task) + "\n")
    solver = {"type": "external", "agent": name, "command": [str(program)]}
    rollout = {"solver": solver, "computer": {"type": "unconfined"}, "retries": 0, **more}
    configured(checkout, rollout=rollout)


def evaluated(cli: Cli, checkout: Checkout) -> tuple[int, str]:
    done = cli(checkout.folder, "eval", "skills/SKILL.md", "--split", "test", "--json")
    return done.code, done.out + done.err


CODEX_HANGS = """\
cat > /dev/null
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.started","item":{"id":"item_0","type":"command_execution",\
"command":"sleep 60","aggregated_output":"","exit_code":null,"status":"in_progress"}}'
sleep 60
"""
CODEX_GIVES_UP = """\
cat > /dev/null
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"turn.started"}'
echo '{"type":"error","message":"Reconnecting... 1/5"}'
echo '{"type":"turn.failed","error":{"message":"stream disconnected before completion"}}'
exit 1
"""


def test_codex_with_a_command_that_hangs_scores_0(checkout, cli):
    agent(checkout, "codex", CODEX_HANGS, limits={"rollout_seconds": 2})
    code, told = evaluated(cli, checkout)
    assert code == 0, told
    assert '"hard": 0' in told


def test_codex_without_its_key_is_set_up_wrong(checkout, cli, monkeypatch):
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    agent(checkout, "codex", CODEX_GIVES_UP)
    code, told = evaluated(cli, checkout)
    assert code == 2, told
    assert "key" in told


def test_a_logged_out_claude_code_is_said_so(checkout, cli):
    program = checkout.folder / "claude"
    program.write_text("#!/bin/sh\necho 'Not logged in · Please run /login'\nexit 1\n")
    program.chmod(0o755)
    role = {"provider": "claude-code", "model": "m", "command": [str(program)], "retries": 1}
    configured(checkout, model={"target": role, "optimizer": SIMULATED})
    code, told = evaluated(cli, checkout)
    assert "Not logged in" in told
    assert code == 2


def test_an_address_is_no_key(checkout, cli, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    agent(checkout, "claude-code", "echo '2.1.197 (Claude Code)'\n")
    done = cli(checkout.folder, "check", "--json")
    told = [one["text"] for one in json.loads(done.out)["findings"] if one["part"] == "agent"]
    assert any("no key" in text for text in told)
