from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillopt_ci.chat import Message
from skillopt_ci.model.client import ChatReply, ChatRequest, Role, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import ChatSolver, conversation
from skillopt_ci.tasks.task import TaskFile

if TYPE_CHECKING:
    from tests.rollout.conftest import MakeTask, ScriptedModel

PROMPTS = Prompts.load()


def test_the_skill_stands_in_the_one_system_message(make_task: MakeTask) -> None:
    system, question = conversation(make_task("2 + 2?"), "Be exact.", PROMPTS)
    assert (system.role, question) == ("system", Message("user", "2 + 2?"))
    assert "Be exact." in system.content


def test_a_system_message_of_the_task_joins_ours(make_task: MakeTask) -> None:
    own = (Message("user", "a"), Message("system", "Own rules."), Message("user", "b"))
    found = conversation(make_task("t", messages=own), "Skill.", PROMPTS)
    assert [message.role for message in found] == ["system", "user", "user"]
    assert found[0].content.endswith("\n\nOwn rules.")


def test_files_follow_the_last_question_each_in_a_fence(make_task: MakeTask) -> None:
    files = (TaskFile("a.md", "```\nx\n```"), TaskFile("b.txt", "y"))
    last = conversation(make_task("Read.", files=files), "", PROMPTS)[-1]
    assert last.content == (
        "Read.\n\nFile a.md:\n````\n```\nx\n```\n````\n\nFile b.txt:\n```\ny\n```"
    )


def test_references_are_not_shown_to_the_target(make_task: MakeTask) -> None:
    task = make_task("What?", references=("the secret answer",))
    assert "secret" not in str(conversation(task, "Skill.", PROMPTS))


def test_one_call_is_made_under_the_stage_and_attempt_that_were_asked_for(
    make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    model = scripted(lambda text: f"{text}!")
    solver = ChatSolver(model, PROMPTS)
    found = asyncio.run(solver.solve(make_task("hello"), "", stage="selection", attempt=2))
    (request,) = model.requests
    assert (request.role, request.stage, request.attempt) == (Role.TARGET, "selection", 2)
    assert (found.response, found.n_turns) == ("hello!", 1)
    assert found.messages == (*request.messages, Message("assistant", "hello!"))


@dataclass(frozen=True)
class Agent:
    """Tells how it came to its answer."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply("done", "stop", "agent", Usage(calls=1), trace="opened the file")


def test_what_an_agent_tells_of_its_work_is_kept(make_task: MakeTask) -> None:
    solver = ChatSolver(Agent(), PROMPTS)
    found = asyncio.run(solver.solve(make_task("hello"), "", stage="rollout", attempt=0))
    assert (found.response, found.trace) == ("done", "opened the file")
