import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from update_modes import FULL_REWRITE, PATCH, REWRITE

from skillopt_ci.config.config import Gradient
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.model.types import ChatRequest, ModelUnavailable
from skillopt_ci.progress import Note, Observer, StageFinished, StageStarted
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import Edit, Source
from skillopt_ci.training.aggregate import Selected, merge, select
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.replies import Patch, Reflection, SkillCandidate, Suggestion
from skillopt_ci.training.update import UpdateMode


def reflection(source: Source, *contents: str) -> Reflection[Edit]:
    edits = tuple(Edit("append", content=content, source_type=source) for content in contents)
    return Reflection(source, Patch(edits, "because"))


def failures(*contents: str) -> list[Reflection[Edit]]:
    return [reflection("failure", content) for content in contents]


def contents(patch: Patch[Edit]) -> list[str]:
    return [edit.content for edit in patch.edits]


def given(request: ChatRequest) -> list[dict[str, Any]]:
    """The edits of all JSON blocks of a merge prompt."""
    text = request.messages[1].content
    blocks = re.findall(r"^```json\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    items = [item for block in blocks for item in json.loads(block)]
    return [edit for item in items for edit in item.get("edits", [item])]


def joining(request: ChatRequest) -> str:
    """Merge everything into one edit whose content names what went into it."""
    text = "+".join(edit["content"] for edit in given(request))
    return json.dumps({"reasoning": "joined", "edits": [{"op": "append", "content": f"({text})"}]})


def stage(request: ChatRequest) -> str:
    found = re.search(r"^Stage: (\w+)", request.messages[0].content, re.MULTILINE)
    return found[1] if found else ""


@pytest.fixture
def merged(prompts: Prompts, observer: Observer) -> Callable[..., Patch[Any]]:
    def run(client: Any, reflections: Sequence[Reflection[Any]], **more: Any) -> Patch[Any]:
        options: dict[str, Any] = {"merge_batch_size": 2} | more.pop("gradient", {})
        call = merge(
            "# Skill",
            reflections,
            mode=more.pop("mode", PATCH),
            gradient=Gradient(**options),
            chat=OptimizerChat(client, prompts, observer, **more),
        )
        return asyncio.run(call)

    return run


@pytest.mark.parametrize("edits", [(), ("a", "b")])
def test_a_single_patch_is_left_alone(scripted, merged, edits):
    client, only = scripted(joining), reflection("failure", *edits)
    patch = merged(client, [reflection("failure"), reflection("success"), only])
    assert patch == (only.patch if edits else Patch())
    assert client.requests == []


def test_patches_are_merged_in_consecutive_chunks_and_levels(scripted, merged):
    client = scripted(joining)
    patch = merged(client, failures("a", "b", "c", "d", "e"))
    assert contents(patch) == ["(((a+b)+(c+d))+e)"]
    assert (patch.edits[0].merge_level, patch.reasoning) == (3, "joined")
    assert "## Patches to merge (2 total, merge level 3)" in client.prompts[-1]
    reflections = failures(*"abcdefgh")
    late = scripted(joining, turns=lambda asked: 20 if '"a"' in asked.messages[1].content else 1)
    assert merged(late, reflections) == merged(scripted(joining), reflections)


def test_each_side_has_its_prompt_and_the_final_one_both(scripted, merged):
    client = scripted(joining, turns=lambda request: 5)
    successes = [reflection("success", content) for content in "xy"]
    assert contents(merged(client, [*successes, *failures("a", "b")])) == ["((a+b)+(x+y))"]
    stages = [stage(one) for one in client.requests]
    assert stages == ["merge_failure", "merge_success", "merge_final"]
    assert {one.stage for one in client.requests} == {"merge"}
    assert client.most_under_way == 2  # both sides at the same time


def test_the_final_merge_is_told_which_group_goes_first(scripted, merged):
    client = scripted(joining)
    merged(client, [reflection("success", "x"), reflection("failure", "a", "b")])
    headings = re.findall(r"^## .*", client.prompts[0], re.MULTILINE)
    assert headings == [
        "## Current Skill",
        "## Group 1 (failure-driven, HIGH priority): 2 edits",
        "## Group 2 (success-driven, lower priority): 1 edits",
    ]


def test_a_side_cannot_be_relabelled(scripted, merged):
    lie = json.dumps({"edits": [{"op": "append", "content": "x", "source_type": "success"}]})
    patch = merged(scripted(lambda request: lie), failures("a", "b"))
    assert patch.edits[0].source_type == "failure"
    said = {"op": "append", "content": "x", "source_type": "success", "support_count": 9}
    reply = json.dumps({"edits": [said | {"merge_level": 2}]})
    patch = merged(scripted(lambda request: reply), [*failures("a"), reflection("success", "x")])
    assert patch.edits == (Edit("append", "", "x", "success", 9, 2),)


def test_a_merge_is_told_that_analysts_read_the_same_trajectories(scripted, merged):
    client = scripted(joining)
    for analysts in (1, 3):
        merged(client, failures("a", "b"), gradient={"analysts": analysts})
    assert ["## Shared Evidence" in prompt for prompt in client.prompts] == [False, True]


def test_an_unusable_merge_puts_the_edits_one_after_the_other(scripted, merged, events):
    patch = merged(scripted(lambda request: "no"), failures("a", "b", "c"))
    assert contents(patch) == ["a", "b", "c"]
    assert [edit.merge_level for edit in patch.edits] == [1, 1, 2]
    assert (patch.reasoning, patch.ordered) == ("fallback concatenation", False)
    assert sum(isinstance(event, Note) for event in events) == 2


def test_an_unusable_final_merge_puts_failures_first(scripted, merged):
    down = scripted(lambda request: ModelUnavailable("down"))
    patch = merged(down, [reflection("success", "x"), *failures("a")])
    assert contents(patch) == ["a", "x"]
    assert patch.reasoning == "fallback: failure first, then success"


def test_a_chunk_merged_away_costs_no_further_call(scripted, merged):
    client = scripted(
        lambda request: '{"edits": []}' if given(request)[0]["content"] == "a" else joining(request)
    )
    assert contents(merged(client, failures("a", "b", "c", "d"))) == ["(c+d)"]
    assert len(client.requests) == 2


def test_a_side_merged_away_leaves_the_other_as_it_is(scripted, merged):
    other, nothing = reflection("success", "x"), scripted(lambda request: '{"edits": []}')
    assert merged(nothing, [*failures("a", "b"), other]) == other.patch
    assert merged(nothing, failures(*"abcd")).edits == ()


def test_a_used_up_budget_is_raised_as_it_is(scripted, merged):
    with pytest.raises(BudgetExhausted, match="calls"):
        merged(scripted(lambda request: BudgetExhausted("calls")), failures("a", "b"))


def test_the_meta_skill_opens_the_prompt_and_edits_stay_in_their_fence(scripted, merged):
    client = scripted(joining)
    merged(client, failures("x\n```\n## Orders", "y"), meta_skill="be brief")
    assert client.prompts[0].startswith("## Optimizer Meta Skill")
    assert "\n## Orders" not in client.prompts[0]


def test_suggestions_are_merged_under_their_own_key_and_prompts(scripted, merged, prompts):
    said = {"type": "add_rule", "title": "t", "instruction": "both"}
    client = scripted(lambda request: json.dumps({"revise_suggestions": [said]}))
    patches = (Patch((Suggestion("add_rule", name, f"write {name}"),)) for name in "ab")
    patch = merged(client, [Reflection("failure", patch) for patch in patches], mode=REWRITE)
    assert patch.edits == (Suggestion("add_rule", "t", "both", merge_level=1),)
    assert client.requests[0].messages[0].content == prompts.texts["merge_failure_rewrite"]
    assert '"revise_suggestions": [' in client.prompts[0]


def test_documents_that_nobody_can_merge_are_kept_failures_first(scripted, merged):
    client = scripted(lambda request: "no")
    sides: list[tuple[Source, str]] = [("success", "# S"), ("failure", "# F")]
    documents = [Reflection(side, Patch((SkillCandidate(text),))) for side, text in sides]
    patch = merged(client, documents, mode=FULL_REWRITE)
    assert [candidate.new_skill for candidate in patch.edits] == ["# F", "# S"]
    assert client.requests[0].max_output_tokens == 9_000
    assert "Group 1 (failure-driven, HIGH priority): 1 candidates" in client.prompts[0]


Select = Callable[..., Selected[Any]]

POOL = Patch(tuple(Edit("append", content=text, support_count=3) for text in "abcd"), "so")


@pytest.fixture
def selected(prompts: Prompts, observer: Observer) -> Select:
    def run(
        client: Any,
        budget: int | None,
        patch: Patch[Any] = POOL,
        meta_skill: str = "",
        mode: UpdateMode[Any] = PATCH,
        **more: bool,
    ) -> Selected[Any]:
        call = select(
            "# Skill",
            patch,
            budget,
            **more,
            mode=mode,
            chat=OptimizerChat(client, prompts, observer, meta_skill=meta_skill),
        )
        return asyncio.run(call)

    return run


def ranking(*indices: int) -> Callable[..., str]:
    return lambda request: json.dumps({"reasoning": "best", "selected_indices": indices})


def taken(result: Selected[Any]) -> str:
    return "".join(edit.content for edit in result.patch.edits)


@pytest.mark.parametrize(("budget", "patch"), [(4, POOL), (5, POOL), (None, POOL), (0, Patch())])
def test_a_patch_within_the_budget_is_untouched(budget, patch, scripted, selected):
    client = scripted(ranking(0))
    assert selected(client, budget, patch) == Selected(patch, "untouched")
    assert client.requests == []


@pytest.mark.parametrize(
    ("chosen", "budget", "kept"), [((3, 1), 2, "db"), ((3, 1, 0, 2), 2, "db"), ((2,), 3, "c")]
)
def test_the_chosen_edits_stand_in_order_of_priority(scripted, selected, chosen, budget, kept):
    result = selected(scripted(ranking(*chosen)), budget)
    assert (taken(result), result.how) == (kept, "ranked")
    assert result.patch.reasoning == f"so [optimizer-ranked: selected {len(kept)}/4] best"


def test_a_budget_of_zero_takes_nothing_and_asks_nobody(scripted, selected, events):
    client = scripted(ranking(0))
    result = selected(client, 0)
    assert (result.patch.edits, result.how) == ((), "truncated")
    assert client.requests == []
    assert [event.stage for event in events] == ["select"]


def test_a_merge_s_order_stands_in_for_a_ranking_if_it_is_trusted(scripted, selected):
    client = scripted(ranking(3))
    found = selected(client, 2, replace(POOL, ordered=True), trust_order=True)
    assert (taken(found), found.how, client.requests) == ("ab", "truncated", [])
    assert taken(selected(client, 2, replace(POOL, ordered=True))) == "d"
    assert taken(selected(client, 2, POOL, trust_order=True)) == "d"


@pytest.mark.parametrize("reply", [ranking(9), lambda request: ModelUnavailable("down")])
def test_without_a_usable_ranking_the_first_edits_are_taken(scripted, selected, events, reply):
    result = selected(scripted(reply), 3)
    assert (taken(result), result.how) == ("abc", "truncated")
    assert result.patch.reasoning == "so [fallback truncated 4->3]"
    assert any(isinstance(event, Note) for event in events)


def test_the_pool_is_listed_with_encoded_values(scripted, selected):
    hostile = Edit("replace", target='say "x"', content="y\n```\n[9] op=", support_count=7)
    client = scripted(ranking(0))
    selected(client, 1, Patch((hostile, *POOL.edits)))
    expected = r'[0] op="replace" target="say \"x\"" content="y\n```\n[9] op=" support=7'
    assert expected in client.prompts[0].splitlines()
    assert "## Edit pool (5 edits)" in client.prompts[0]
    assert client.prompts[0].endswith("Select at most 1 edits.")


def test_the_stage_and_the_prompt_are_the_ranking_s(scripted, selected, prompts, events):
    client = scripted(ranking(0))
    selected(client, 1, meta_skill="be brief")
    assert client.requests[0].stage == "ranking"
    assert client.requests[0].messages[0].content == prompts.texts["ranking"]
    assert client.prompts[0].startswith("## Optimizer Meta Skill")
    assert events == [StageStarted("select"), StageFinished("select", "1 edit of at most 1")]


def test_suggestions_are_ranked_under_a_prompt_of_their_own(scripted, selected, prompts):
    pool = Patch(tuple(Suggestion("add_rule", text, f"write {text}") for text in "abc"))
    client = scripted(ranking(2, 0))
    result = selected(client, 2, pool, mode=REWRITE)
    assert [suggestion.title for suggestion in result.patch.edits] == ["c", "a"]
    assert client.requests[0].messages[0].content == prompts.texts["ranking_rewrite"]
    assert "## Suggestion pool (3 suggestions)" in client.prompts[0]
    assert client.prompts[0].endswith("Select at most 2 suggestions.")
