import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from programs import write_program

from skillopt_ci.config.models import PROVIDERS, ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Image, Message
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.cache import call_key
from skillopt_ci.model.command import CommandClient, rendered
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ModelUnavailable, Role

SAID = (Message("system", "Be brief."), Message("user", "Say hé."))
REQUEST = ChatRequest(Role.TARGET, "rollout", SAID)


def role(code: str, **more: object) -> ModelRole:
    command = [sys.executable, "-c", code]
    usual = {"provider": "command", "model": "agent-1", "command": command, "retries": 0}
    return ModelRole.model_validate(usual | more)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., ChatReply]:
    def ask(code: str, environ: Mapping[str, str] = {}, **more: object) -> ChatReply:
        client = CommandClient("model.target", role(code, **more), tmp_path, environ)
        return asyncio.run(client.complete(REQUEST))

    return ask


def test_prompt_goes_in_and_answer_comes_out(ask):
    reply = ask("import sys; print(sys.stdin.read().upper())")
    told = (reply.text, reply.model, reply.finish_reason)
    assert told == ("BE BRIEF.\n\nSAY HÉ.", "agent-1", "stop")


def test_codex_takes_either_key(ask):
    code = "import os; print(len(os.environ.get('CODEX_API_KEY', '')))"
    assert ask(code, {"OPENAI_API_KEY": "four"}, provider="codex").text == "4"
    both = {"OPENAI_API_KEY": "four", "CODEX_API_KEY": "seven77"}
    assert ask(code, both, provider="codex").text == "7"
    assert ask(code, {"OPENAI_API_KEY": "four"}, env=["OPENAI_API_KEY"]).text == "0"


def test_several_turns_are_told_apart():
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    told = rendered((Message("system", "s"), *turns))
    assert told == "s\n\nUser:\na\n\nAssistant:\nb\n\nUser:\nc\n"


def test_standard_error_is_the_trace_and_usage_is_estimated_not_priced(ask):
    reply = ask("import sys; print('42'); print('looked it up', file=sys.stderr)")
    assert (reply.text, reply.trace) == ("42", "looked it up")
    usage = ask("print('x' * 400)").usage
    assert (usage.calls, usage.completion_tokens, usage.estimated) == (1, 100, True)
    assert usage.cost_usd is None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('out of luck')", "exit status 1: out of luck"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("print('x' * 4_000_001)", "more than 4,000,000 bytes"),
        ("import os; os.write(2, b'err'); print('out'); exit(3)", r"status 3: err \| out"),
    ],
)
def test_a_failed_program_may_be_tried_again(ask, code, told):
    with pytest.raises(TransientFailure, match=told):
        ask(code)


def test_a_program_over_its_time_may_be_tried_again(ask):
    with pytest.raises(TransientFailure, match=r"no answer within 0\.2 s"):
        ask("import time; time.sleep(60)", timeout=0.2)


@pytest.mark.parametrize(
    ("said", "raised", "told"),
    [
        ("Not logged in · Please run /login", ModelSetupError, "Claude Code is not logged in"),
        ("Start 'copilot' and run the '/login' command", ModelSetupError, "is not logged in"),
        ("error: unknown option '--tools'", ModelSetupError, "cannot work as it is set up"),
        ("Prompt is too long", ModelRefusal, "refused the prompt"),
        ("API Error: 529 Overloaded", TransientFailure, "529 Overloaded"),
        ("Segmentation fault", TransientFailure, "Segmentation fault"),
    ],
)
def test_an_agents_failure_is_read_from_what_it_says(ask, said, raised, told):
    code = f"print({said!r}); raise SystemExit(1)"
    with pytest.raises(raised, match=told):
        ask(code, provider="claude-code")
    with pytest.raises(TransientFailure):
        ask(code)


@pytest.mark.parametrize("status", [126, 127])
def test_a_shells_word_for_not_found_ends_the_run(ask, status):
    with pytest.raises(ModelSetupError, match=r"model\.target\.command"):
        ask(f"raise SystemExit({status})")


def test_an_absent_program_is_found_out_before_any_call(tmp_path):
    absent = role("").model_copy(update={"command": ("no-such-agent",)})
    with pytest.raises(ModelSetupError, match="'no-such-agent' cannot be run: not found"):
        CommandClient("model.target", absent, tmp_path, {"PATH": "/usr/bin"})


def test_a_program_of_the_repository_is_named_from_the_configurations_folder(tmp_path):
    write_program(tmp_path / "tools" / "agent.sh", 'echo "$1"; ls')
    config = role("").model_copy(update={"command": ("tools/agent.sh", "{root}/x")})
    client = CommandClient("model.target", config, tmp_path, {"PATH": "/usr/bin:/bin"})
    assert asyncio.run(client.complete(REQUEST)).text == f"{tmp_path}/x"


def test_it_works_in_an_empty_folder_of_its_own(ask):
    here = ask("import os; print(os.getcwd(), os.listdir())").text
    assert here.endswith("workplace []")
    assert not Path(here.split()[0]).exists()


def test_only_named_variables_are_seen(ask):
    code = "import os; print(sorted(k for k in os.environ if k.startswith('MY_')))"
    environ = {"MY_MODE": "1", "MY_OTHER": "2"}
    assert ask(code, environ, env=["MY_MODE", "MY_ABSENT"]).text == "['MY_MODE']"
    code = "import os, sys; print(os.environ['A_KEY']); print(os.environ['A_KEY'], file=sys.stderr)"
    reply = ask(code, {"A_KEY": "sk-secret"}, env=["A_KEY"])
    assert (reply.text, reply.trace) == ("***", "***")


def test_the_arguments_are_part_of_the_call_key():
    one, other = role("print(1)"), role("print(2)")
    assert call_key(one, REQUEST) != call_key(other, REQUEST)
    assert call_key(one, REQUEST) == call_key(one.model_copy(update={"timeout": 1.0}), REQUEST)


def test_answer_and_trace_come_back_from_the_cache_and_what_keeps_failing_is_unavailable(tmp_path):
    log = tmp_path / "log"
    code = f"import sys; open({str(log)!r}, 'a').write('x'); print('a'); sys.stderr.write('t')"
    models = Models(target=role(code), optimizer=role("raise SystemExit(1)"))

    async def twice() -> list[ChatReply]:
        opened = open_router(models.roles, {}, cache_path=tmp_path / "c.sqlite", root=tmp_path)
        async with opened as router:
            client = router.for_work("s", Meter())
            with pytest.raises(ModelUnavailable, match="after 1 try: exit status 1"):
                await client.complete(replace(REQUEST, role=Role.OPTIMIZER))
            return [await client.complete(REQUEST) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert (first.text, first.trace) == (second.text, second.trace) == ("a", "t")
    assert log.read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "command", "model": "m"},
        {"provider": "simulated", "model": "m", "command": ["agent"]},
        {"provider": "command", "model": "m", "command": ["agent"], "temperature": 0.5},
        {"provider": "openai", "model": "m", "env": ["A_KEY"]},
    ],
)
def test_settings_of_another_provider_are_refused(wrong):
    with pytest.raises(ValueError, match="command"):
        ModelRole.model_validate(wrong)


def test_pictures_are_files_of_the_program_s_folder(tmp_path):
    code = "import sys; print(sys.stdin.read()); print(open('picture-2.jpeg').read())"
    images = (Image("image/png", "QQ=="), Image("image/jpeg", "QmNk"))
    request = ChatRequest(Role.TARGET, "rollout", (Message("user", "Look.", images),))
    client = CommandClient("model.target", role(code), tmp_path, {})
    assert asyncio.run(client.complete(request)).text == (
        "Look.\n\nPictures, as files in the current folder: picture-1.png, picture-2.jpeg\n\nBcd"
    )


@pytest.mark.parametrize("name", ["copilot", "claude-code", "codex", "cursor"])
def test_an_agent_is_run_by_its_name_alone(tmp_path, name):
    """Stand-ins on the PATH: what they are called with, and what they see of the environment."""
    preset = PROVIDERS[name]
    write_program(
        tmp_path / preset.program[0],
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], sys.stdin.read(), sorted(os.environ)]))\n",
    )
    secret = preset.variables[-1]
    environ = {"PATH": str(tmp_path), secret: "s3cr3t", "OTHER_TOKEN": "x"}
    config = ModelRole.model_validate({"provider": name, "model": "m-1"})
    client = CommandClient("model.target", config, tmp_path, environ)
    arguments, prompt, seen = json.loads(asyncio.run(client.complete(REQUEST)).text)
    assert "m-1" in arguments
    assert "{model}" not in " ".join(arguments)
    assert prompt == "Be brief.\n\nSay hé.\n"
    assert secret in seen
    assert "OTHER_TOKEN" not in seen
