"""Ask a real server of models, which `model-servers.sh` starts, all that our clients ask of one."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ModelUnavailable,
    ReplySchema,
    Role,
    Tool,
)

PATIENCE = 180.0
QUESTION = (Message("system", "Be brief."), Message("user", "Hello?"))
PICTURE = Image("image/png", "iVBORw0KGgo=")
TOOL = Tool("look", "Look something up.", {"type": "object", "properties": {}})
SCHEMA = ReplySchema(
    "answer",
    {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
CONVERSATION = (
    *QUESTION,
    Message("assistant", "", tool_calls=(ToolCall("call_1", "look", "{}"),)),
    Message("tool", "found", tool_call_id="call_1"),
)


def expect(fact: bool, shown: object) -> None:
    """Raise AssertionError that shows what was found if ``fact`` does not hold."""
    if not fact:
        raise AssertionError(shown)


def wait_for(url: str) -> None:
    """Wait until a server answers there; raises TimeoutError."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise TimeoutError(f"no answer of {url} within {PATIENCE:g} s")


def ask(config: ModelRole, request: ChatRequest, key: str = "sk-check") -> ChatReply:
    """The answer to one request, through all that a run puts around a client."""

    async def run() -> ChatReply:
        models = Models(target=config, optimizer=config)
        environ = {"LITELLM_API_KEY": key, "KEY": key}
        async with open_router(models.roles, environ) as router:
            return await router.for_work("check", Meter()).complete(request)

    return asyncio.run(run())


def request(*messages: Message, **more: object) -> ChatRequest:
    """A request of the target."""
    return ChatRequest(Role.TARGET, "check", messages or QUESTION, **more)  # type: ignore[arg-type]


def failure(call: Callable[[], object]) -> SkilloptError:
    """What ``call`` raises."""
    try:
        call()
    except SkilloptError as error:
        return error
    raise AssertionError("nothing was raised")


# A LiteLLM proxy with mocked models.


def chat(url: str, model: str, **more: object) -> ModelRole:
    """A role that the proxy serves by OpenAI's chat protocol."""
    fields = {"provider": "litellm", "model": model, "base_url": f"{url}/v1", "retries": 0}
    return ModelRole.model_validate({**fields, **more})


def proxy_answers(url: str) -> None:
    """Everything that is answered."""
    served = chat(url, "answering", max_output_tokens=50, temperature=0.5)
    plain = ask(served, request())
    expect(plain.text == "hello from the proxy", plain)
    expect((plain.usage.prompt_tokens, plain.usage.completion_tokens) == (10, 20), plain)
    expect(not plain.usage.estimated, plain)
    for one in (
        request(Message("user", "What is it?", (PICTURE,))),
        request(reply_schema=SCHEMA),
        request(tools=(TOOL,)),
        request(*CONVERSATION, tools=(TOOL,)),
    ):
        expect(ask(served, one).text == plain.text, one)


def proxy_protocols(url: str) -> None:
    """The proxy's other interfaces: OpenAI's newer one and Anthropic's."""
    newer = ask(chat(url, "answering", api="responses"), request())
    expect("hello" in newer.text, newer)
    fields = {"provider": "anthropic", "model": "claude", "base_url": url, "api_key_env": "KEY"}
    reply = ask(ModelRole.model_validate({**fields, "retries": 0}), request())
    expect("hello" in reply.text, reply)


def proxy_failures(url: str) -> None:
    """Everything that is not."""
    busy = failure(lambda: ask(chat(url, "busy"), request()))
    expect(isinstance(busy, ModelUnavailable), busy)
    expect("429" in str(busy), busy)
    for wrong in (
        failure(lambda: ask(chat(url, "unknown"), request())),
        failure(lambda: ask(chat(url, "answering"), request(), key="sk-wrong")),
    ):
        expect(isinstance(wrong, ModelSetupError), wrong)
        expect("sk-wrong" not in str(wrong), wrong)


# llama.cpp with a real model.

#: The context of each of the two slots, and the longest answers, in tokens.
CONTEXT, SHORT = 4096, 60
LONG = Message("user", "word " * (CONTEXT + 500))


def role(url: str, **more: object) -> ModelRole:
    """The server's model, whose answers are kept short."""
    fields = {"provider": "llamacpp", "model": "smollm2", "base_url": f"{url}/v1", "retries": 0}
    return ModelRole.model_validate(
        {**fields, "api_key_env": "KEY", "max_output_tokens": SHORT, **more}
    )


def local_answers(url: str) -> None:
    """Everything that is answered, also where the limit is longer than the context."""
    for one in (request(), request(tools=(TOOL,)), request(*CONVERSATION, tools=(TOOL,))):
        reply = ask(role(url), one)
        expect(0 < reply.usage.completion_tokens <= SHORT, reply)
        expect(not reply.usage.estimated, reply)
    said = Message("user", "Reply with the answer yes, as JSON.")
    held = ask(role(url), request(said, reply_schema=SCHEMA))
    expect(held.finish_reason == "length" or json.loads(held.text).keys() == {"answer"}, held)
    expect(bool(ask(role(url, max_output_tokens=None), request(max_output_tokens=9_000)).text), url)


def local_failures(url: str) -> None:
    """Everything that is not."""
    refused = failure(lambda: ask(role(url, max_output_tokens=9_000), request(LONG)))
    expect(isinstance(refused, ModelRefusal), refused)
    expect("too long for the model" in str(refused), refused)
    wrong = failure(lambda: ask(role(url), request(), key="sk-wrong"))
    expect(isinstance(wrong, ModelSetupError), wrong)
    expect("requires a valid key in KEY" in str(wrong), wrong)


def local_training(url: str, folder: Path) -> None:
    """What a user types first, up to a step that is on record."""
    names = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "check")
    addresses = dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "check@example.org")
    environ = {**os.environ, **names, **addresses, "KEY": "sk-check"}

    def run(*words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            words, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        expect(done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    ours = str(Path(sys.executable).with_name("skillopt-ci"))
    short = [
        word
        for one in ("target", "optimizer")
        for word in ("-o", f"model.{one}.max_output_tokens={SHORT}")
    ]
    folder.mkdir()
    run("git", "init", "--quiet")
    here = ("--provider", "llamacpp", "--base-url", f"{url}/v1", "--api-key-env", "KEY")
    found = run(ours, "init", "--yes", *here)
    expect("1 model there: " in found, found)
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "Set up skill training")
    expect(" answered in " in run(ours, "check", "--probe", *short), "the probe")
    # answers this short may be of no use to the optimizer
    told = run(ours, "step", "--no-progress", *short, codes=(0, 5))
    expect("Step 1 of " in told, told)
    tasks = folder / "tasks/selection.jsonl"
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    longer = [{**one, "prompt": f"{LONG.content}{one['prompt']}"} for one in rows]
    tasks.write_text("".join(f"{json.dumps(one)}\n" for one in longer))
    refused = run(ours, "step", "--no-progress", *short, codes=(2,))
    expect("refused every selection task: The prompt is too long" in refused, refused)


def main() -> int:
    """Check the server of this kind at the address; a repository may be made at the path."""
    kind, url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    checks: dict[str, Callable[[str], None]]
    if kind == "litellm":
        wait_for(f"{url}/health/liveliness")
        checks = {
            "answers": proxy_answers,
            "failures": proxy_failures,
            "protocols": proxy_protocols,
        }
    else:
        wait_for(f"{url}/health")
        checks = {
            "answers": local_answers,
            "failures": local_failures,
            "training": partial(local_training, folder=folder),
        }
    for name, check in checks.items():
        check(url)
        print(f"ok: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
