"""Streams that the real programs wrote, and for what these do not show, as their makers tell."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_streams import recorded

from skillopt_ci.agents.streams import READERS, AgentTranscript
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Limit, ModelSaid, Told, ToolUsed


def read(agent: str, *events: object) -> AgentTranscript:
    return READERS[agent]("\n".join(json.dumps(event) for event in events))


def shown(account: AgentTranscript) -> list[object]:
    """The steps in short: words and calls of the model, results, and what else was told."""
    short: list[object] = []
    for step in account.steps:
        match step:
            case ModelSaid(message, _):
                called = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
                short.append((message.content, called))
            case ToolUsed(call, output, code, _):
                short.append((call.name, output, code))
            case Told(kind, text):
                short.append((kind, text))
    return short


COMMAND = "echo made > made.txt; cat made.txt"
CODEX_WARNING = (
    "Model metadata for `gpt-5.1-codex` not found. Defaulting to fallback metadata; "
    "this can degrade performance and cause issues."
)
#: For each agent: what stands before, the call, its result, and what it says of its usage.
RECORDED = {
    "claude-code": (
        [],
        ("Bash", {"command": COMMAND}),
        ("Bash", "made", None),
        Usage(2, 2000, 40, cached_tokens=800, cost_usd=pytest.approx(0.00444)),
    ),
    "codex": (
        [("error", CODEX_WARNING)],
        ("shell", {"command": f"/bin/sh -lc '{COMMAND}'"}),
        ("shell", "made\n", 0),
        Usage(1, 2000, 40, cached_tokens=800, cost_usd=None),
    ),
    "copilot": (
        [],
        ("bash", {"command": COMMAND, "description": "Make it"}),
        ("bash", "made\n<shellId: 0 completed with exit code 0>", 0),
        None,
    ),
    "gemini": (
        [],
        ("run_shell_command", {"command": COMMAND}),
        ("run_shell_command", "made", None),
        Usage(1, 2000, 40, cached_tokens=800, cost_usd=None),
    ),
}


@pytest.mark.parametrize("agent", RECORDED)
def test_what_the_real_program_wrote(agent):
    before, called, result, usage = RECORDED[agent]
    account = READERS[agent](recorded(agent))
    assert shown(account) == [*before, ("", [called]), result, ("It is made.", [])]
    assert (account.response, account.usage) == ("It is made.", usage)
    assert (account.error, account.trouble, account.limit) == ("", "", None)


@pytest.mark.parametrize(
    ("agent", "error", "trouble"),
    [
        ("claude-code", "Invalid API key · Fix external API key (HTTP status 401)", "401"),
        ("codex", "unexpected status 401 Unauthorized: invalid x-api-key", "401 Unauthorized"),
        ("copilot", "Authentication failed with provider", "HTTP 401"),
        ("gemini", '"message":"invalid x-api-key","status":"UNAUTHENTICATED"', ""),
    ],
)
def test_what_the_real_program_wrote_of_a_wrong_key(agent, error, trouble):
    account = READERS[agent](recorded(f"{agent}-refused"))
    assert error in account.error
    assert trouble in account.trouble
    assert (account.turns, account.response) == (0, None)


def test_trouble_is_over_with_the_next_answer():
    account = read(
        "claude-code",
        {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"},
        _assistant("m1", {"type": "text", "text": "There."}),
    )
    assert account.trouble == ""
    assert shown(account) == [("error", "API error 529 overloaded"), ("There.", [])]


def _assistant(key: str, *blocks: object, **usage: int) -> dict[str, object]:
    return {"type": "assistant", "message": {"id": key, "content": [*blocks], "usage": usage}}


def _tool_use(key: str) -> dict[str, object]:
    return {"type": "tool_use", "id": key, "name": "Bash", "input": {"command": key}}


def _tool_result(key: str, content: object) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": key, "content": content}
    return {"type": "user", "message": {"content": [block]}}


def test_claude_codes_messages_in_several_events_are_one_answer():
    account = read(
        "claude-code",
        _assistant("m1", {"type": "text", "text": "Look."}, input_tokens=9, output_tokens=1),
        _assistant("m1", _tool_use("a"), input_tokens=9, output_tokens=1),
        _assistant("m1", _tool_use("b"), input_tokens=9, output_tokens=1),
        _tool_result("b", "B"),  # a tool may end while the answer goes on
        _assistant("m1", _tool_use("c"), input_tokens=9, output_tokens=1),
        _tool_result("c", ""),
        _tool_result("a", [{"type": "text", "text": "A1"}, {"type": "text", "text": "A2"}]),
        _assistant("m2", {"type": "text", "text": "Done."}, cache_creation_input_tokens=22),
        {"type": "result", "subtype": "success", "result": "Done.", "num_turns": 2},
    )
    assert shown(account) == [
        ("Look.", [("Bash", {"command": key}) for key in "abc"]),
        ("Bash", "B", None),
        ("Bash", "", None),
        ("Bash", "A1\nA2", None),
        ("Done.", []),
    ]
    assert [step.usage.tokens for step in account.steps if isinstance(step, ModelSaid)] == [10, 22]
    assert account.response == "Done."


def test_claude_codes_helpers_are_the_business_of_the_tool_that_started_them():
    inner = {**_assistant("x", {"type": "text", "text": "inner"}), "parent_tool_use_id": "a"}
    account = read("claude-code", _assistant("m1", _tool_use("a")), inner, _tool_result("a", "A"))
    assert shown(account) == [("", [("Bash", {"command": "a"})]), ("Bash", "A", None)]


@pytest.mark.parametrize(
    ("ending", "error", "limit"),
    [
        ({"subtype": "error_max_turns", "is_error": True}, "", Limit.STEPS),
        ({"subtype": "error_max_budget_usd", "is_error": True}, "", Limit.COST),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "a; b", None),
        ({"subtype": "success", "is_error": True, "result": "API Error"}, "API Error", None),
        ({"subtype": "error_during_execution", "error": {"message": "402"}}, "402", None),  # Qwen
    ],
)
def test_claude_codes_ways_to_end(ending, error, limit):
    account = read("claude-code", {"type": "result", **ending})
    assert (account.error, account.limit, account.response) == (error, limit, None)
    # the end of a background task starts another turn, whose result counts
    models = {"opus": {"cacheReadInputTokens": 3}, "haiku": {"cacheCreationInputTokens": 2}}
    for said, left in (("Done.", ""), ("", error)):
        done = {"type": "result", "subtype": "success", "result": said, "modelUsage": models}
        account = read("claude-code", {"type": "result", **ending}, done)
        assert (account.error, account.limit, account.response) == (left, None, said or None)
        assert account.usage == Usage(0, 5, 0, cached_tokens=3, cost_usd=None)
        done |= {"modelUsage": {"opus": {"costUSD": 0.1}}, "usage": {"cache_read_input_tokens": 7}}
        assert read("claude-code", done).usage == Usage(0, 7, 0, cached_tokens=7, cost_usd=None)


def test_codex():
    def item(key: str, kind: str, **fields: object) -> dict[str, object]:
        return {"type": "item.completed", "item": {"id": key, "type": kind, **fields}}

    counts = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7}
    account = read(
        "codex",
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "error", "message": "Reconnecting... 1/5"},
        *(item("0", "reasoning", text="**Thinking**"), item("0", "web_search", query="how to")),
        {"type": "item.started", "item": {"id": "1", "type": "command_execution", "command": "ls"}},
        item("1", "command_execution", command="ls", aggregated_output="a\n", exit_code=2),
        item("2", "file_change", changes=[{"path": "a", "kind": "add"}], status="completed"),
        item(
            "3", "mcp_tool_call", server="s", tool="t", arguments={"x": 1}, error={"message": "no"}
        ),
        item("4", "agent_message", text="First."),
        item("5", "agent_message", text="It is a."),
        {"type": "turn.completed", "usage": counts | {"reasoning_output_tokens": 3}},
    )
    assert shown(account) == [
        ("error", "Reconnecting... 1/5"),
        *(("reasoning", "**Thinking**"), ("web_search", "how to")),
        ("", [("shell", {"command": "ls"})]),
        ("shell", "a\n", 2),
        ("", [("file_change", {"changes": [{"kind": "add", "path": "a"}]})]),
        ("file_change", "completed", None),
        ("", [("s.t", {"x": 1})]),
        ("s.t", "no", None),
        ("First.", []),
        ("It is a.", []),
    ]
    assert (account.error, account.trouble, account.response) == ("", "", "It is a.")
    assert account.usage == Usage(1, 100, 7, cached_tokens=60, reasoning_tokens=3, cost_usd=None)


def test_gemini_answers_or_fails():
    stats = {"input_tokens": 50, "output_tokens": 5, "cached": 20, "total_tokens": 95}
    account = read(
        "gemini",
        {"type": "init", "session_id": "s", "model": "m"},
        {"type": "message", "role": "user", "content": "the prompt"},
        {"type": "message", "role": "assistant", "content": "I ", "delta": True},
        {"type": "message", "role": "assistant", "content": "look.", "delta": True},
        {"type": "tool_use", "tool_name": "sh", "tool_id": "1", "parameters": {"command": "ls"}},
        {"type": "tool_result", "tool_id": "1", "status": "success", "output": "a"},
        {"type": "tool_use", "tool_name": "read_file", "tool_id": "2", "parameters": {}},
        {"type": "tool_result", "tool_id": "2", "status": "error", "error": {"message": "gone"}},
        {"type": "message", "role": "assistant", "content": "It is a.", "delta": True},
        {"type": "result", "status": "success", "stats": stats},
    )
    assert shown(account) == [
        ("I look.", [("sh", {"command": "ls"})]),
        ("sh", "a", None),
        ("", [("read_file", {})]),
        ("read_file", "gone", None),
        ("It is a.", []),
    ]
    used = Usage(1, 50, 45, cached_tokens=20, cost_usd=None)
    assert (account.response, account.usage) == ("It is a.", used)
    account = read("gemini", {"type": "result", "status": "error", "error": {"message": "quota"}})
    assert account.error == "quota"


def test_cursor():
    def said(text: str) -> dict[str, object]:
        return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}

    def call(subtype: str, **about: object) -> dict[str, object]:
        tool = {"readToolCall": {"args": {"path": "a"}, **about}}
        return {"type": "tool_call", "subtype": subtype, "call_id": "c", "tool_call": tool}

    counts = {"inputTokens": 28, "outputTokens": 4, "cacheReadTokens": 10, "cacheWriteTokens": 2}
    failed = call("completed", result={"failure": {"exitCode": 2}})
    assert shown(read("cursor", call("started"), failed))[1][2] == 2
    account = read(
        "cursor",
        {"type": "system", "subtype": "init"},
        {"type": "user", "message": {"content": [{"type": "text", "text": "the prompt"}]}},
        said("I look."),
        call("started"),
        call("completed", result={"success": {"content": "text", "totalLines": 1}}),
        said("It is a."),
        {"type": "result", "is_error": False, "result": "I look.It is a.", "usage": counts},
    )
    looked = ("I look.", [("read", {"path": "a"})])
    assert shown(account) == [looked, ("read", "text", None), ("It is a.", [])]
    assert (account.response, account.usage) == ("It is a.", Usage(1, 40, 4, 10, cost_usd=None))


def test_copilots_session_events():
    asked = {"toolCallId": "t", "name": "bash", "arguments": {"command": "ls"}}
    result = {"content": "a", "contents": [{"type": "terminal", "exitCode": 1, "text": "a"}]}
    done = {"toolCallId": "t", "success": True, "result": result}
    first = {"messageId": "1", "content": "I look.", "toolRequests": [asked], "outputTokens": 5}
    last = {"messageId": "2", "content": "a", "outputTokens": 2}
    inner = {"messageId": "3", "content": "inner", "outputTokens": 9}
    account = read(
        "copilot",
        {"type": "assistant.message", "data": first},
        {"type": "tool.execution_complete", "data": done},
        {"type": "assistant.message", "data": last},
        # of subagents, only the tokens and a failing server count
        {"type": "assistant.message", "data": inner, "agentId": "a"},
        {"type": "assistant.message", "data": {**inner, "parentToolCallId": "t"}},
        {"type": "session.error", "data": {"message": "boom"}, "agentId": "a"},
        {"type": "result", "exitCode": 0},
    )
    looked = ("I look.", [("bash", {"command": "ls"})])
    assert shown(account) == [looked, ("bash", "a", 1), ("a", [])]
    assert account.usage == Usage(4, 0, 25, cost_usd=None, estimated=True)
    assert (account.response, account.error) == ("a", "")
    busy = {"type": "model.call_failure", "data": {"statusCode": 429}, "agentId": "a"}
    assert read("copilot", busy).trouble == "HTTP 429"
    assert read("copilot", busy, {**busy, "type": "assistant.message", "data": inner}).trouble == ""


def test_plain_text_is_the_answer():
    assert READERS["text"]("\n the answer\nin two lines \n").response == "the answer\nin two lines"
    assert READERS["text"](" \n").response is None
    result = json.dumps({"type": "result", "result": "a\u2028b"}, ensure_ascii=False)
    assert READERS["claude-code"](result).response == "a\u2028b"


def test_a_stream_that_breaks_off_keeps_what_was_told():
    whole = json.dumps(_assistant("m1", {"type": "text", "text": "begun"}, _tool_use("a")))
    account = READERS["claude-code"](f"warning: x\n{whole}\n[… 9 bytes left out …]\n{whole[:40]}")
    begun = ("begun", [("Bash", {"command": "a"})])
    assert shown(account) == [begun, ("Bash", "[no result was told]", None)]


#: What events are made of, whoever writes them.
WORDS = """
id type content text name input result usage message item data tool_call toolRequests error errors
stats args input_tokens subtype call_id tool_id xToolCall role arguments num_turns is_error
parent_tool_use_id exit_code changes status assistant user item.completed turn.completed turn.failed
tool_use tool_result assistant.message tool.execution_complete session.error command_execution
"""
KEYS = KINDS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.dictionaries(KEYS, JSON, max_size=5)
EVENTS = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, FIELDS)


@settings(max_examples=80)
@given(events=st.lists(EVENTS, max_size=4))
def test_no_stream_makes_a_reader_fail(events):
    for reader in READERS.values():  # all of the same streams, which take longest to make
        account = reader("\n".join(map(json.dumps, events)))
        for step in account.steps:
            if isinstance(step, ModelSaid):
                assert isinstance(step.message.content, str)
                assert all(isinstance(call.arguments, str) for call in step.message.tool_calls)
        assert account.response is None or isinstance(account.response, str)
        assert account.usage is None or account.usage.tokens >= 0


def test_no_depth_of_nesting_makes_a_reader_fail():
    event = '{"type": "result", "is_error": true, "errors": [%s]}'
    for depth in range(860, 1000):  # at some depth it can be read, but not be written again
        READERS["claude-code"](event % ("[" * depth + "]" * depth))
