import asyncio
import gzip
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.access import _trusted, connection_pool
from skillopt_ci.model.build import wire_of
from skillopt_ci.model.providers import ServerClient
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.progress import Event, silent

KEY = "sk-very-secret"


def with_client(config: ModelRole, work: Callable[[ServerClient], Any], events: Any = None) -> Any:
    async def run() -> Any:
        async with connection_pool(config, 4) as pool:
            observe = silent if events is None else events.append
            wire = wire_of(config)
            client = ServerClient("model.target", config, wire, KEY, pool, observe=observe)
            return await work(client)

    return asyncio.run(run())


def complete(config: ModelRole, request: ChatRequest, events: Any = None) -> ChatReply:
    reply: ChatReply = with_client(config, lambda client: client.complete(request), events)
    return reply


def test_a_prompt_that_utf_8_cannot_hold_is_sent_all_the_same(server, served):
    complete(served(), ChatRequest(Role.TARGET, "rollout", (Message("user", "a\ud800é"),)))
    assert server.prompts() == ["a?é"]


@pytest.mark.parametrize("body", [b"<html>Bad  gateway</html>", b"", b'{"detail": "no"}'])
def test_an_error_of_any_shape_is_an_error(server, served, ask, body):
    server.will(body, status=502)
    with pytest.raises(TransientFailure, match="status 502"):
        complete(served(), ask())


def test_a_server_that_is_not_there_may_come_back(ask):
    config = ModelRole(provider="openai", model="m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(TransientFailure, match=r"failed: .*connect to host [^ ]+:\d+ \["):
        complete(config, ask())


@pytest.mark.parametrize(
    ("response", "told"),
    [
        ({"headers": {"Content-Length": "x" * 9_000}}, "400, message"),
        ({"headers": {"X-Long": "x" * 9_000}}, "400, message"),
        ({"hangs_up": True}, "Server disconnected"),  # which is not called slow
    ],
)
def test_what_is_no_http_may_pass(server, served, ask, response, told):
    server.will(**response)
    with pytest.raises(TransientFailure, match=f"the connection failed: {told}"):
        complete(served(), ask())


def test_a_connection_that_the_server_ends_is_not_used_again(server, served, ask):
    async def twice(client: ServerClient) -> list[ChatReply]:
        return [await client.complete(ask()) for _ in range(2)]

    server.will(headers={"Connection": "close"})
    assert len(with_client(served(), twice)) == len(server.peers) == 2


def test_request_gets_to_the_server_before_the_next_one_may_leave(server, served, ask):
    async def leaves(client: ServerClient) -> bool:
        await client.complete(ask())  # so that there is a connection
        server.arrived.clear()
        call = asyncio.create_task(client.complete(ask()))
        for _ in range(3):  # its own, and those for which nobody else may go
            await asyncio.sleep(0)
        # the loop stands still here: nothing but what it has sent can arrive
        arrived: bool = server.arrived.wait(60)
        await call
        return arrived

    assert with_client(served(), leaves)


def test_the_usual_variables_name_a_proxy(monkeypatch, server, ask):
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    config = ModelRole(provider="openai", model="m", base_url="http://model.invalid/v1")
    assert complete(config, ask()).text == "hello"
    assert server.paths == ["http://model.invalid/v1/chat/completions"]
    # a server that knows no CONNECT is a proxy that refuses
    monkeypatch.setenv("HTTPS_PROXY", server.url.removesuffix("/v1"))
    server.will(b"<html>", status=407)
    for scheme, told in (("http", "status 407: <html>"), ("https", "501, message=")):
        config = config.model_copy(update={"base_url": f"{scheme}://model.invalid/v1"})
        with pytest.raises(TransientFailure, match=f"the proxy failed: {told}") as caught:
            complete(config, ask())
        assert caught.value.unreachable


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HTTP_PROXY", "foo://host", "A proxy in the environment"),
        ("ALL_PROXY", "http://[::1", "A proxy in the environment"),
        ("SSL_CERT_FILE", "/not/there", "certificates.*No such file"),
        ("SSL_CERT_FILE", "/etc/passwd", "certificates.*no certificate"),
    ],
)
def test_a_useless_proxy_or_certificate_is_the_setup_s(monkeypatch, served, variable, value, words):
    monkeypatch.setenv(variable, value)
    _trusted.cache_clear()
    with pytest.raises(ModelSetupError, match=words) as caught:
        connection_pool(served(), 4)
    assert variable in caught.value.hint


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".invalid"])
def test_a_name_that_no_host_can_have_is_not_reached(ask, host):
    config = ModelRole(provider="openai", model="m", base_url=f"http://{host}/v1")
    with pytest.raises(TransientFailure, match=r"the connection failed: .*label") as caught:
        complete(config, ask())
    assert caught.value.unreachable


@pytest.mark.parametrize("status", [200, 500])
def test_a_response_that_does_not_end_is_not_read_to_its_end(server, served, ask, status):
    endless = gzip.compress(bytes(30_000_000))
    server.will(endless, status=status, headers={"Content-Encoding": "gzip"})
    with pytest.raises(TransientFailure, match="longer than 20,000,000 bytes"):
        complete(served(), ask())


def test_what_is_nested_too_deeply_is_no_answer_at_any_depth(server, served, ask):
    async def fails(client: ServerClient) -> None:
        for depth in range(860, 1000):  # at some depth it can be read, but not be written again
            server.will(b'{"error": %b}' % (b"[" * depth + b"]" * depth))
            with pytest.raises(TransientFailure):
                await client.complete(ask())

    with_client(served(), fails)


def test_a_server_that_does_not_answer_in_time_may_answer_later(server, served, ask):
    gate = threading.Event()
    server.will(gate=gate)
    with pytest.raises(TransientFailure, match=r"no answer within 0\.1 s"):
        complete(served(timeout=0.1), ask())
    gate.set()


def test_cancellation_ends_a_call_at_once(server, served, ask):
    gate = threading.Event()
    server.will(gate=gate)

    async def cancelled(client: ServerClient) -> bool:
        call = asyncio.create_task(client.complete(ask()))
        await asyncio.to_thread(server.arrived.wait, 60)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    assert with_client(served(), cancelled)
    gate.set()


def test_the_key_appears_in_no_message(server, served, ask):
    server.will_fail(401, f"Incorrect API key provided: {KEY}")
    with pytest.raises(ModelSetupError, match=r"\*\*\*") as caught:
        complete(served(api_key_env="MY_KEY"), ask())
    assert KEY not in str(caught.value)
    assert "MY_KEY" in str(caught.value)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_told_and_takes_no_key_elsewhere(server, served, ask, status):
    """HTTP libraries take `api-key` and `x-api-key` along to any host."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + f"/chat?{KEY}"
    server.will(status=status, headers={"Location": elsewhere})
    with pytest.raises(ModelSetupError, match=r"redirects to http://localhost:.*\*\*\*") as caught:
        complete(served(), ask())
    assert "base_url" in str(caught.value.hint)
    assert len(server.paths) == 1


@pytest.mark.parametrize(
    "refusals",
    [
        [f"Unsupported parameter: '{name}'" for name in ("max_completion_tokens", "max_tokens")],
        ["max_tokens must be greater than thinking.budget_tokens"],
    ],
)
def test_an_own_limit_is_not_left_out_where_the_server_takes_neither_name_or_wants_more(
    server, served, ask, refusals
):
    for refusal in refusals:
        server.will_fail(400, refusal)
    with pytest.raises(ModelSetupError, match=refusals[-1]):
        complete(served(max_output_tokens=7), ask())


def test_a_stages_limit_is_left_out_where_the_server_takes_neither_name(server, served, ask):
    for name in ("max_completion_tokens", "max_tokens"):
        server.will_fail(400, f"Unsupported parameter: '{name}'")
    complete(served(), ask(max_output_tokens=7))
    assert server.bodies[0]["max_completion_tokens"] == server.bodies[1]["max_tokens"] == 7
    assert server.bodies[2].keys() == {"model", "messages"}


def test_calls_at_once_learn_together(server, served, ask):
    all_three_asked = threading.Barrier(3)
    for _ in range(3):
        refusal = {"error": {"message": "Unsupported parameter: 'max_completion_tokens'"}}
        server.will(refusal, status=400, gate=all_three_asked)

    async def together(client: ServerClient) -> list[ChatReply]:
        return await asyncio.gather(*(client.complete(ask(str(i))) for i in range(3)))

    events: list[Event] = []
    assert len(with_client(served(max_output_tokens=7), together, events)) == 3
    assert [body["max_tokens"] for body in server.bodies[3:]] == [7] * 3
    assert len(events) == 1


def test_certificates_are_loaded_once_for_all_pools_and_proxies(served, monkeypatch):
    loaded: list[object] = []
    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_verify_locations",
        lambda self, *args, **named: (loaded.append(self), load(self, *args, **named)),
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for _ in range(2):
        connection_pool(served(), 4)
    assert len(loaded) <= 1
