"""Ask a LiteLLM proxy, which `litellm-check.sh` starts, all that our clients ask of a server."""

import asyncio
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
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
        async with open_router(models, environ) as router:
            return await router.for_work("check", Meter()).complete(request)

    return asyncio.run(run())


def request(*messages: Message, **more: object) -> ChatRequest:
    """A request of the target."""
    return ChatRequest(Role.TARGET, "check", messages or QUESTION, **more)  # type: ignore[arg-type]


def chat(url: str, model: str, **more: object) -> ModelRole:
    """A role that the proxy serves by OpenAI's chat protocol."""
    fields = {"provider": "litellm", "model": model, "base_url": f"{url}/v1", "retries": 0}
    return ModelRole.model_validate({**fields, **more})


def answers(url: str) -> None:
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


def protocols(url: str) -> None:
    """The proxy's other interfaces: OpenAI's newer one and Anthropic's."""
    newer = ask(chat(url, "answering", api="responses"), request())
    expect("hello" in newer.text, newer)
    fields = {"provider": "anthropic", "model": "claude", "base_url": url, "api_key_env": "KEY"}
    reply = ask(ModelRole.model_validate({**fields, "retries": 0}), request())
    expect("hello" in reply.text, reply)


def failure(call: Callable[[], object]) -> SkilloptError:
    """What ``call`` raises."""
    try:
        call()
    except SkilloptError as error:
        return error
    raise AssertionError("nothing was raised")


def failures(url: str) -> None:
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


def main() -> int:
    """Check the proxy whose address is the only argument; return the exit code."""
    url = sys.argv[1]
    wait_for(f"{url}/health/liveliness")
    for check in (answers, failures, protocols):
        check(url)
        print(f"ok: {check.__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
