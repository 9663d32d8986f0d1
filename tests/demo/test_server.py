import http.client
import json
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.client import complete
from skillopt_ci.messages import Message
from tests.support.faulty_server import FAULTS, MOST_FAULTS_IN_A_ROW, FaultyServer, fault_of
from tests.support.serving import running
from tests.support.simulated_server import SimulatedServer

PATH = "/v1/chat/completions"
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("shell", "write", "submit")
]


def body(text: str = "hello", **fields: object) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "simulated-target", "messages": messages, **fields}).encode()


@pytest.fixture
def url() -> Iterator[str]:
    with running(SimulatedServer()) as url:
        yield url


def ask(url: str, sent: bytes | None, path: str = PATH) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET" if sent is None else "POST", path, sent)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def outcome(url: str, sent: bytes) -> str:
    try:
        response, answered = ask(url, sent)
        json.loads(answered)
    except http.client.IncompleteRead:
        return "cut_connection"
    except json.JSONDecodeError:
        return "truncated_json"
    if response.status == 429:
        assert response.getheader("Retry-After") == "0"
    return {200: "answered", 429: "rate_limited", 500: "server_error"}[response.status]


# Faults.


def test_fault_of_is_none_without_a_rate():
    assert all(fault_of("x", attempt, seed=0, rate=0) is None for attempt in range(20))


@given(st.text(), st.integers(), st.floats(0, 1))
def test_every_content_is_answered_after_a_few_faults(content, seed, rate):
    tries = [fault_of(content, attempt, seed=seed, rate=rate) for attempt in range(12)]
    streaks = "".join("-" if fault else " " for fault in tries).split()
    assert all(len(streak) <= MOST_FAULTS_IN_A_ROW for streak in streaks)


def test_faults_come_at_their_rate_and_of_every_kind():
    drawn = [fault_of(str(number), 0, seed=0, rate=0.3) for number in range(1_000)]
    found = [fault for fault in drawn if fault]
    assert 250 < len(found) < 350
    assert set(found) == set(FAULTS)


# Serving.


def test_openai_client_is_answered(url):
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(
            model="simulated-target", messages=[{"role": "user", "content": "hello"}]
        )
        listed = [model.id for model in client.models.list()]
    expected = complete("simulated-target", [Message("user", "hello")], seed=0)
    assert reply.choices[0].message.content == expected.text
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == expected.usage.prompt_tokens
    assert "simulated-optimizer" in listed


def test_tools_go_over_the_wire(url):
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        (choice,) = client.chat.completions.create(
            model="simulated-target",
            messages=[{"role": "user", "content": "hello"}],
            tools=TOOLS,
        ).choices
    assert choice.finish_reason == "tool_calls"
    assert [call.function.name for call in choice.message.tool_calls or ()] == ["submit"]


@pytest.mark.parametrize(
    ("path", "sent", "status"),
    [
        (PATH, b"{", 400),
        (PATH, body(model="gpt"), 404),
        ("/v1/embeddings", b"{}", 404),
        ("/elsewhere", None, 404),
    ],
)
def test_wrong_requests_are_refused(url, path, sent, status):
    response, answer = ask(url, sent, path)
    assert response.status == status
    assert json.loads(answer)["error"]["message"]


def test_answers_are_counted_by_content():
    server = SimulatedServer()
    with running(server) as url:
        for text in ("a", "b", "a"):
            ask(url, body(text))
    assert sorted(server.answered.values()) == [1, 2]


def test_faults_are_seeded_counted_and_of_every_kind():
    def outcomes() -> tuple[list[str], Counter[str]]:
        server = FaultyServer(0.6, seed=3)
        with running(server) as url:
            return [outcome(url, body(str(n % 8))) for n in range(40)], server.faults

    seen, counted = outcomes()
    assert seen == outcomes()[0]
    counts = Counter(seen)
    assert counts.pop("answered") > 5
    assert counts == counted
    assert set(counts) == set(FAULTS)
