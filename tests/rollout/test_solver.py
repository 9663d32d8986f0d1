import asyncio
from dataclasses import dataclass

import pytest
from rollout_values import ScriptedModel, make_task

from skillopt_ci.messages import Image, Message
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role, Usage
from skillopt_ci.prompts.library import FOR_THE_TARGET, Prompts
from skillopt_ci.rollout.solver import ChatSolver, Workplace, conversation
from skillopt_ci.rollout.types import Asked, Attempt, ModelSaid, Step
from skillopt_ci.tasks.task import Task, TaskFile, TaskImage

PROMPTS = Prompts.load()


def test_the_skill_stands_in_the_one_system_message():
    system, question = conversation(make_task("2 + 2?"), "Be exact.", PROMPTS)
    assert (system.role, question) == ("system", Message("user", "2 + 2?"))
    assert "Be exact." in system.content


@pytest.mark.parametrize("prompt", FOR_THE_TARGET)
def test_without_a_skill_the_prompt_speaks_of_the_work_alone(prompt):
    work, _, about_the_skill = PROMPTS.texts[prompt].partition("\n\n# Your skill\n")
    assert "{skill}" in about_the_skill
    task = make_task("2 + 2?")
    for nothing in ("", "\n<!-- APPENDIX_START -->\n<!-- APPENDIX_END -->\n"):
        found = conversation(task, nothing, PROMPTS, prompt)
        assert found == (Message("system", work), *task.messages)


def test_a_system_message_of_the_task_joins_ours():
    own = (Message("user", "a"), Message("system", "Own rules."), Message("user", "b"))
    found = conversation(make_task("t", messages=own), "Skill.", PROMPTS)
    assert [message.role for message in found] == ["system", "user", "user"]
    assert found[0].content.endswith("\n\nOwn rules.")


def test_files_follow_the_last_question_each_in_a_fence():
    files = (TaskFile("a.md", "```\nx\n```"), TaskFile("b.txt", "y"))
    end = conversation(make_task("Read.", files=files), "", PROMPTS)[-1]
    assert end.content == "Read.\n\nFile a.md:\n````\n```\nx\n```\n````\n\nFile b.txt:\n```\ny\n```"
    task = make_task("What?", references=("the secret answer",))
    assert "secret" not in str(conversation(task, "Skill.", PROMPTS))


def test_pictures_are_named_in_the_last_question_and_shown_with_it():
    data = {"a.png": Image("image/png", "QQ=="), "b.png": Image("image/png", "Qg==")}
    images = tuple(TaskImage(name, "0" * 64, image) for name, image in data.items())
    last = conversation(make_task("Read.", images=images), "", PROMPTS)[-1]
    assert last.content == "Read.\n\nPicture: a.png\n\nPicture: b.png"
    assert [image.data for image in last.images] == ["QQ==", "Qg=="]


def solve(model: ChatClient, task: Task, place: Workplace) -> list[Step | Attempt]:
    async def work() -> list[Step | Attempt]:
        return [step async for step in ChatSolver(model, PROMPTS).solve(task, "", place)]

    return asyncio.run(work())


def test_one_call_is_made_under_the_stage_and_attempt_that_were_asked_for():
    model = ScriptedModel(lambda text: f"{text}!")
    asked, said, found = solve(model, make_task("hello"), Workplace("selection", attempt=2))
    (request,) = model.requests
    answer = Message("assistant", "hello!")
    assert (request.role, request.stage, request.attempt) == (Role.TARGET, "selection", 2)
    assert (asked, said) == (Asked(request.messages), ModelSaid(answer, Usage(calls=1)))
    assert (found.response, found.limit, found.usage) == ("hello!", None, Usage(calls=1))
    assert found.messages == (*request.messages, answer)


@dataclass(frozen=True)
class Agent:
    """Tells how it came to its answer."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply("done", "length", "agent", Usage(calls=1), trace="opened the file")


def test_what_an_agent_tells_of_its_work_is_kept_and_that_it_was_cut_off():
    found = solve(Agent(), make_task("hello"), Workplace("rollout"))[-1]
    assert (found.response, found.trace, found.limit) == ("done", "opened the file", "tokens")
