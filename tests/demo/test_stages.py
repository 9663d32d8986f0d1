"""The simulated optimizer against the real stages and prompts, through the chat protocol alone."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from skillopt_ci.config.config import Gradient
from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.client import SimulatedClient
from skillopt_ci.demo.prompt_reader import (
    read_analyst_brief,
    read_pool,
    read_proposals,
)
from skillopt_ci.demo.world import ledger_line, read_note
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.progress import silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.metrics import Aggregate
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.skill.edits import Edit
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.aggregate import merge, select
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.plan import decide_learning_rate
from skillopt_ci.training.reflect import Analysts
from skillopt_ci.training.replies import Patch, Reflection
from skillopt_ci.training.update import UpdateMode, update
from tests.support import simulated_modes  # noqa: F401 - teaches the simulated optimizer
from tests.support.office_tasks import ledger_tasks
from tests.support.update_modes import FULL_REWRITE, PATCH, REWRITE

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
        for one in ledger_tasks()[:16]
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


def _reflections(
    optimizer: Overheard,
    mode: UpdateMode[Any] = PATCH,
    learning_rate: int | None = None,
    **told: str,
) -> tuple[Reflection[Any], ...]:
    tasks = _tasks()
    chat = OptimizerChat(optimizer, PROMPTS, silent, **told)
    gradient = Gradient(minibatch_size=8)
    analysts = Analysts(mode, chat, tasks, SKILL, gradient, learning_rate)
    return asyncio.run(analysts.reflect(_coming([_failed(task) for task in tasks.values()])))


def test_analysts_understand_what_they_are_shown(optimizer):
    _reflections(optimizer, learning_rate=3, step_buffer="Rejected edits: Be nice.")
    brief = read_analyst_brief(optimizer.prompt())
    assert (brief.skill, brief.limit, len(brief.trajectories)) == (SKILL.strip(), 3, 8)
    assert "Be nice." in brief.previous
    tasks = {task.messages[0].content: task.references for task in _tasks().values()}
    for seen in brief.trajectories:
        assert tasks[seen.prompt.strip()] == seen.references
        assert seen.answer != seen.references[0]


def test_analysts_propose_edits_that_the_trainer_accepts(optimizer):
    found = _reflections(optimizer, learning_rate=3)
    assert len(found) == 2
    assert all(0 < len(reflection.patch.edits) <= 3 for reflection in found)
    assert all(reflection.failure_patterns for reflection in found)


def test_merges_understand_the_patches(optimizer):
    edits = (Edit("append", content="Write refunds with a minus sign.", support_count=3),)
    found = [Reflection("failure", Patch(edits)) for _ in range(2)]
    chat = OptimizerChat(optimizer, PROMPTS, silent)
    merged = _run(merge(SKILL, found, mode=PATCH, gradient=Gradient(), chat=chat))
    proposed = read_proposals(optimizer.prompt(), "content")
    assert [edit["support_count"] for edit in proposed] == [3, 3]
    assert [(edit.content, edit.support_count) for edit in merged.edits] == [(edits[0].content, 6)]


def test_the_final_merge_understands_both_groups(optimizer):
    failure = Reflection("failure", Patch((Edit("append", content="A", support_count=2),)))
    good = Edit("append", content="B", support_count=2, source_type="success")
    found = [failure, Reflection("success", Patch((good,)))]
    chat = OptimizerChat(optimizer, PROMPTS, silent)
    merged = _run(merge(SKILL, found, mode=PATCH, gradient=Gradient(), chat=chat))
    assert [edit.source_type for edit in merged.edits] == ["failure", "success"]


def test_rankings_understand_the_pool(optimizer):
    pool = tuple(Edit("append", content=f'"{n}" support=9', support_count=n) for n in range(1, 5))
    chat = OptimizerChat(optimizer, PROMPTS, silent)
    chosen = _run(select(SKILL, Patch(pool), 2, mode=PATCH, chat=chat))
    assert [*read_pool(optimizer.prompt(), "Edit pool").values()] == [1, 2, 3, 4]
    assert chosen.how == "ranked"
    assert [edit.support_count for edit in chosen.patch.edits] == [4, 3]


def test_suggestions_are_understood_from_analyst_to_rewrite(optimizer):
    chat = OptimizerChat(optimizer, PROMPTS, silent)
    (found, _) = _reflections(optimizer, REWRITE)
    assert {edit.type for edit in found.patch.edits} <= {"add_rule", "remove_rule", "clarify"}
    written = _run(update(SKILL, found.patch.edits[:2], mode=REWRITE, chat=chat))
    assert written.outcome == "updated"
    assert len(written.change_summary) == len(found.patch.edits[:2])


def test_documents_are_understood_from_analyst_to_merge(optimizer):
    chat, found = OptimizerChat(optimizer, PROMPTS, silent), _reflections(optimizer, FULL_REWRITE)
    merged = merge(SKILL, found, mode=FULL_REWRITE, gradient=Gradient(), chat=chat)
    (candidate,) = _run(merged).edits
    assert candidate.change_summary
    assert candidate.merge_level == 1


def test_the_learning_rate_is_chosen_from_what_is_shown(optimizer):
    pool = tuple(Edit("append", content=str(n), support_count=n) for n in range(1, 4))
    means = Aggregate(hard=0.1, soft=0.1, n=16, errors=0)
    chat = OptimizerChat(optimizer, PROMPTS, silent)
    rate, _ = _run(decide_learning_rate(SKILL, pool, means, mode=PATCH, chat=chat))
    assert (rate.fallback, rate.available) == (False, 3)
    assert rate.reasoning == "2 of the changes are backed by more than one trajectory."


async def _coming(rollouts: Iterable[Rollout]) -> AsyncIterator[Rollout]:
    for rollout in rollouts:
        yield rollout
