"""An environment that reflects by itself: its patches become reflections like any other."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from update_modes import FULL_REWRITE, PATCH, REWRITE

from skillopt_ci.config.config import Gradient
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatRequest, ModelRefusal, ModelUnavailable, RequestTooLarge
from skillopt_ci.progress import Note, Observer, StageAdvanced, StageStarted
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.environment import Environment, Reflecting
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.reflect import Analysts, minibatches
from skillopt_ci.training.replies import Reflection

Reflect = Callable[..., tuple[Reflection[Any], ...]]


def both(**settings):
    return Gradient(**{"failure_only": False, **settings})


def proposing(*contents: str) -> str:
    edits = [{"op": "append", "content": content} for content in contents]
    summary = [{"failure_type": "slip", "count": 1, "description": "slips"}]
    return json.dumps({"failure_summary": summary, "patch": {"edits": edits}})


def shown_ids(request: ChatRequest) -> tuple[str, ...]:
    return tuple(re.findall(r"\(id=(\w+)\)", request.messages[1].content))


async def coming(rollouts: Iterable[Rollout]) -> AsyncIterator[Rollout]:
    for rollout in rollouts:
        await asyncio.sleep(0)  # for what has begun
        yield rollout


@pytest.fixture
def rollouts(make_rollout: Callable[..., Rollout]) -> list[Rollout]:
    failed = [make_rollout(f"f{number}") for number in range(5)]
    solved = [make_rollout(f"s{number}", 1.0) for number in range(3)]
    return [*solved, *failed, make_rollout("e1", status=Status.ERROR)]


#: What an optimizer is told besides.
_TOLD = {"step_buffer", "meta_skill", "guidance"}


@pytest.fixture
def reflected(prompts: Prompts, observer: Observer, rollouts: list[Rollout]) -> Reflect:
    tasks = {rollout.task_id: Task(rollout.task_id, ()) for rollout in rollouts}

    def run(client: Any, *, size: int = 2, **more: Any) -> Any:
        options: dict[str, Any] = {"mode": PATCH, "learning_rate": 4}
        options["gradient"] = both(minibatch_size=size)
        told = {name: more.pop(name) for name in _TOLD & more.keys()}
        chat = OptimizerChat(client, prompts, more.pop("observer", observer), **told)
        analysts = Analysts(chat=chat, tasks=tasks, skill="# Skill", **(options | more))
        found = asyncio.run(analysts.reflect(coming(rollouts)))
        return tuple(one for one in found if isinstance(one, Reflection))

    return run


def test_failures_and_successes_are_dealt_apart_in_the_order_given(rollouts):
    random.Random(5).shuffle(rollouts)
    found = minibatches(rollouts, both(minibatch_size=4))
    names = [one.task_id for one in rollouts]
    failed, solved = ([name for name in names if name[0] == kind] for kind in "fs")
    ids = [[rollout.task_id for rollout in part.rollouts] for part in found]
    assert ids == [failed[:4], failed[4:], solved]
    assert [part.source_type for part in found] == ["failure", "failure", "success"]
    only = minibatches(rollouts, both(minibatch_size=4, failure_only=True))
    assert [part.rollouts for part in only] == [part.rollouts for part in found[:2]]


def test_a_half_right_answer_is_a_success(make_rollout):
    unsaid = make_rollout("b", messages=())  # an attempt without conversation is not counted
    (found,) = minibatches([make_rollout("t", 0.5), unsaid], both())
    assert (found.source_type, [one.task_id for one in found.rollouts]) == ("success", ["t"])


def test_results_keep_minibatch_order_whatever_comes_first(scripted, reflected):
    def script(request: ChatRequest) -> str:
        return proposing(",".join(shown_ids(request)))

    fast = reflected(scripted(script))
    first_comes_last = reflected(
        scripted(script, turns=lambda request: 30 if "f1" in shown_ids(request) else 1)
    )
    assert fast == first_comes_last
    assert [found.source_type for found in fast] == ["failure"] * 3 + ["success"] * 2


def test_analysts_answer_the_same_question_and_the_first_describes_failures(scripted, reflected):
    client = scripted(lambda request: proposing(f"x{request.attempt}"))
    found = reflected(client, gradient=both(minibatch_size=8, analysts=3))
    assert [one.patch.edits[0].content for one in found] == ["x0", "x1", "x2"] * 2
    assert len({request.messages for request in client.requests}) == 2
    assert [bool(one.failure_patterns) for one in found[:3]] == [True, False, False]


def test_a_reflection_names_the_tasks_that_were_shown(scripted, reflected):
    client = scripted(lambda request: proposing("x"))
    told = {one.task_ids for found in reflected(client) for one in found.failure_patterns}
    assert told == {ids for ids in map(shown_ids, client.requests) if ids[0].startswith("f")}


def test_edits_are_clipped_to_the_learning_rate_and_bear_the_source_shown(scripted, reflected):
    client = scripted(lambda request: proposing("a", "b", "c"))
    for limit, count in ((2, 2), (None, 3)):
        found = reflected(client, learning_rate=limit)
        assert [len(one.patch.edits) for one in found] == [count] * 5
    assert ["There is no fixed limit" in one for one in client.prompts] == [False] * 5 + [True] * 5
    lie = json.dumps({"edits": [{"op": "append", "content": "x", "source_type": "success"}]})
    found = reflected(scripted(lambda request: lie))
    assert [one.patch.edits[0].source_type for one in found] == [one.source_type for one in found]


def test_sections_stand_in_order_and_stable_ones_first(scripted, reflected):
    client = scripted(lambda request: proposing())
    optional = ["## Previous Steps in This Epoch", "## Optimizer Meta Skill"]
    for told, wanted in (({"step_buffer": "tried", "meta_skill": "brief"}, optional), ({}, [])):
        client.requests.clear()
        reflected(client, **told)
        of_failures = next(prompt for prompt in client.prompts if "## Failed" in prompt)
        headings = re.findall(r"^## .*", of_failures, re.MULTILINE)
        begin = ["## Current Skill", "## Edits Budget"]
        assert headings == [*begin, *wanted, "## Failed Trajectories (2 total)"]
        assert "at most L=4 edits" in client.prompts[0]


def test_each_kind_has_its_own_prompt(scripted, reflected, prompts):
    client = scripted(lambda request: proposing())
    reflected(client, size=8)
    systems = [request.messages[0].content for request in client.requests]
    assert systems == [prompts.texts["analyst_error"], prompts.texts["analyst_success"]]
    assert "## Successful Trajectories (3 total)" in client.prompts[1]
    assert {request.stage for request in client.requests} == {"analyst"}


def test_a_bad_reply_costs_its_minibatch_only(scripted, reflected, events):
    def script(request: ChatRequest) -> str | Exception:
        ids = shown_ids(request)
        return "gibberish" if len(ids) == 1 and ids[0][0] == "f" else proposing("x")

    assert [one.patch.edits[0].support_count for one in reflected(scripted(script))] == [2, 2, 2, 1]
    notes = [event for event in events if isinstance(event, Note)]
    assert [note.text.split(":")[0] for note in notes] == ["failure minibatch 3"]


@pytest.mark.parametrize("fit", [1, 2, 4])
@pytest.mark.parametrize("refusal", [ModelRefusal, RequestTooLarge])
def test_a_minibatch_whose_prompt_is_refused_is_read_in_halves(scripted, reflected, fit, refusal):
    def script(request: ChatRequest) -> str | Exception:
        return refusal("too long") if len(shown_ids(request)) > fit else proposing("x")

    model = scripted(script)
    found = reflected(model, size=9)
    read = [ids for ids in map(shown_ids, model.requests) if len(ids) <= fit]
    assert sorted(chain(*read)) == [*(f"f{n}" for n in range(5)), *(f"s{n}" for n in range(3))]
    assert sorted(one.patch.edits[0].support_count for one in found) == sorted(map(len, read))


def test_an_outage_of_some_minibatches_is_survived(scripted, reflected):
    down = ModelUnavailable("down")
    found = reflected(
        scripted(lambda request: down if "Failed" in request.messages[1].content else proposing())
    )
    assert [one.source_type for one in found] == ["success", "success"]


@pytest.mark.parametrize("error", [ModelUnavailable("down"), BudgetExhausted("calls")])
def test_an_outage_of_all_is_not_taken_for_having_no_ideas(scripted, reflected, error):
    with pytest.raises(type(error)):
        reflected(scripted(lambda request: error))


def test_refusals_of_all_leave_nothing(scripted, reflected):
    assert reflected(scripted(lambda request: ModelRefusal("filtered"))) == ()
    client = scripted(lambda request: proposing())
    assert (reflected(client, learning_rate=0, size=1), client.requests) == ((), [])


def test_progress_counts_minibatches(scripted, reflected, events):
    reflected(scripted(lambda request: proposing("x")), size=9)
    assert events[0] == StageStarted("reflect", 2)
    events.clear()
    reflected(scripted(lambda request: proposing("x")))
    assert events[0] == StageStarted("reflect")  # it is not known yet how many there will be
    assert sum(isinstance(event, StageAdvanced) for event in events) == 5


def test_suggestions_are_asked_for_and_limited(scripted, reflected, prompts):
    said = [{"type": "add_rule", "title": text, "instruction": text} for text in "abc"]
    client = scripted(lambda request: json.dumps({"patch": {"revise_suggestions": said}}))
    found = reflected(client, learning_rate=2, mode=REWRITE)
    assert {tuple(one.title for one in each.patch.edits) for each in found} == {("a", "b")}
    asked = {request.messages[0].content for request in client.requests}
    names = ("analyst_error_rewrite", "analyst_success_rewrite")
    assert asked == {prompts.texts[name] for name in names}


def test_whole_documents_are_asked_for_with_room_for_them(scripted, reflected):
    client = scripted(
        lambda request: json.dumps({"patch": {"skill_candidates": [{"new_skill": "# New"}]}})
    )
    found = reflected(client, learning_rate=None, mode=FULL_REWRITE)
    assert [each.patch.edits[0].source_type for each in found] == ["failure"] * 3 + ["success"] * 2
    assert {request.max_output_tokens for request in client.requests} == {9_000}
    assert all("## Update Format" in prompt for prompt in client.prompts)


def noting(request: ChatRequest) -> str:
    return json.dumps({"patch": {"edits": []}, "appendix_notes": [f"Mind {shown_ids(request)[0]}"]})


def test_notes_are_asked_of_the_chosen_minibatches_only(scripted, reflected, prompts):
    model = scripted(noting)
    found = reflected(model, size=8, notes_from=("failure",))
    assert [bool(one.notes) for one in found] == [True, False]
    systems = [request.messages[0].content for request in model.requests]
    supplement = prompts.texts["analyst_error_skill_aware"]
    assert [system.endswith(supplement) for system in systems] == [True, False]


def test_a_reply_of_notes_alone_is_a_reflection(scripted, reflected):
    model = scripted(lambda request: '{"appendix_notes": "Look twice."}')
    (failures, _) = reflected(model, size=8, notes_from=("failure", "success"))
    assert (failures.patch.edits, failures.notes) == ((), ("Look twice.",))
    assert len(model.requests) == 2


def test_traces_are_shown_as_configured(scripted, reflected, rollouts):
    rollouts[:] = [replace(one, trace="opened the file") for one in rollouts]
    for wanted in (True, False):
        model = scripted(noting)
        reflected(model, gradient=both(trace_to_optimizer=wanted))
        assert all(("opened the file" in prompt) == wanted for prompt in model.prompts)


def test_a_minibatch_ends_where_its_trajectories_become_too_long(make_rollout):
    """The system prompt is shown once, however many trajectories there are."""
    parts = (("system", "s" * 9000), ("user", "u" * 100), ("assistant", "a" * 100))
    said = tuple(Message(role, text) for role, text in parts)
    rollouts = [make_rollout(f"t{number}", messages=said) for number in range(12)]
    found = minibatches(rollouts, both(max_minibatch_chars=1000))
    assert [len(one.rollouts) for one in found] == [5, 5, 2]
    assert [len(one.rollouts) for one in minibatches(rollouts, both())] == [12]
    clipped = both(max_minibatch_chars=2000, max_trajectory_chars=500)
    long = [make_rollout("t", messages=(Message("user", "u" * 9000),))] * 5
    assert [len(one.rollouts) for one in minibatches(long, clipped)] == [4, 1]


def test_a_minibatch_is_read_as_soon_as_it_is_complete(prompts, observer, scripted, rollouts):
    """Unless an attempt could not be measured: then it is not sure that the step goes on."""
    client = scripted(lambda request: proposing("x"))
    asked: list[int] = []

    async def slowly() -> AsyncIterator[Rollout]:
        for rollout in (*rollouts, replace(rollouts[0], task_id="s9"), rollouts[1]):
            yield rollout
            for _ in range(10):
                await asyncio.sleep(0)
            asked.append(len(client.requests))

    tasks = {name: Task(name, ()) for name in (*(one.task_id for one in rollouts), "s9")}
    chat, gradient = OptimizerChat(client, prompts, observer), both(minibatch_size=2)
    found = Analysts(PATCH, chat, tasks, "# Skill", gradient, 4).reflect(slowly())
    assert len(asyncio.run(found)) == 6
    # three solved, five failed, one in error; what the last two complete waits for the end
    assert asked == [0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3]


# An environment that reflects by itself: its patches become reflections like any other.


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
def reflected_there(
    prompts: Prompts, observer: Observer, make_rollout: Callable[..., Rollout], scripted: Any
) -> Reflect:
    lost = make_rollout("e1", status=Status.ERROR)
    rollouts = [make_rollout("f1"), make_rollout("s1", 1.0), make_rollout("f2"), lost]

    def run(patches: Any, *, learning_rate: int | None = 2, **more: Any) -> Any:
        own = Own(patches)
        client, told = scripted(lambda _: ""), ("Earlier.", "Before.", "Wishes.")
        chat = OptimizerChat(client, prompts, observer, *told)
        shown = more.pop("rollouts", rollouts)
        analysts = Analysts(PATCH, chat, {}, "# Skill", both(), learning_rate, **more)
        return asyncio.run(analysts.reflect_there(own, shown, seed=5)), own.asked

    return run


def test_it_is_given_the_measured_rollouts_and_all_that_analysts_are_told(reflected_there):
    _, (asked,) = reflected_there([])
    assert [one.task_id for one in asked.rollouts] == ["f1", "s1", "f2"]
    assert (asked.budget, asked.seed, asked.update_mode) == (2, 5, "patch")
    assert (asked.step_buffer, asked.meta_skill) == ("Earlier.\n\nWishes.", "Before.")


def test_its_patches_become_reflections(reflected_there):
    patterns = [{"failure_type": "slip", "count": 9, "description": "slips"}]
    failures = patch("a", "b", "c", failure_summary=patterns)
    successes = patch("d", source_type="success", batch_size=7)
    (first, second), _ = reflected_there([failures, successes])
    assert [edit.content for edit in first.patch.edits] == ["a", "b"]  # the learning rate
    assert {edit.support_count for edit in first.patch.edits} == {2}
    assert (first.source_type, first.patch.edits[0].support_count) == ("failure", 2)
    (pattern,) = first.failure_patterns
    assert (pattern.count, pattern.task_ids) == (2, ("f1", "f2"))
    assert (second.source_type, second.patch.edits[0].support_count) == ("success", 1)
    assert second.patch.edits[0].source_type == "success"


def test_a_patch_states_how_many_rollouts_back_it(reflected_there):
    (found,), _ = reflected_there([patch("a", batch_size=1)])
    assert found.patch.edits[0].support_count == 1


def test_notes_are_taken_only_where_they_are_wanted(reflected_there):
    noted = patch(appendix_notes=["Look twice."])
    (with_notes,), (asked,) = reflected_there([noted], notes_from=("failure",))
    assert with_notes.notes == ("Look twice.",)
    assert asked.notes_from == ("failure",)
    (without,), _ = reflected_there([noted])
    assert without.notes == ()


def test_a_patch_that_cannot_be_used_is_noted_and_left_out(reflected_there, events):
    (lost, kept), _ = reflected_there([{"nothing": 1}, patch("a")])
    assert lost.reply == '{"nothing": 1}'
    assert isinstance(kept, Reflection)
    (note,) = [event for event in events if isinstance(event, Note)]
    assert note.text.startswith("patch 1 of the environment cannot be used.")
    assert note.level == "warning"
    (told,) = [event for event in events if isinstance(event, StageAdvanced)]
    assert told.detail == "2 proposals of the environment"


@pytest.mark.parametrize("more", [{"learning_rate": 0}, {"rollouts": []}])
def test_with_nothing_to_say_or_to_see_it_is_not_asked(reflected_there, more):
    assert reflected_there([patch("a")], **more) == ((), [])
