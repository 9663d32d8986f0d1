"""Every provider's client against servers that hold it to the provider's own types and rules."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from model_api import ModelApi, serving

from skillopt_ci.config.models import PROVIDERS, ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model import retry, types
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ModelUnavailable,
    RequestTooLarge,
)
from skillopt_ci.progress import silent
from tests.model.conftest import answers

pytestmark = pytest.mark.integration

PICTURE = Image("image/png", "iVBORw0KGgo=")
TOOL = types.Tool("look", "Look up.", {"type": "object", "properties": {"q": {"type": "string"}}})
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}}
SCHEMA = types.ReplySchema("answer", FORM | {"required": ["answer"], "additionalProperties": False})


@dataclass(frozen=True)
class Family:
    """One protocol: a role that speaks it, and how its server words what it answers."""

    name: str
    role: dict[str, Any]
    path: str


FAMILIES = [
    Family("chat", {"provider": "openai"}, "/v1/chat/completions"),
    Family("responses", {"provider": "openai", "api": "responses"}, "/v1/responses"),
    Family("messages", {"provider": "anthropic"}, "/v1/messages"),
]
REMOTE = [name for name, one in PROVIDERS.items() if one.protocol not in ("command", "simulated")]


@pytest.fixture(scope="module")
def _running() -> Iterator[ModelApi]:
    with serving() as api:
        yield api


@pytest.fixture
def api(_running: ModelApi) -> Iterator[ModelApi]:
    _running.__dict__.update(ModelApi(_running.url).__dict__)
    yield _running
    assert _running.complaints == []


@pytest.fixture(params=FAMILIES, ids=lambda family: family.name)
def family(request: Any) -> Family:
    found: Family = request.param
    return found


def role(api: ModelApi, family: Family, **changes: Any) -> ModelRole:
    root = api.url if family.name == "messages" else f"{api.url}/v1"
    fixed = {"model": "m", "base_url": root, "api_key_env": "KEY", "retries": 0, "timeout": 20}
    return ModelRole.model_validate({**family.role, **fixed, **changes})


def request(*messages: Message, **changes: Any) -> ChatRequest:
    said = messages or (Message("system", "Be brief."), Message("user", "hi"))
    return ChatRequest(types.Role.TARGET, "rollout", said, **changes)


def ask(config: ModelRole, *requests: ChatRequest, events: Any = None) -> list[ChatReply]:
    models = Models(target=config, optimizer=config)
    observe = silent if events is None else events.append
    return answers(models, *requests, environ={"KEY": "sk-test"}, observe=observe)


def test_a_conversation_is_understood(api, family):
    turns = (
        Message("system", "Be brief."),
        Message("user", "hi"),
        Message("assistant", "yes?"),
        Message("user", "well"),
        Message("assistant", " "),  # some refuse an answer that said nothing
        Message("user", "go on"),
    )
    config = role(api, family, headers={"x-team": "the ${KEY}"})
    (reply,) = ask(config, request(*turns, max_output_tokens=900))
    assert (reply.text, reply.finish_reason, reply.model) == ("hello", "stop", "m-served")
    assert (api.paths, api.headers[0]["x-team"]) == ([family.path], "the sk-test")
    sent = json.dumps(api.bodies[0])
    assert all(text in sent for text in ("Be brief.", "yes?", "go on", "900"))


def test_usage_is_the_server_s_own_with_cached_and_hidden_tokens(api, family):
    another = request(Message("system", "Be brief."), Message("user", "another"))
    first, second = ask(role(api, family), request(), another)
    counted = first.usage
    assert (counted.prompt_tokens, counted.completion_tokens) == (2000, 50)
    assert (counted.reasoning_tokens, counted.estimated) == (30, False)
    assert (counted.cached_tokens, second.usage.cached_tokens) == (0, 1024)
    assert second.usage.prompt_tokens == 2000
    if family.name == "messages":
        assert (counted.cache_write_tokens, second.usage.cache_write_tokens) == (1024, 0)


def test_pictures_are_shown_and_a_reply_is_held_to_a_schema_where_that_is_wanted(api, family):
    asked = request(Message("user", "What is it?", (PICTURE,)), reply_schema=SCHEMA)
    ask(role(api, family), asked)
    ask(role(api, family, structured_output="off"), asked)
    held, free = map(json.dumps, api.bodies)
    assert PICTURE.data in held
    assert '"additionalProperties": false' in held
    assert "additionalProperties" not in free


@pytest.mark.parametrize(
    "message",
    ["Invalid schema for response_format 'answer'", "json_schema: not supported by this model"],
)
def test_a_schema_that_is_not_understood_is_left_out_for_good(api, family, message):
    api.will({"error": {"message": message, "type": "invalid_request_error"}}, 400)
    events: list[Any] = []
    ask(role(api, family), *[request(reply_schema=SCHEMA)] * 2, events=events)
    told = ["additionalProperties" in json.dumps(body) for body in api.bodies]
    assert told == [True, False, False]
    assert len(events) == 1


def test_a_refused_temperature_and_effort_are_left_out(api, family):
    for name in ("temperature", "reasoning_effort" if family.name == "chat" else "effort"):
        said = "reasoning.effort" if (family.name, name) == ("responses", "effort") else name
        api.will({"error": {"message": f"{said} is not supported with this model"}}, 400)
    told: list[Any] = []
    ask(role(api, family, temperature=0.5, reasoning_effort="high"), request(), events=told)
    assert told[0].text.startswith("model.target: m does not support temperature; it is left out")
    assert ["0.5" in json.dumps(body) for body in api.bodies] == [True, False, False]
    assert ["high" in json.dumps(body) for body in api.bodies] == [True, True, False]


LOOKS = [("call_1", '{"q": "x"}'), ("call_2", '{"q": "y"}')]
ASKED: list[dict[str, Any]] = [
    {"id": name, "type": "function", "function": {"name": "look", "arguments": arguments}}
    for name, arguments in LOOKS
]
ASKED[0]["extra_content"] = {"google": {"thought_signature": "sig-1"}}
SAID = {"role": "assistant", "content": None, "tool_calls": ASKED}
CALLS: dict[str, Any] = {
    "chat": {"choices": [{"finish_reason": "tool_calls", "message": SAID}]},
    "responses": {
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sig-1"},
            *(
                {"type": "function_call", "call_id": name, "name": "look", "arguments": arguments}
                for name, arguments in LOOKS
            ),
        ],
    },
    "messages": {
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig-1"},
            {"type": "tool_use", "id": "call_1", "name": "look", "input": {"q": "x"}},
            {"type": "tool_use", "id": "call_2", "name": "look", "input": {"q": "y"}},
        ],
    },
}


def test_tools_are_called_and_their_results_understood(api, family):
    config, opening = role(api, family), (Message("system", "s"), Message("user", "Look it up."))
    api.will(CALLS[family.name])
    (wanted,) = ask(config, request(*opening, tools=(TOOL,)))
    assert wanted.finish_reason == "tool_calls"
    assert [call.name for call in wanted.tool_calls] == ["look", "look"]
    calls = [(call.id, json.loads(call.arguments)) for call in wanted.tool_calls]
    assert calls == [("call_1", {"q": "x"}), ("call_2", {"q": "y"})]

    said = Message("assistant", wanted.text, tool_calls=wanted.tool_calls)
    results = [Message("tool", f"found {id_}", tool_call_id=id_) for id_ in ("call_1", "call_2")]
    (reply,) = ask(config, request(*opening, said, *results, tools=(TOOL,)))
    assert reply.text == "hello"
    again = json.dumps(api.bodies[1])
    # What the provider signed comes back; without it some refuse the conversation.
    assert "sig-1" in again
    assert "found call_2" in again
    assert '{"role": "assistant", "content": ""}' not in again


def test_tool_calls_that_end_with_stop_are_an_answer(api):
    api.will(json.loads(json.dumps(CALLS["chat"]).replace(': "tool_calls"', ': "stop"')))
    (wanted,) = ask(role(api, FAMILIES[0]), request(tools=(TOOL,)))
    assert (wanted.finish_reason, len(wanted.tool_calls)) == ("stop", 2)


def test_a_growing_conversation_is_marked_for_anthropic_s_cache(api):
    config, call = role(api, FAMILIES[2]), ToolCall("call_1", "look", "not JSON")
    called = Message("assistant", " ", tool_calls=(call,))
    found = Message("tool", "", tool_call_id="call_1")
    turns = (Message("system", "s"), Message("user", "go"), called, found)
    ask(config, request(*turns, tools=(TOOL,)))
    ask(config, request())
    body, single = api.bodies
    assert "cache_control" not in json.dumps(single["messages"])
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"arguments": "not JSON"}}
    ]


@pytest.mark.parametrize("written", ["not JSON", "[1]", "{"])
def test_arguments_that_are_no_object_are_sent_in_one(api, family, written):
    call = ToolCall("c", "look", written)
    turns = (Message("assistant", "", tool_calls=(call,)), Message("tool", "", tool_call_id="c"))
    ask(role(api, family), request(*turns))
    assert f'{{"arguments": "{written}"}}' in json.dumps(api.bodies[0]).replace("\\", "")


def test_calls_that_a_model_made_up_are_told_apart_and_sent_back_in_names_that_pass(api, family):
    made_up = json.dumps(CALLS[family.name]).replace("call_2", "call_1")
    api.will(json.loads(made_up.replace('"look"', '"functions.look it up"')))
    (wanted,) = ask(role(api, family), request(tools=(TOOL,)))
    assert {call.name for call in wanted.tool_calls} == {"functions.look it up"}
    assert len({call.id for call in wanted.tool_calls}) == len(LOOKS)
    calls = (*wanted.tool_calls, ToolCall("c", "", "{}"))
    results = (Message("tool", "?", tool_call_id=call.id) for call in calls)
    ask(role(api, family), request(Message("assistant", "", tool_calls=calls), *results))
    assert '"functions_look_it_up"' in json.dumps(api.bodies[1])


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, {"max_tokens": 16_384}),
        ({"max_output_tokens": 5}, {"max_tokens": 5}),
        ({"thinking": True}, {"thinking": {"type": "adaptive"}}),
        ({"thinking": False}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}}),
        ({"reasoning_effort": "max"}, {"output_config": {"effort": "max"}}),
        ({"extra_body": {"top_k": 3}}, {"top_k": 3}),
    ],
)
def test_settings_in_anthropic_s_words(api, changes, sent):
    ask(role(api, FAMILIES[2], **changes), request())
    assert {key: api.bodies[0].get(key) for key in sent} == sent


@pytest.mark.parametrize(
    ("status", "kind", "message", "outcome", "words"),
    [
        (401, "authentication_error", "bad", ModelSetupError, "refused the key in KEY"),
        (403, "permission_error", "no", ModelSetupError, "refused the key in KEY"),
        (400, "invalid_request_error", "API key not valid", ModelSetupError, "key in KEY"),
        (404, "not_found_error", "model: m", ModelSetupError, "does not serve 'm'"),
        (400, "invalid_request_error", "prompt is too long: 9 > 8", ModelRefusal, "too long"),
        (413, "request_too_large", "big", ModelRefusal, "too long"),
        (413, "rate_limit_exceeded", "tokens per minute", ModelUnavailable, "tokens per"),
        (400, "invalid_request_error", "Your credit balance is too low", ModelSetupError, "quota"),
        (429, "rate_limit_error", "slow", ModelUnavailable, "status 429: slow"),
        (500, "api_error", "boom", ModelUnavailable, "status 500: boom"),
        (529, "overloaded_error", "Overloaded", ModelUnavailable, "status 529"),
        (400, "json_validate_failed", "Failed to generate JSON", ModelUnavailable, "400"),
    ],
)
def test_errors_mean_the_same_in_every_protocol(api, family, status, kind, message, outcome, words):
    envelope = {"type": "error"} if family.name == "messages" else {}
    api.will({**envelope, "error": {"type": kind, "message": message}}, status)
    with pytest.raises(outcome, match=words):
        ask(role(api, family), request())


@pytest.mark.parametrize(
    "said",
    [
        "max_completion_tokens=9000 cannot be greater than max_model_len=4096. Please request",
        "maximum context length is 8192 tokens. However, you requested 9000 output tokens",
        "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "`max_completion_tokens` must be less than or equal to `8192`",
        "Request too large for model `m` on tokens per minute (TPM): Limit 8000, Requested 9100",
    ],
)
def test_a_limit_that_the_server_has_no_room_for_is_left_out_of_that_request(api, family, said):
    api.will({"type": "error", "error": {"type": "invalid_request_error", "message": said}}, 400)
    long = request(max_output_tokens=9000)
    config = role(api, family, max_output_tokens=9001)
    if family.name == "messages":  # which requires a limit
        with pytest.raises((ModelRefusal, ModelSetupError, RequestTooLarge)):
            ask(config, long)
        assert len(api.bodies) == 1
        return
    replies = ask(config, long, request(max_output_tokens=80))
    assert [reply.text for reply in replies] == ["hello"] * 2
    limits = [[value for key, value in one.items() if "max_" in key] for one in api.bodies]
    assert limits == [[9000], [], [80]]


PAGE = (413, "<html>413 Payload Too Large", "a proxy in front of")
OVER = ("Request too large for m on TPM: Limit 9", "the account at")


@pytest.mark.parametrize(("status", "said", "whose"), [(413, *OVER), (429, *OVER), PAGE])
def test_a_request_over_a_limit_is_not_sent_again(api, family, status, said, whose):
    api.will({"error": {"code": "rate_limit_exceeded", "message": said}}, status)
    with pytest.raises(RequestTooLarge, match=f"{whose} http.*: {said}") as caught:
        ask(role(api, family, retries=3), request())
    hints = ("lower model.target.max_output_tokens", "optimizer.slow_update_samples")
    assert [len(api.bodies), *(one in caught.value.hint for one in hints)] == [1, True, True]


def test_a_server_that_needs_no_key_by_itself_may_yet_ask_for_one(api):
    api.will({"error": {"message": "Invalid API Key"}}, 401)
    with pytest.raises(ModelSetupError, match="requires a valid key in KEY"):
        ask(role(api, replace(FAMILIES[0], role={"provider": "llamacpp"})), request())


def test_a_spend_limit_that_only_the_details_name_does_not_pass(api):
    details = {"error_code": "enforced_spend_limit_reached"}
    api.will({"type": "error", "error": {"type": "rate_limit_error", "details": details}}, 429)
    with pytest.raises(ModelSetupError, match="no quota left"):
        ask(role(api, FAMILIES[2]), request())


def test_the_provider_behind_openrouter_is_heard(api):
    raw = json.dumps({"error": {"message": "Unsupported parameter: 'temperature'"}})
    told = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
    api.will({"error": told}, 400)
    config = role(api, replace(FAMILIES[0], role={"provider": "openrouter"}), temperature=1)
    (reply,) = ask(config, request())
    assert (reply.text, "temperature" in api.bodies[1]) == ("hello", False)
    long = {**told, "metadata": {"raw": "This model's maximum context length is 8 tokens"}}
    kept = {"message": "It refused", "code": 403, "metadata": {"error_type": "refusal"}}
    odd = {"message": "No content", "code": 400, "metadata": {"error_type": "invalid_prompt"}}
    coded = {"message": "8 > 4", "code": "context_length_exceeded"}
    refused = [(long, 200, "returned error: This model"), (kept, 200, "It r"), (kept, 403, "It r")]
    for error, status, words in (*refused, (coded, 200, "8 > 4"), (odd, 400, "rejects requests")):
        api.will({"error": error}, status)
        with pytest.raises(ModelSetupError if error is odd else ModelRefusal, match=words):
            ask(config, request())


def test_a_server_s_wish_to_wait_is_heard(api, family):
    for status in (429, 402):  # OpenRouter's 402 if calls in flight may use up the credit
        api.will({"error": {"message": "slow"}}, status, headers={"retry-after-ms": "17000"})
        with pytest.raises(ModelUnavailable) as caught:
            ask(role(api, family), request())
        assert caught.value.__cause__.retry_after == 17


def test_a_wish_in_the_body_of_an_error_is_heard(api):
    wish = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    error = {"code": 429, "message": "Quota exceeded.", "details": [wish]}
    told = {"message": "Try again in 34s", "code": "rate_limit_exceeded"}
    for body in ([{"error": error}], *({"error": one, **told} for one in (None, False, "", {}))):
        api.will(body, 429 if isinstance(body, list) else 400)
        with pytest.raises(ModelUnavailable) as caught:
            ask(role(api, FAMILIES[0]), request())
        assert caught.value.__cause__.retry_after == 34


PAID = {"prompt_tokens": 7, "completion_tokens": 0}


@pytest.mark.parametrize(
    ("body", "cut", "paid"),
    [(b'{"content": []}', 5, 0), (b"<html>", None, 0), ({"choices": [], "usage": PAID}, None, 7)],
)
def test_an_answer_that_is_none_may_pass(api, family, body, cut, paid):
    api.will(body, cut=cut)
    with pytest.raises(ModelUnavailable) as caught:
        ask(role(api, family), request())
    assert types.billed(caught.value).prompt_tokens == paid


def test_a_stream_that_was_not_asked_for_is_the_setup_s(api, family):
    for first in (b"", b"\n: PROCESSING\n\n"):
        api.will(first + b'data: {"choices": []}\n\ndata: [DONE]\n\n')
        with pytest.raises(ModelSetupError, match="streams its answer unasked"):
            ask(role(api, family, retries=1), request())


@pytest.mark.parametrize("why", ["error", "insufficient_system_resource", "abort", "network_error"])
@pytest.mark.parametrize("text", ["", "The ans"])
def test_an_answer_that_the_server_breaks_off_is_asked_for_again(api, why, text, monkeypatch):
    monkeypatch.setattr(retry, "_FIRST_BACKOFF", 0.0)
    end = {"finish_reason": why, "error": {"code": 502, "message": "lost it"}}
    said = [{"message": {"role": "assistant", "content": text}, **end}]
    api.will({"choices": said, "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    told: list[Any] = []
    (reply,) = ask(role(api, FAMILIES[0], retries=1), request(), events=told)
    assert (reply.text, len(api.bodies)) == ("hello", 2)
    assert (reply.usage.calls, reply.usage.prompt_tokens) == (2, 2007)  # both were billed
    assert "the server broke its answer off: lost it" in told[0].text


def test_what_a_filter_ends_is_a_refusal_that_was_paid_for(api, family):
    ended = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    why = {"type": "refusal", "category": "bio", "explanation": "not this"}
    answers = {
        "chat": {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]},
        "responses": {**ended, "output": []},
        "messages": {"content": [], "stop_reason": "refusal", "stop_details": why},
    }
    api.will({**answers[family.name], "usage": PAID})
    with pytest.raises(ModelRefusal) as caught:
        ask(role(api, family), request())
    assert caught.value.usage.prompt_tokens == 7


def test_an_answer_cut_at_the_limit_says_so(api, family):
    answers = {
        "chat": {"choices": [{"message": {"content": "par"}, "finish_reason": "model_length"}]},
        "responses": {
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "par"}]}],
        },
        "messages": {"content": [{"type": "text", "text": "par"}], "stop_reason": "max_tokens"},
    }
    api.will(answers[family.name])
    (reply,) = ask(role(api, family), request())
    assert (reply.text, reply.finish_reason, reply.usage.estimated) == ("par", "length", True)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        *((code, ModelUnavailable) for code in ("server_error", "rate_limit_exceeded", "", None)),
        *(("invalid_prompt", ModelRefusal), ("image_too_large", ModelSetupError)),
        *((f"{what}_policy_violation", ModelRefusal) for what in ("misalignment", "image_content")),
    ],
)
def test_a_response_that_failed_or_goes_on_is_an_error(api, code, outcome):
    part = [{"type": "message", "content": [{"type": "output_text", "text": "par"}]}]
    error = {"code": code, "message": "Try again in 20s."} if code else None
    said = {"status": "in_progress" if code == "" else "failed", "error": error, "output": part}
    api.will({**said, "usage": PAID})
    with pytest.raises(outcome) as caught:
        ask(role(api, FAMILIES[1]), request())
    if outcome is not ModelSetupError:
        assert types.billed(caught.value).prompt_tokens == 7
    if outcome is ModelUnavailable:
        assert caught.value.__cause__.retry_after == (20 if code else None)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        *((model, "/v1/chat/completions") for model in ("gpt-5.5", "gpt-5.4-program")),
        *((model, "/v1/responses") for model in ("gpt-5-codex", "gpt-5.3-codex-mini", "o3-pro")),
        *((model, "/v1/responses") for model in ("codex-mini-latest", "gpt-5.4-pro-2026-03-05")),
    ],
)
def test_models_that_only_the_newer_interface_serves_are_asked_there(api, model, path):
    ask(role(api, FAMILIES[0], model=model), request())
    assert api.paths == [path]


@pytest.mark.parametrize(
    ("provider", "field"), [("deepseek", "reasoning_content"), ("openrouter", "reasoning_details")]
)
def test_what_was_reasoned_before_a_call_comes_back_with_it(api, provider, field):
    config = role(api, replace(FAMILIES[0], role={"provider": provider}))
    answer = json.loads(json.dumps(CALLS["chat"]))
    answer["choices"][0]["message"][field] = "because"
    api.will(answer)
    (wanted,) = ask(config, request(tools=(TOOL,)))
    said = Message("assistant", "", tool_calls=wanted.tool_calls)
    results = [Message("tool", "r", tool_call_id=call.id) for call in wanted.tool_calls]
    empty = Message("assistant", "")
    ask(config, request(Message("user", "hi"), said, *results, empty, tools=(TOOL,)))
    _, called, *_, last = api.bodies[1]["messages"]
    assert called[field] == "because"
    thoughts = {"reasoning_content": ""} if provider == "deepseek" else {}
    assert last == {"role": "assistant", "content": "(no answer)", **thoughts}


@pytest.mark.parametrize("name", REMOTE)
def test_every_preset_reaches_its_server_in_its_own_way(api, name):
    preset = PROVIDERS[name]
    root = api.url if preset.protocol == "messages" else f"{api.url}/v1"
    sent = {"model": preset.target, "base_url": root, "max_output_tokens": 77}
    config = role(api, Family("", {"provider": name}, ""), **sent, reasoning_effort="low")
    (reply,) = ask(config, request(Message("user", "hi", (PICTURE,)), reply_schema=SCHEMA))
    assert (reply.text, reply.usage.estimated) == ("hello", False)
    body = api.bodies[0]
    assert (body["model"], body[preset.limit_field]) == (preset.target, 77)
    assert "low" in (body.get("reasoning_effort"), body.get("output_config", {}).get("effort"))
    assert body.items() >= preset.body.items()
    schema = "json_schema" if "output_config" in body else "none"
    held = body.get("response_format", {}).get("type") or schema
    assert held == preset.structured


@pytest.mark.parametrize(
    ("endpoint", "azure", "path", "query", "header"),
    [
        ("", None, "/openai/v1/chat/completions", {}, "authorization"),
        ("/openai/v1/", {}, "/openai/v1/chat/completions", {}, "authorization"),
        (
            "",
            {"api_version": "2024-12-01-preview"},
            "/openai/deployments/m/chat/completions",
            {"api-version": ["2024-12-01-preview"]},
            "api-key",
        ),
    ],
)
def test_azure_is_reached_by_newer_and_older_interfaces(api, endpoint, azure, path, query, header):
    family = Family("azure", {"provider": "azure", "azure": azure}, path)
    ask(role(api, family, base_url=api.url + endpoint), request())
    assert (api.paths, api.queries) == ([path], [query])
    assert "sk-test" in api.headers[0][header]


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("copilot", request(Message("user", "hi", (PICTURE,))), "CLI does not accept pictures"),
        ("codex", request(tools=(TOOL,)), "Codex CLI cannot call tools"),
    ],
)
def test_what_a_provider_cannot_do_is_said_without_asking(name, asked, words, tmp_path):
    command = ["touch", str(tmp_path / "asked")]
    config = ModelRole.model_validate({"provider": name, "model": "m", "command": command})
    with pytest.raises(ModelSetupError, match=words):
        ask(config, asked)
    assert not [*tmp_path.iterdir()]
