"""An environment that reflects by itself: its patches become reflections like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.config.config import Gradient
from skillopt_ci.progress import Event, Note, Observer, StageAdvanced
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.environment import Environment, Reflecting
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.training.ask import Desk
from skillopt_ci.training.reflect import Analysts
from tests.support.update_modes import PATCH

Made = Callable[..., Any]


class Own(Environment):
    """Proposes what it is given, and keeps what it was asked."""

    def __init__(self, patches: Any) -> None:
        super().__init__({}, Path())
        self.patches, self.asked = patches, list[Reflecting]()

    def tasks(self, split: str) -> Any:
        raise NotImplementedError

    async def reflect(self, asked: Reflecting, client: Any) -> Any:
        self.asked.append(asked)
        return self.patches


def patch(*contents: str, **more: Any) -> Mapping[str, Any]:
    edits = [{"op": "append", "content": content} for content in contents]
    return {"patch": {"reasoning": "seen", "edits": edits}, **more}


@pytest.fixture
def reflected(
    prompts: Prompts, observer: Observer, make_rollout: Callable[..., Rollout], scripted: Any
) -> Made:
    rollouts = [
        make_rollout("f1"),
        make_rollout("s1", 1.0),
        make_rollout("f2"),
        make_rollout("e1", status=Status.ERROR),
    ]

    def run(patches: Any, *, learning_rate: int | None = 2, **more: Any) -> Any:
        own = Own(patches)
        desk = Desk(scripted(lambda _: ""), prompts, observer, "Earlier.", "Before.", "Wishes.")
        shown = more.pop("rollouts", rollouts)
        analysts = Analysts(PATCH, desk, {}, "# Skill", Gradient(), learning_rate, **more)
        return asyncio.run(analysts.reflect_there(own, shown, seed=5)), own.asked

    return run


def test_it_is_given_the_measured_rollouts_and_all_that_analysts_are_told(reflected: Made) -> None:
    _, (asked,) = reflected([])
    assert [one.task_id for one in asked.rollouts] == ["f1", "s1", "f2"]
    assert (asked.budget, asked.seed, asked.update_mode) == (2, 5, "patch")
    assert (asked.step_buffer, asked.meta_skill) == ("Earlier.\n\nWishes.", "Before.")


def test_its_patches_become_reflections(reflected: Made) -> None:
    patterns = [{"failure_type": "slip", "count": 9, "description": "slips"}]
    failures = patch("a", "b", "c", failure_summary=patterns)
    successes = patch("d", source_type="success", batch_size=7)
    (first, second), _ = reflected([failures, successes])
    assert [edit.content for edit in first.patch.edits] == ["a", "b"]  # the learning rate
    assert {edit.support_count for edit in first.patch.edits} == {2}
    assert (first.source_type, first.task_ids, first.batch_size) == ("failure", ("f1", "f2"), 2)
    (pattern,) = first.failure_patterns
    assert (pattern.count, pattern.task_ids) == (2, ("f1", "f2"))
    assert (second.source_type, second.task_ids, second.batch_size) == ("success", ("s1",), 1)
    assert second.patch.edits[0].source_type == "success"


def test_a_patch_states_how_many_rollouts_back_it(reflected: Made) -> None:
    (found,), _ = reflected([patch("a", batch_size=1)])
    assert (found.batch_size, found.patch.edits[0].support_count) == (1, 1)


def test_notes_are_taken_only_where_they_are_wanted(reflected: Made) -> None:
    noted = patch(appendix_notes=["Look twice."])
    (with_notes,), (asked,) = reflected([noted], notes_from=("failure",))
    assert with_notes.notes == ("Look twice.",)
    assert asked.notes_from == ("failure",)
    (without,), _ = reflected([noted])
    assert without.notes == ()


def test_a_patch_that_cannot_be_used_is_noted_and_left_out(
    reflected: Made, events: list[Event]
) -> None:
    found, _ = reflected([{"nothing": 1}, patch("a")])
    assert len(found) == 1
    (note,) = [event for event in events if isinstance(event, Note)]
    assert note.text.startswith("patch 1 of the environment cannot be used.")
    assert note.level == "warning"
    (told,) = [event for event in events if isinstance(event, StageAdvanced)]
    assert told.detail == "2 proposals of the environment"


@pytest.mark.parametrize("more", [{"learning_rate": 0}, {"rollouts": []}])
def test_with_nothing_to_say_or_to_see_it_is_not_asked(
    reflected: Made, more: dict[str, Any]
) -> None:
    assert reflected([patch("a")], **more) == ((), [])
