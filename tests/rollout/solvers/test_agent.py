import asyncio
import contextlib
import json
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from http_server import Handler, http_server
from hypothesis import given
from hypothesis import strategies as st
from solver_play import Played, play
from virtual_time import out_of_time

from skillopt_ci.agents.builtin import AgentSolver, BadArguments, Toolbox, submitted, tools
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.rollout import AgentConfig
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.access import connection_pool
from skillopt_ci.model.budget import BudgetedClient, Meter, tariff_of
from skillopt_ci.model.build import wire_of
from skillopt_ci.model.providers import ServerClient
from skillopt_ci.model.types import ModelUnavailable, Role
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.limits import LimitedClient
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Asked, Limit, ModelSaid, Nudged, ToolUsed


@dataclass
class Agent:
    """The built-in agent before a chat server with a script; each request's body is kept."""

    url: str = ""
    script: deque[dict[str, Any]] = field(default_factory=deque)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def says(self, text: str, *calls: tuple[str, object]) -> None:
        """Script one answer: words, and calls as name and arguments (a text is sent as it is)."""
        number = len(self.script)
        called = [
            {
                "id": f"c{number}.{place}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for place, (name, given) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text or None}
        self.script.append({**message, "tool_calls": called} if called else message)

    @asynccontextmanager
    async def opened(self, **settings: object) -> AsyncIterator[AgentSolver]:
        price = {"input": 1, "output": 1}
        model = {"provider": "openai", "model": "m", "base_url": self.url, "price": price}
        config = ModelRole.model_validate(model)
        async with connection_pool(config, 2) as pool:
            server = ServerClient("model.target", config, wire_of(config), "none", pool)
            tariffs = {Role.TARGET: tariff_of(config)}
            client = BudgetedClient({Role.TARGET: server}, Meter(), tariffs)
            chosen = AgentConfig.model_validate({"type": "agent", **settings})
            yield AgentSolver(LimitedClient(client), Prompts.load(), chosen)

    def play(self, settings: Mapping[str, object] = {}, **how: Any) -> Played:
        return play(partial(self.opened, **settings), held="limits" in how, **how)


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()

    class ChatHandler(Handler):
        def respond(self) -> None:
            agent.bodies.append(json.loads(self.content()))
            message = agent.script.popleft()
            usage = {"prompt_tokens": 100, "completion_tokens": 10}
            choice = {"message": message, "finish_reason": "stop"}
            self.answer(json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode())

    with http_server(ChatHandler) as url:
        agent.url = f"{url}/v1"
        yield agent


def test_it_works_with_tools_until_it_submits(agent):
    agent.says("I look.", ("shell", {"command": "ls; echo oops >&2"}))
    agent.says("", ("write", {"path": "out/a.txt", "content": "two\n"}))
    agent.says("", ("read", {"path": "in.txt"}))
    agent.says("Done.", ("submit", {"answer": "42"}))
    played = agent.play(files={"in.txt": "one\n"}, look=["out/a.txt"])
    assert (played.attempt.response, played.files) == ("42", {"out/a.txt": "two\n"})
    used = played.of(ToolUsed)
    assert used[0].output == "[exit code 0]\nin.txt\n[standard error]\noops"
    assert used[0].exit_code == 0
    told = [step.output for step in used[1:]]
    assert told == ["4 bytes written to out/a.txt", "one\n", "Submitted."]
    assert (played.attempt.n_turns, played.attempt.usage.calls) == (4, 4)
    assert played.attempt.usage.cost_usd == pytest.approx(4 * 110e-6)
    assert played.attempt.limit is None


def test_the_skill_stands_in_the_system_prompt_as_it_is_read(agent):
    agent.says("", ("submit", {}))
    skill = "# Rules\n\nBe brief.\n\n<!-- APPENDIX_START -->\n<!-- APPENDIX_END -->\n"
    played = agent.play(skill=skill)
    (asked,) = played.of(Asked)
    system = asked.messages[0].content
    assert "Be brief." in system
    assert "APPENDIX" not in system
    assert agent.bodies[0]["messages"][0] == {"role": "system", "content": system}
    assert played.attempt.messages[:2] == asked.messages


def test_the_conversation_grows_at_its_end_only(agent):
    for number in range(3):
        agent.says("", ("shell", {"command": f"echo {number}"}))
    agent.says("", ("submit", {}))
    agent.play()
    asked = [body["messages"] for body in agent.bodies]
    assert len(asked) == 4
    assert all(later[: len(before)] == before for before, later in pairwise(asked))
    assert len({str(body["tools"]) for body in agent.bodies}) == 1


def test_only_chosen_tools_are_offered(agent):
    agent.says("", ("shell", {"command": "touch made"}))
    agent.says("", ("submit", {}))
    played = agent.play({"tools": ["read"]})
    assert [tool["function"]["name"] for tool in agent.bodies[0]["tools"]] == ["read", "submit"]
    told = played.of(ToolUsed)[0].output
    assert told == "Error: there is no tool 'shell'. The tools are read, submit."


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("shell", "{not json"), "the arguments of shell are not JSON"),
        (("shell", {"cmd": "ls"}), "command: Field required"),
        (("write", {"path": "a"}), "content: Field required"),
        (("read", {"path": "a", "start": 0}), "start: Input should be greater than or equal to 1"),
        (("read", {"path": "no/such"}), "no/such"),
        (("fly", {}), "there is no tool 'fly'"),
        (("submit", "[1]"), "wrong arguments of submit"),
        (("submit", "{"), "the arguments of submit are not JSON"),
    ],
)
def test_a_bad_call_is_answered_with_what_is_wrong(agent, call, told):
    agent.says("", call)
    agent.says("", ("submit", {"answer": "sorry"}))
    played = agent.play()
    output = played.of(ToolUsed)[0].output
    assert output.startswith("Error: ")
    assert told in output
    assert played.attempt.response == "sorry"
    answered = agent.bodies[1]["messages"][-1]
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "c0.0")


def test_an_answer_without_a_tool_is_met_with_a_reminder_and_then_counts(agent):
    agent.says("It is 4.")
    agent.says("I said: 4.")
    played = agent.play({"reminders": 1})
    assert [step.text[:22] for step in played.of(Nudged)] == ["You used no tool, so n"]
    assert agent.bodies[1]["messages"][-1]["role"] == "user"
    assert played.attempt.response == "I said: 4."


def _place(objections: list[str | None], **others: object) -> Workplace:
    left = iter(objections)

    async def check() -> str | None:
        return next(left)

    return Workplace("rollout", check_submission=check, **others)


def test_a_submission_that_is_refused_is_told_why_and_the_work_goes_on(agent):
    agent.says("", ("submit", {"answer": "a"}), ("shell", {"command": "touch late"}))
    agent.says("", ("submit", {"answer": "b"}))
    played = agent.play(place=_place(["There is no report.", None], nudges=2))
    assert [step.text for step in played.of(Nudged)] == ["There is no report."]
    assert played.attempt.response == "b"
    results = [(one["role"], one["content"]) for one in agent.bodies[1]["messages"][-2:]]
    not_done = "Not carried out: the work was submitted before."
    assert results == [("tool", "There is no report."), ("tool", not_done)]


def test_when_nudges_are_used_up_the_submission_stands(agent):
    agent.says("", ("submit", {"answer": "a"}))
    agent.says("I am done.")
    played = agent.play({"reminders": 0}, place=_place(["no", "still no"], nudges=1))
    assert (len(played.of(Nudged)), played.attempt.response) == (1, "I am done.")


@pytest.mark.parametrize(
    ("limits", "limit", "turns"),
    [
        ({"steps": 3}, Limit.STEPS, 3),
        ({"tokens": 150}, Limit.TOKENS, 2),
        ({"cost_usd": 0.0003}, Limit.COST, 3),
    ],
)
def test_a_limit_ends_the_work_gracefully(agent, limits, limit, turns):
    for number in range(5):
        agent.says(f"Turn {number}.", ("shell", {"command": f"touch f{number}"}))
    played = agent.play(limits=limits, look=[f"f{turns - 1}"])
    assert played.attempt.limit is limit
    assert len(played.of(ModelSaid)) == len(agent.bodies) == turns
    assert played.attempt.response == f"Turn {turns - 1}."


def test_time_in_which_a_server_never_answered_is_no_limit_of_the_model(agent):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        agent.url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(ModelUnavailable, match="before the model answered"):
            agent.play(limits={"rollout_seconds": 0.5})


def test_a_submission_with_the_last_step_is_no_limit(agent):
    agent.says("", ("submit", {"answer": "just in time"}))
    played = agent.play(limits={"steps": 1})
    assert played.attempt.limit is None
    assert played.attempt.response == "just in time"


def test_what_makes_it_behave_otherwise_changes_its_identity(agent):
    async def identity(**settings: object) -> object:
        async with agent.opened(**settings) as solver:
            return solver.identity()

    plain = asyncio.run(identity())
    assert plain == asyncio.run(identity())
    assert plain != asyncio.run(identity(output_bytes=500))


def use(
    name: str,
    files: Any = None,
    given: object = None,
    begun: Callable[[], object] = lambda: False,
    **settings: object,
) -> ToolUsed:
    async def now() -> ToolUsed:
        async with Unconfined(os.environ["PATH"]).open(ComputerSpec()) as computer:
            for path, content in (files or {}).items():
                await computer.write(path, content)
            chosen = AgentConfig.model_validate({"type": "agent", **settings})
            using = Toolbox(computer, chosen).use(ToolCall("1", name, json.dumps(given)))
            return await out_of_time(using, begun)

    return asyncio.run(now())


def test_the_schemas_say_what_is_needed_and_nothing_else():
    shell, submit = tools(["shell"])
    assert shell.name == "shell"
    assert shell.parameters == {
        "type": "object",
        "properties": {
            "command": {"description": "The command line.", "minLength": 1, "type": "string"}
        },
        "required": ["command"],
        "additionalProperties": False,
    }
    assert submit.parameters["required"] == []


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("exit 7", "[exit code 7]"),
        ("printf 'a\\n\\nb\\n'", "[exit code 0]\na\n\nb"),
        ("[[ a == a ]] && echo bash", "[exit code 0]\nbash"),
        ("echo x >&2; exit 1", "[exit code 1]\n[standard error]\nx"),
        ("pwd | grep -c workspace", "[exit code 0]\n1"),
        ("echo '$(rm -rf /tmp/x)' \"`echo y`\"", "[exit code 0]\n$(rm -rf /tmp/x) y"),
    ],
)
def test_a_command_is_told_by_status_and_output(command, shown):
    assert use("shell", given={"command": command}).output == shown


def test_a_command_that_takes_too_long_is_killed_and_told_so(tmp_path):
    begun = tmp_path / "begun"
    given = {"command": f"echo begun; touch {begun}; sleep 600"}
    used = use("shell", given=given, begun=begun.exists, command_seconds=60)
    assert used.output.startswith("[exit code ")
    assert "killed after 60 s]\nbegun" in used.output


def test_a_long_output_keeps_head_and_tail():
    used = use("shell", given={"command": "seq 1 100000"}, output_bytes=1000)
    assert used.output.startswith("[exit code 0]\n1\n2\n")
    assert used.output.endswith("99999\n100000")
    assert "bytes left out" in used.output
    assert len(used.output.encode()) < 1200


def test_lines_of_a_file_are_told_with_their_place():
    files = {"a.txt": b"".join(b"line %d\n" % n for n in range(1, 11))}
    shown = use("read", files, {"path": "a.txt", "start": 4, "lines": 2}).output
    assert shown == "[lines 4 to 5 of 10]\nline 4\nline 5\n"


def test_a_whole_file_is_told_as_it_is():
    assert use("read", {"a": b"one\r\ntwo"}, {"path": "a"}).output == "one\r\ntwo"
    assert use("read", {"a": b""}, {"path": "a"}).output == "[the file is empty]"
    assert use("read", {"a": b"\xff\n"}, {"path": "a"}).output == "\ufffd\n"
    assert use("read", {"a/b": b""}, {"path": "a"}).output.startswith("Error: ")


@given(st.text(max_size=60))
def test_any_arguments_are_read_or_refused(arguments):
    with contextlib.suppress(BadArguments):
        assert isinstance(submitted(ToolCall("1", "submit", arguments)), str)
