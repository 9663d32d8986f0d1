from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.config.rollout import AgentConfig, AttemptLimits
from skillopt_ci.model.types import ChatClient
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Asked, Limit, ModelSaid, Nudged, ToolUsed

if TYPE_CHECKING:
    from tests.rollout.solvers.conftest import ChatServer, Play

Agent = Callable[..., Callable[[], AbstractAsyncContextManager[AgentSolver]]]


@pytest.fixture
def agent(client: Callable[[], AbstractAsyncContextManager[ChatClient]]) -> Agent:
    def build(**settings: object) -> Callable[[], AbstractAsyncContextManager[AgentSolver]]:
        chosen = AgentConfig.model_validate({"type": "agent", **settings})

        @asynccontextmanager
        async def opened() -> AsyncIterator[AgentSolver]:
            async with client() as model:
                yield AgentSolver(model, Prompts.load(), chosen)

        return opened

    return build


def test_it_works_with_tools_until_it_submits(chat: ChatServer, agent: Agent, play: Play) -> None:
    chat.says("I look.", ("shell", {"command": "ls; echo oops >&2"}))
    chat.says("", ("write", {"path": "out/a.txt", "content": "two\n"}))
    chat.says("", ("read", {"path": "in.txt"}))
    chat.says("Done.", ("submit", {"answer": "42"}))
    played = play(agent(), files={"in.txt": "one\n"}, look=["out/a.txt"])
    assert played.attempt.response == "42"
    assert played.files == {"out/a.txt": "two\n"}
    used = played.of(ToolUsed)
    assert used[0].output == "[exit code 0]\nin.txt\n[standard error]\noops"
    assert used[0].exit_code == 0
    assert [step.output for step in used[1:]] == [
        "4 bytes written to out/a.txt",
        "one\n",
        "Submitted.",
    ]
    assert played.attempt.n_turns == 4
    assert played.attempt.usage.calls == 4
    assert played.attempt.usage.cost_usd == pytest.approx(4 * 110e-6)
    assert played.attempt.limit is None


def test_the_skill_stands_in_the_system_prompt_as_it_is_read(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("", ("submit", {}))
    skill = "# Rules\n\nBe brief.\n\n<!-- APPENDIX_START -->\n<!-- APPENDIX_END -->\n"
    played = play(agent(), skill=skill)
    (asked,) = played.of(Asked)
    system = asked.messages[0].content
    assert "Be brief." in system
    assert "APPENDIX" not in system
    assert chat.bodies[0]["messages"][0] == {"role": "system", "content": system}
    assert played.attempt.messages[:2] == asked.messages


def test_the_conversation_grows_at_its_end_only(chat: ChatServer, agent: Agent, play: Play) -> None:
    for number in range(3):
        chat.says("", ("shell", {"command": f"echo {number}"}))
    chat.says("", ("submit", {}))
    play(agent())
    asked = [body["messages"] for body in chat.bodies]
    assert len(asked) == 4
    assert all(later[: len(before)] == before for before, later in pairwise(asked))
    assert len({str(body["tools"]) for body in chat.bodies}) == 1


def test_only_chosen_tools_are_offered(chat: ChatServer, agent: Agent, play: Play) -> None:
    chat.says("", ("shell", {"command": "touch made"}))
    chat.says("", ("submit", {}))
    played = play(agent(tools=["read"]))
    names = [tool["function"]["name"] for tool in chat.bodies[0]["tools"]]
    assert names == ["read", "submit"]
    assert played.of(ToolUsed)[0].output == (
        "Error: there is no tool 'shell'. The tools are read, submit."
    )


def test_without_a_computer_there_is_only_the_answer(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("", ("submit", {"answer": "yes"}))
    played = play(agent(), computer=False)
    assert [tool["function"]["name"] for tool in chat.bodies[0]["tools"]] == ["submit"]
    assert played.attempt.response == "yes"


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
def test_a_bad_call_is_answered_with_what_is_wrong(
    chat: ChatServer, agent: Agent, play: Play, call: tuple[str, object], told: str
) -> None:
    chat.says("", call)
    chat.says("", ("submit", {"answer": "sorry"}))
    played = play(agent())
    output = played.of(ToolUsed)[0].output
    assert output.startswith("Error: ")
    assert told in output
    assert played.attempt.response == "sorry"
    answered = chat.bodies[1]["messages"][-1]
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "c0.0")


def test_an_answer_without_a_tool_is_met_with_a_reminder_and_then_counts(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("It is 4.")
    chat.says("I said: 4.")
    played = play(agent(reminders=1))
    assert [step.text[:22] for step in played.of(Nudged)] == ["You used no tool, so n"]
    assert chat.bodies[1]["messages"][-1]["role"] == "user"
    assert played.attempt.response == "I said: 4."


def test_after_the_reminder_the_work_can_go_on(chat: ChatServer, agent: Agent, play: Play) -> None:
    chat.says("Hm.")
    chat.says("", ("write", {"path": "a", "content": "x"}))
    chat.says("", ("submit", {"answer": "done"}))
    played = play(agent(), look=["a"])
    assert played.files == {"a": "x"}
    assert played.attempt.response == "done"


def _place(objections: list[str | None], **others: object) -> Workplace:
    left = iter(objections)

    async def check() -> str | None:
        return next(left)

    return Workplace("rollout", check_submission=check, **others)  # type: ignore[arg-type]


def test_a_submission_that_is_refused_is_told_why_and_the_work_goes_on(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("", ("submit", {"answer": "a"}), ("shell", {"command": "touch late"}))
    chat.says("", ("submit", {"answer": "b"}))
    played = play(agent(), place=_place(["There is no report.", None], nudges=2))
    assert [step.text for step in played.of(Nudged)] == ["There is no report."]
    assert played.attempt.response == "b"
    results = [m["content"] for m in chat.bodies[1]["messages"] if m["role"] == "tool"]
    assert results == ["There is no report.", "Not carried out: the work was submitted before."]


def test_when_nudges_are_used_up_the_submission_stands(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("", ("submit", {"answer": "a"}))
    chat.says("I am done.")
    settings = agent(reminders=0)
    played = play(settings, place=_place(["no", "still no"], nudges=1))
    assert len(played.of(Nudged)) == 1
    assert played.attempt.response == "I am done."


@pytest.mark.parametrize(
    ("limits", "limit", "turns"),
    [
        ({"steps": 3}, Limit.STEPS, 3),
        ({"tokens": 150}, Limit.TOKENS, 2),
        ({"cost_usd": 0.0003}, Limit.COST, 3),
    ],
)
def test_a_limit_ends_the_work_gracefully(
    chat: ChatServer, agent: Agent, play: Play, limits: dict[str, float], limit: Limit, turns: int
) -> None:
    for number in range(5):
        chat.says(f"Turn {number}.", ("shell", {"command": f"touch f{number}"}))
    place = Workplace("rollout", limits=AttemptLimits.model_validate(limits))
    played = play(agent(), place=place, look=[f"f{turns - 1}"])
    assert played.attempt.limit is limit
    assert len(played.of(ModelSaid)) == len(chat.bodies) == turns
    assert played.attempt.response == f"Turn {turns - 1}."


def test_a_submission_with_the_last_step_is_no_limit(
    chat: ChatServer, agent: Agent, play: Play
) -> None:
    chat.says("", ("submit", {"answer": "just in time"}))
    played = play(agent(), place=Workplace("rollout", limits=AttemptLimits(steps=1)))
    assert played.attempt.limit is None
    assert played.attempt.response == "just in time"


def test_what_makes_it_behave_otherwise_changes_its_identity(agent: Agent) -> None:
    async def identity(**settings: object) -> object:
        async with agent(**settings)() as solver:
            return solver.identity()

    plain = asyncio.run(identity())
    assert plain == asyncio.run(identity())
    assert plain != asyncio.run(identity(output_bytes=500))
