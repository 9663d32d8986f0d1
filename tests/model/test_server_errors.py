import json
from typing import Any

import pytest

from skillopt_ci.config.models import PROVIDERS, Azure, ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.model.anthropic_provider import read_message
from skillopt_ci.model.openai_provider import chat_body, read_reply, read_response
from skillopt_ci.model.providers import settings_of
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.server_errors import ServerError
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ReplySchema


def meaning(status: int, message: str = "", base_url: str = "", **fields: Any) -> SkilloptError:
    config = ModelRole(provider="openai", model="gpt-x", base_url=base_url or None)
    return ServerError(status, message, **fields).exception("model.target", config)


@pytest.mark.parametrize("status", [402, 408, 409, 424, 425, 429, 499, 500, 502, 503, 529, 600])
def test_failures_that_may_pass_are_transient_and_tell_of_overload(status):
    said = "API key limit exceeded: you exceeded your current quota, limit: 10, model: m"
    outcome = meaning(status, said, retry_after=3.0)
    assert isinstance(outcome, TransientFailure)
    assert (outcome.retry_after, str(outcome)) == (3.0, f"status {status}: {said}")
    assert outcome.overloaded == (status in (402, 429, 503, 529))


REFUSED = [
    *("triggered our content management policy", "Output blocked by content filtering policy"),
    *("This request has been flagged for potentially violating a policy", "Content Exists Risk"),
    *("Input data may contain inappropriate content", "generated content may contain unsafe or"),
    *("maximum context length is 8192 tokens", "the request exceeds the available context size"),
    *("prompt is too long: 9 tokens", "9 exceeds the maximum allowed input length of 8 tokens"),
    *("prompt token count of 9 exceeds the limit of 8", "too many tokens: total number of tokens"),
    "input length and `max_tokens` exceed context limit: 9 + 8 > 16",
    "This model's maximum prompt length is 8 but the request contains 9 tokens.",
    "InvalidParameter: Range of input length should be [1, 8]",
    "The decoder prompt (length 9) is longer than the maximum model length of 8.",
    "The input token count (9) exceeds the maximum number of tokens allowed (8).",
]


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        *((400, "", code) for code in ("content_filter", "invalid_prompt", "bio_policy", "1301")),
        *((400, "", code) for code in ("context_length_exceeded", "data_inspection_failed")),
        *((400, "", code) for code in ("string_above_max_length", "refusal")),
        *((400, "Prompt", "1261"), (403, "Content violates usage guidelines", "")),
        *((400, said, "") for said in REFUSED),
        *((403, "input was flagged", ""), (422, "`inputs` tokens + `max_new_tokens` must", "")),
        *((413, "", ""), (424, "prompt is too long", ""), (424, "busy", "content_filter")),
    ],
)
def test_what_the_prompt_causes_is_a_refusal(status, message, code):
    assert isinstance(meaning(status, message, code=code), ModelRefusal)


KEY = ("model.target", "OPENAI_API_KEY", "api.openai.com", "bad key", "api_key_env")
OWN = {"base_url": "https://llm.example/v1"}
UNPAID = ["no quota left"]
OUT_OF_CREDIT = [
    *("insufficient balance (1008)", "Your prepayment credits are depleted.", "Key limit exceeded"),
    *("It doesn't have any credits", "monthly spending limit", "The free quota has been exhausted"),
    *("Quota exceeded, limit: 0, model: m", "specified API usage limits", "monthly spending cap"),
]
NAME_ONE = "Name the environment variable that holds it in model.target.api_key_env"


@pytest.mark.parametrize(
    ("status", "message", "fields", "told"),
    [
        *((status, "bad key: API key expired", {}, KEY) for status in (400, 401)),
        (403, "bad key: Your account has been flagged", {}, KEY),
        (400, "access has been temporarily limited", {"code": "cyber_policy"}, ["refused the key"]),
        (401, "no key", OWN, [NAME_ONE, "OPENAI_COMPATIBLE_API_KEY"]),
        (410, "no", OWN, ["https://llm.example/v1 does not serve 'gpt-x'", "model's spelling"]),
        (501, "Unsupported method ('POST')", OWN, ["https://llm.example/v1 rejects", "base_url"]),
        (404, "No endpoints found that support tool use", {}, ["does not serve", "and access"]),
        *((403, page, {}, ["rejects", "a firewall"]) for page in ("<html>No", "error code: 1020")),
        *((429, "", {key: "insufficient_quota"}, UNPAID) for key in ("code", "type")),
        *((status, "", {"type": "budget_exceeded"}, UNPAID) for status in (400, 429)),
        *((429, "", {"type": kind}, UNPAID) for kind in ("1113", "exceeded_current_quota_error")),
        *((status, said, {}, UNPAID) for said in OUT_OF_CREDIT for status in (403, 429)),
        *((402, "pay", {}, UNPAID), (400, "", {"code": "Arrearage"}, UNPAID)),
        (400, "top_k: 'May contain sensitive words'", {"code": "x"}, ["status 400: top_k: "]),
    ],
)
def test_what_must_be_set_up_otherwise_is_named(status, message, fields, told):
    outcome = meaning(status, message, **fields)
    assert isinstance(outcome, ModelSetupError)
    assert all(part in str(outcome) for part in told)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
        (400, "The chatCompletion operation does not work with the specified model, gpt-x-codex."),
        (400, "Function tools with reasoning_effort are not supported for m. Use /v1/responses."),
    ],
)
def test_what_only_the_newer_interface_does_is_said_to_need_it(status, message):
    error = ServerError(status, message, param="reasoning_effort")
    # without its effort the model would think less than was asked for
    assert error.refused_setting(("reasoning_effort",)) is None
    assert "Set model.target.api to responses." in str(meaning(status, message))


def test_who_signed_in_and_is_refused_is_told_which_role_to_be_given():
    place = {"base_url": "https://x.openai.azure.com", "azure": Azure(auth="azure_cli")}
    config = ModelRole(provider="azure", model="m", **place)
    told = str(ServerError(401, "denied").exception("model.target", config))
    assert all(one in told for one in ("account of azure_cli", "Cognitive Services OpenAI User"))


SCHEMA = ReplySchema("answer", {"type": "object", "properties": {}})


def role(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


def sent(config: ModelRole, request: ChatRequest, *refused: str) -> dict[str, object]:
    body = chat_body(config, request, settings_of(config, request, refused))
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


def test_only_what_is_set_is_sent(ask):
    assert sent(role(), ask()) == {}
    config = role(temperature=0, reasoning_effort="low", extra_body={"top_k": 3})
    rest = {"temperature": 0, "reasoning_effort": "low", "top_k": 3}
    assert sent(config, ask(max_output_tokens=9)) == {"max_completion_tokens": 9, **rest}


def test_the_provider_names_the_limit_unless_the_role_does(ask):
    own = role(provider="compatible", base_url="http://x/v1", token_limit_field="max_tokens")
    limited = ask(max_output_tokens=2)
    assert sent(role(), limited) == {"max_completion_tokens": 2}
    assert sent(role(provider="ollama"), limited) == sent(own, limited) == {"max_tokens": 2}


def test_a_schema_is_sent_as_the_provider_understands_it(ask):
    request = ask(reply_schema=SCHEMA)
    held = {"name": "answer", "schema": dict(SCHEMA.schema), "strict": True}
    assert sent(role(), request)["response_format"] == {"type": "json_schema", "json_schema": held}
    assert sent(role(provider="deepseek"), request)["response_format"] == {"type": "json_object"}
    assert "response_format" not in sent(role(provider="minimax"), request)
    assert "response_format" not in sent(role(structured_output="off"), request)


@pytest.mark.parametrize(
    ("provider", "wish", "fields"),
    [
        ("qwen", False, {"enable_thinking": False}),
        ("minimax", True, {"thinking": {"type": "adaptive"}, "reasoning_split": True}),
        ("minimax", None, {"reasoning_split": True}),
        ("deepseek", False, {"thinking": {"type": "disabled"}}),
        ("openrouter", True, {"reasoning": {"enabled": True}}),
        ("vllm", False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llamacpp", True, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("ollama", False, {"reasoning_effort": "none"}),
    ],
)
def test_each_provider_has_its_own_switch_for_thinking(ask, provider, wish, fields):
    assert sent(role(provider=provider, thinking=wish), ask()) == fields


@pytest.mark.parametrize(
    ("message", "fields", "refused"),
    [
        ("Unsupported value: 'temperature' does not support 0.7", {}, "temperature"),
        ("no", {"code": "unsupported_parameter", "param": "reasoning_effort"}, "reasoning_effort"),
        ("Unrecognized request argument supplied: reasoning_effort", {}, "reasoning_effort"),
        ('"llama3.2" does not support thinking', {}, "reasoning_effort"),  # Ollama
        ("m does not support parameter reasoningEffort.", {}, "reasoning_effort"),  # xAI
        ("invalid temperature: only 1 is allowed for this model", {}, "temperature"),  # Kimi
        ("`reasoning_effort` must be one of `none` or `default`", {}, "reasoning_effort"),  # Groq
        ("('body', 'reasoning_effort'): Input should be 'low'", {}, "reasoning_effort"),  # vLLM
        ("'max_tokens' is not supported. Use 'max_completion_tokens' instead.", {}, "max_tokens"),
        ("extra_forbidden: body.max_tokens", {}, "max_tokens"),
        ("max_tokens is too large: this model supports at most 4096", {}, None),
        ("Unsupported value: 'stop'", {"param": "stop"}, None),
        ("'response_format.type' json_schema is not supported", {}, "response_format"),
        ("Invalid schema for response_format 'answer'", {}, "response_format"),
        ("This model does not support structured outputs", {}, "response_format"),
        ("Json mode response is not supported when enable_thinking is true", {}, "response_format"),
        ("The specified schema produces a constraint with too many states", {}, "response_format"),
        ("JSON does not match the expected schema", {"code": "json_validate_failed"}, None),  # Groq
        ("maximum context length is 9 tokens, but 10 are in the response_format", {}, None),
    ],
)
def test_the_refused_setting_is_recognised(message, fields, refused):
    used = ("max_tokens", "temperature", "reasoning_effort", "response_format")
    assert ServerError(400, message, **fields).refused_setting(used) == refused
    assert ServerError(500, message, **fields).refused_setting(used) is None
    assert ServerError(400, message, **fields).refused_setting([]) is None


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_preset_is_whole(name):
    preset = PROVIDERS[name]
    if preset.protocol == "command":
        assert name == "command" or "{model}" in preset.program
    elif preset.protocol != "simulated" and name not in ("azure", "compatible"):
        assert preset.base_url.startswith(("https://", "http://localhost:"))
        assert preset.key
        assert preset.key_optional == preset.base_url.startswith("http://localhost")
        assert not preset.regions or preset.base_url in preset.regions.values()


CONFIG = ModelRole(provider="openai", model="m")


def body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def read(ask: Any, content: bytes) -> ChatReply:
    return read_reply(content, ask("12345678"), CONFIG)


@pytest.mark.parametrize(
    ("more", "tokens", "cached", "cost"),
    [
        ({"prompt_cache_hit_tokens": 60}, 150, 60, None),
        *(({"cached_tokens": 60}, 150, 60, None), ({"cached_tokens": 900}, 150, 100, None)),
        ({"prompt_tokens_details": None, "prompt_cache_hit_tokens": None}, 150, 0, None),
        ({"cost": 0.0125}, 150, 0, 0.0125),
        *(({"cost": 0}, 150, 0, None), ({"completion_tokens": 0, "cost": 0}, 100, 0, 0)),
        ({"cost": 0.5, "cost_details": {"upstream_inference_cost": 0.5}}, 150, 0, 0.5),
        ({"cost": 1, "is_byok": True, "cost_details": {"upstream_inference_cost": 2}}, 150, 0, 3),
        # Gemini and xAI count reasoning in the total alone, LiteLLM the cache also in the prompt.
        ({"total_tokens": 950}, 950, 0, None),
        ({"total_tokens": 0}, 150, 0, None),
        ({"cache_read_input_tokens": 40, "cache_creation_input_tokens": 30}, 150, 40, None),
    ],
)
def test_what_single_providers_add_to_usage_is_read(ask, more, tokens, cached, cost):
    usage = {"prompt_tokens": 100, "completion_tokens": 50, **more}
    counted = read(ask, body({"content": "x"}, usage=usage)).usage
    assert (counted.tokens, counted.cached_tokens, counted.cost_usd) == (tokens, cached, cost)
    assert counted.cache_write_tokens == more.get("cache_creation_input_tokens", 0)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_missing_usage_is_estimated_and_says_so(ask, usage):
    counted = read(ask, body({"content": "abcde"}, usage=usage)).usage
    assert (counted.prompt_tokens, counted.completion_tokens, counted.estimated) == (2, 2, True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": ""}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "thinking"}, {"type": "text", "text": "x"}]}, "x"),
        ({"content": "cut \ud83d"}, "cut ?"),
        ({"content": "<think>\nhm <think> again\n</think>\n\nx"}, "x"),
        ({"content": "x <think>hm</think>"}, "x <think>hm</think>"),
        ({"content": "<think>cut off"}, "<think>cut off"),
        ({"content": "hm\n</think>\n\nx"}, "x"),
        ({}, ""),
    ],
)
def test_text_is_found_where_servers_put_it(ask, message, text):
    assert read(ask, body(message, finish="length")).text == text


@pytest.mark.parametrize("reason", ["content_filter: RECITATION", "SAFETY", "sensitive"])
def test_a_filter_is_told_by_its_reason_alone(ask, reason):
    with pytest.raises(ModelRefusal):
        read(ask, body({}, finish=reason))


@pytest.mark.parametrize(
    "content", [b"", b'{"choices": [{"mess', b"<html>", b"[]", b'{"choices": []}', b"\xff", b"{}"]
)
def test_what_is_no_completion_may_pass(ask, content):
    with pytest.raises(TransientFailure):
        read(ask, content)


@pytest.mark.parametrize("told", [None, 0, 3])
def test_no_answer_may_pass_and_is_an_empty_one_in_the_end_if_it_was_billed(ask, told):
    more = {} if told is None else {"usage": {"prompt_tokens": 9, "completion_tokens": told}}
    with pytest.raises(TransientFailure, match="no answer") as caught:
        read(ask, body({"content": None}, **more))
    assert (caught.value.reply is not None) == bool(told)
    assert caught.value.usage.prompt_tokens == (9 if more else 0)
    with pytest.raises(TransientFailure, match="no answer"):
        read(ask, body({"content": None}, finish="tool_calls", **more))
    assert read(ask, body({"content": None}, finish="length", **more)).text == ""
    thought = {"output": [{"type": "reasoning"}], **more}
    with pytest.raises(TransientFailure, match="no answer"):
        read_response(json.dumps(thought).encode(), ask(), CONFIG)


@pytest.mark.parametrize(
    ("code", "status", "kind"), [(1004, 401, "1004"), (1027, 400, "content_filter"), (1, 502, "1")]
)
def test_minimax_says_its_errors_with_status_200(ask, code, status, kind):
    told = {"choices": None, "base_resp": {"status_code": code, "status_msg": "why"}}
    paid = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    answer = read_reply(json.dumps(told | paid).encode(), ask(), CONFIG)
    assert (answer.status, answer.code, answer.message) == (status, kind, f"why ({code})")
    assert answer.usage.tokens == 10


@pytest.mark.parametrize("content", [None, "", [], "<think>so</think>"])
def test_minimax_error_beside_an_empty_message_is_an_error(ask, content):
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    told = {"choices": [choice], "base_resp": {"status_code": 1004, "status_msg": "login fail"}}
    assert read_reply(json.dumps(told).encode(), ask(), CONFIG).status == 401
    choice["message"] = {"role": "assistant", "content": "said all the same"}
    assert read(ask, json.dumps(told).encode()).text == "said all the same"


@pytest.mark.parametrize("reader", [read_reply, read_response, read_message])
@pytest.mark.parametrize("key", ["error", "message", "msg", "detail"])
def test_an_error_that_is_a_text_is_told(ask, reader, key):
    with pytest.raises(TransientFailure, match=r"holds no [a-z]+: loading"):
        reader(json.dumps({"error": None, key: "loading"}).encode(), ask(), CONFIG)


@pytest.mark.parametrize(
    ("reader", "fields", "status"),
    [
        *((read_reply, {"code": code}, int(code)) for code in (429, "401")),
        *((read_reply, {"code": "a"}, 502), (read_response, {"code": 429}, 429)),
        *((one, {"type": "overloaded_error"}, 529) for one in (read_reply, read_response)),
        (read_message, {"type": "authentication_error"}, 401),
        (read_message, {"type": "api_error"}, 502),
    ],
)
def test_an_error_in_a_good_status_is_an_error(ask, reader, fields, status):
    told = {"type": "error", "error": {"message": "why", **fields}}
    answer = reader(json.dumps(told).encode(), ask(), CONFIG)
    assert (answer.status, answer.message) == (status, "why")
