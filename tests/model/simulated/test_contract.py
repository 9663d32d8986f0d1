"""The simulated optimizer against the real stages and prompts, through the chat protocol alone."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from skillopt_ci.chat import Message
from skillopt_ci.model.client import ChatReply, ChatRequest, Role
from skillopt_ci.model.simulated.brief import (
    read_analyst_brief,
    read_merge_brief,
    read_ranking_brief,
)
from skillopt_ci.model.simulated.client import SimulatedClient
from skillopt_ci.model.simulated.ledger import ledger_line
from skillopt_ci.model.simulated.note import read_note
from skillopt_ci.model.simulated.world import generate
from skillopt_ci.progress import silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.settings.config import Gradient, ModelRole
from skillopt_ci.skill.edit import Edit
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.aggregate import merge
from skillopt_ci.training.patch import Patch, Reflection
from skillopt_ci.training.reflect import reflect
from skillopt_ci.training.select import select

SKILL = "# Ledger\n\n## Rules\n\n```\n- Separate the fields with ` | `.\n```\n"
PROMPTS = Prompts.load()
T = TypeVar("T")


@dataclass(frozen=True)
class Overheard:
    """The simulated optimizer, with what it was asked."""

    asked: list[ChatRequest]
    client: SimulatedClient

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        return await self.client.complete(request)

    def prompt(self) -> str:
        return self.asked[0].messages[1].content


@pytest.fixture
def optimizer() -> Overheard:
    config = ModelRole(provider="simulated", model="simulated-optimizer")
    return Overheard([], SimulatedClient(config, Role.OPTIMIZER))


def _tasks() -> dict[str, Task]:
    return {
        one.id: Task(one.id, (Message("user", one.prompt),), (one.reference,), one.task_type)
        for one in generate(5, 16)
    }


def _failed(task: Task) -> Rollout:
    note = read_note(task.messages[0].content)
    assert note is not None
    answer = ledger_line(note, frozenset())
    conversation = (
        Message("system", PROMPTS.target(SKILL)),
        *task.messages,
        Message("assistant", f"Here.\n\n<answer>{answer}</answer>"),
    )
    return Rollout(task.id, Status.SCORED, 0.0, 0.0, "wrong", answer, conversation)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _reflections(optimizer: Overheard) -> tuple[Reflection, ...]:
    tasks = _tasks()
    return _run(
        reflect(
            [_failed(task) for task in tasks.values()],
            tasks,
            SKILL,
            gradient=Gradient(minibatch_size=8),
            learning_rate=3,
            seed=1,
            prompts=PROMPTS,
            client=optimizer,
            observer=silent,
            step_buffer="Rejected edits: Be nice.",
        )
    )


def test_analysts_understand_what_they_are_shown(optimizer: Overheard) -> None:
    _reflections(optimizer)
    brief = read_analyst_brief(optimizer.prompt())
    assert (brief.skill, brief.limit, len(brief.trajectories)) == (SKILL.strip(), 3, 8)
    assert "Be nice." in brief.previous
    tasks = {task.messages[0].content: task.references for task in _tasks().values()}
    for seen in brief.trajectories:
        assert tasks[seen.prompt.strip()] == seen.references
        assert seen.answer != seen.references[0]


def test_analysts_propose_edits_that_the_trainer_accepts(optimizer: Overheard) -> None:
    found = _reflections(optimizer)
    assert len(found) == 2
    assert all(0 < len(reflection.patch.edits) <= 3 for reflection in found)
    assert all(reflection.failure_patterns for reflection in found)


def test_merges_understand_the_patches(optimizer: Overheard) -> None:
    edits = (Edit("append", content="Write refunds with a minus sign.", support_count=3),)
    found = [Reflection("failure", Patch(edits), ("a",), 3) for _ in range(2)]
    merged = _run(
        merge(SKILL, found, gradient=Gradient(), prompts=PROMPTS, client=optimizer, observer=silent)
    )
    assert [edit.support for edit in read_merge_brief(optimizer.prompt())] == [3, 3]
    assert [(edit.content, edit.support_count) for edit in merged.edits] == [(edits[0].content, 6)]


def test_the_final_merge_understands_both_groups(optimizer: Overheard) -> None:
    failure = Reflection("failure", Patch((Edit("append", content="A", support_count=2),)), (), 2)
    good = Edit("append", content="B", support_count=2, source_type="success")
    found = [failure, Reflection("success", Patch((good,)), (), 2)]
    merged = _run(
        merge(SKILL, found, gradient=Gradient(), prompts=PROMPTS, client=optimizer, observer=silent)
    )
    assert [edit.source_type for edit in merged.edits] == ["failure", "success"]


def test_rankings_understand_the_pool(optimizer: Overheard) -> None:
    pool = tuple(Edit("append", content=f'"{n}" support=9', support_count=n) for n in range(1, 5))
    chosen = _run(select(SKILL, Patch(pool), 2, prompts=PROMPTS, client=optimizer, observer=silent))
    entries, limit = read_ranking_brief(optimizer.prompt())
    assert ([entry.support for entry in entries], limit) == ([1, 2, 3, 4], 2)
    assert chosen.how == "ranked"
    assert [edit.support_count for edit in chosen.patch.edits] == [4, 3]
