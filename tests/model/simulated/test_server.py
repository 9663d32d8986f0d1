import http.client
import json
import re
import signal
import subprocess
import sys
from collections import Counter

import openai
import pytest

from skillopt_ci.demo.models import FAULTS, Behaviour, SimulatedServer, complete, read_call, running

PATH = "/v1/chat/completions"


def _body(text: str = "hello", model: str = "simulated-target") -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()


def _connect(server: SimulatedServer) -> http.client.HTTPConnection:
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    return http.client.HTTPConnection(host, int(port), timeout=10)


def _ask(server: SimulatedServer, body: bytes | None, path: str = PATH) -> tuple[int, bytes]:
    connection = _connect(server)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _outcome(server: SimulatedServer, body: bytes) -> str:
    try:
        status, answered = _ask(server, body)
        json.loads(answered)
    except http.client.IncompleteRead:
        return "cut_connection"
    except json.JSONDecodeError:
        return "truncated_json"
    return {200: "answered", 429: "rate_limited", 500: "server_error"}[status]


def test_the_openai_client_is_answered(server: SimulatedServer) -> None:
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(
            model="simulated-target", messages=[{"role": "user", "content": "hello"}]
        )
        listed = [model.id for model in client.models.list()]
    assert "<answer>hello</answer>" in str(reply.choices[0].message.content)
    assert "simulated-optimizer" in listed


def test_over_http_the_reply_is_that_of_the_function(server: SimulatedServer) -> None:
    call = read_call(_body())
    expected = complete(call.model, call.messages, seed=0, attempt=0, limit=None)
    reply = json.loads(_ask(server, _body())[1])
    assert reply["choices"][0]["message"]["content"] == expected.text
    assert reply["usage"]["prompt_tokens"] == expected.prompt_tokens


def test_a_connection_serves_several_requests(server: SimulatedServer) -> None:
    connection = _connect(server)
    sockets = set()
    for _ in range(3):
        connection.request("POST", PATH, _body())
        connection.getresponse().read()
        sockets.add(connection.sock)
    connection.close()
    assert len(sockets) == 1
    assert None not in sockets


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (PATH, b"{", 400),
        (PATH, _body(model="gpt"), 404),
        ("/v1/embeddings", b"{}", 404),
        ("/elsewhere", None, 404),
    ],
)
def test_wrong_requests_are_refused(
    server: SimulatedServer, path: str, body: bytes | None, status: int
) -> None:
    got, answer = _ask(server, body, path)
    assert got == status
    assert json.loads(answer)["error"]["message"]


def test_statistics_show_repeats_by_content(server: SimulatedServer) -> None:
    for text in ("a", "b", "a"):
        _ask(server, _body(text))
    stats = json.loads(_ask(server, None, "/stats")[1])
    assert (stats["requests"], stats["answered"], stats["faults"]) == (3, 3, {})
    assert sorted(stats["answered_per_content"].values()) == [1, 2]


def test_faults_are_seeded_counted_and_of_every_kind() -> None:
    def outcomes() -> tuple[list[str], object]:
        with running(Behaviour(seed=3, fault_rate=0.6)) as server:
            seen = [_outcome(server, _body(str(n % 8))) for n in range(40)]
            return seen, server.tally.snapshot()["faults"]

    seen, counted = outcomes()
    assert seen == outcomes()[0]
    counts = Counter(seen)
    assert counts.pop("answered") > 5
    assert counts == counted
    assert set(counts) == set(FAULTS)


def test_a_429_says_when_to_come_back() -> None:
    with running(Behaviour(fault_rate=1.0, retry_after=7)) as server:
        waits = set()
        for number in range(20):
            connection = _connect(server)
            connection.request("POST", PATH, _body(str(number)))
            waits.add(connection.getresponse().getheader("Retry-After"))
            connection.close()
    assert waits == {None, "7"}


def test_the_command_prints_its_url_first() -> None:
    command = [sys.executable, "-m", "skillopt_ci.demo.models", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1\n", line)
