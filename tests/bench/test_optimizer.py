import json
import random
from collections import Counter

import pytest

from bench.world.answering import Oracle
from bench.world.optimizer import ideas, kind_of
from bench.world.world import INITIAL_SKILL, World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(7)


@pytest.fixture
def oracle(world) -> Oracle:
    return Oracle(world)


def asked(oracle: Oracle, user: str, system: str = "") -> str:
    return oracle.answer(messages(user, system)).text


def messages(user: str, system: str = "") -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def failed(*topics: str) -> str:
    blocks = [
        f"### Trajectory {n} (id={n})\n[agent] I was unsure about {topic}.\n"
        for n, topic in enumerate(topics, 1)
    ]
    return f"## Failed Trajectories ({len(topics)} total)\n" + "\n---\n".join(blocks)


def analyst_prompt(skill: str, *topics: str, limit: int = 4, previous: str = "") -> str:
    tried = f"## Previous Steps in This Epoch\n{previous}\n\n" if previous else ""
    return (
        f"## Current Skill\n{skill}\n\n## Edits Budget\nProduce at most L={limit} edits.\n\n"
        + tried
        + failed(*topics)
    )


def reflection_prompt(skill: str, *topics: str) -> str:
    examples = "\n".join(
        f"# Example {n}\n## Generated Outputs\nI was unsure about {topic}.\n"
        for n, topic in enumerate(topics, 1)
    )
    return (
        "I provided an assistant with the following instructions to perform a task for me:\n"
        f"```\n{skill}\n```\n\nThe following are examples of inputs:\n```\n{examples}\n```\n\n"
        "Your task is to write a new instruction for the assistant."
    )


def proposed(reply: str) -> list[dict[str, object]]:
    return json.loads(reply)["patch"]["edits"]


@pytest.mark.parametrize(
    ("user", "system", "kind"),
    [
        ("Case train-0001 (claim)\n\nWork it out.", "any skill_content", "target"),
        (reflection_prompt("x"), "", "reflection"),
        (analyst_prompt("x", "page numbers"), "", "analyst"),
        ("## Current Skill\nx\n\n## Patches to merge (2 total, merge level 1)\n[]", "", "merge"),
        ("## Two pre-merged patch groups to combine\nGroup 1 (failure-driven)", "", "merge_final"),
        ("## Edits Pool (5 edits, budget=2)\n[0] op=append", "", "ranking"),
        ("## Edit pool (5 edits)\n[0] op=append", "", "ranking"),
        ("## Comparison", 'reply {"slow_update_content": ""}', "slow_update"),
        ("## Comparison", 'reply {"meta_skill_content": ""}', "meta_skill"),
        ("Tell me a story.", "", "unknown"),
    ],
)
def test_a_request_is_known_by_its_content(user, system, kind):
    assert kind_of(messages(user, system)) == kind


def test_the_analyst_proposes_only_what_its_trajectories_show_and_at_most_its_budget(oracle, world):
    topics = (
        "page numbers",
        "open disputes",
        "split payments",
        "foreign units",
        "late corrections",
    )
    shown = {rule.text for topic in topics for rule in world.by_topic[topic]}
    strange = 0
    for n in range(60):
        edits = proposed(asked(oracle, analyst_prompt(f"{n}", *topics, *topics, limit=3)))
        assert 1 <= len(edits) <= 3
        strange += sum(str(edit["content"]).removeprefix("- ") not in shown for edit in edits)
    assert 0 < strange < 60 * 3 * 0.25


def test_fewer_than_half_of_all_proposed_edits_help():
    kinds: Counter[str] = Counter()
    for seed in range(12):
        world = make_world(seed)
        dice = random.Random(seed)
        for _ in range(40):
            seen = Counter(dice.choices(list(world.by_topic), k=7))
            for idea in ideas(world, INITIAL_SKILL, seen, (), 4, dice):
                rule = world.rules[idea.sentence]
                kinds["helpful" if rule.helpful else "harmful" if rule.harmful else "neutral"] += 1
    assert 0.2 < kinds["helpful"] / kinds.total() < 0.5
    assert kinds["harmful"] / kinds.total() > 0.2


def test_what_was_rejected_is_proposed_less_often(oracle, world):
    topic = max(world.odds, key=lambda one: world.odds[one])
    right = world.by_topic[topic][0].text
    tried = f'Rejected edits:\n1. [append] "{right}"'

    def times(previous: str) -> int:
        prompts = (analyst_prompt(f"{n}", topic, previous=previous) for n in range(80))
        return sum(right in asked(oracle, prompt) for prompt in prompts)

    assert times(tried) < 0.7 * times("Nothing was tried.")


def test_what_a_skill_states_is_replaced_or_deleted_rather_than_said_twice(oracle, world):
    topic = "page numbers"
    harmful = world.by_topic[topic][1].text
    edits = [
        edit
        for n in range(60)
        for edit in proposed(
            asked(oracle, analyst_prompt(f"{n}\n- {harmful}", *[topic] * 6, limit=1))
        )
        if topic in f"{edit['target']}{edit['content']}"
    ]
    assert {edit["op"] for edit in edits} == {"replace", "delete"}
    assert {edit["target"] for edit in edits} == {f"- {harmful}"}


def test_merging_adds_up_support_and_keeps_one_practice_of_a_topic(oracle, world):
    right, harmful, _ = (rule.text for rule in world.by_topic["page numbers"])

    def edit(text: str, support: int) -> dict[str, object]:
        return {"op": "append", "target": "", "content": f"- {text}", "support_count": support}

    patches = [
        {"reasoning": "", "edits": [edit(right, 3), edit(harmful, 1)]},
        {"reasoning": "", "edits": [edit(right, 2)]},
    ]
    kept = Counter()
    for n in range(40):
        text = f"## Current Skill\n{n}\n\n## Patches to merge (2 total, merge level 1)\n"
        merged = json.loads(asked(oracle, text + json.dumps(patches, indent=2)))["edits"]
        kept.update((one["content"], one["support_count"]) for one in merged)
    assert kept[f"- {right}", 5] > 30
    assert kept[f"- {harmful}", 1] < 15


def test_the_ranking_selects_as_many_as_asked_and_mostly_the_best_supported(oracle):
    first = 0
    for n in range(40):
        pool = "".join(
            f"[{i}] op=append content='r{i}' support={8 if i == 3 else 1}\n" for i in range(6)
        )
        text = f"## Edits Pool (6 edits, budget=2)\n{pool}\nSelect the 2 most important edits. {n}"
        chosen = json.loads(asked(oracle, text))["selected_indices"]
        assert len(set(chosen)) == 2
        first += chosen[0] == 3
    assert first > 35


def test_a_reflection_keeps_the_old_instruction_and_adds_what_the_examples_show(oracle, world):
    skill = INITIAL_SKILL.strip()
    text = asked(oracle, reflection_prompt(skill, "page numbers", "open disputes"))
    new = text.split("```")[1].strip()
    assert new.startswith(skill)
    assert 1 <= len(world.stated(new)) <= 2


def test_guidance_keeps_most_of_the_last_and_answers_to_the_comparison(oracle, world):
    old = world.by_topic["page numbers"][0].text
    kept = new = 0
    for n in range(40):
        user = (
            f"## Current Epoch's Skill\nx{n}\n\n## Previous Slow Update Guidance\n- {old}\n\n"
            "## Longitudinal Comparison (same 20 tasks, two skill versions)\n"
            "## Longitudinal Comparison Summary\nTotal samples: 1\n### Persistent\n"
            "#### Task 1: a case\n[agent] I was unsure about open disputes.\n"
        )
        reply = json.loads(asked(oracle, user, "slow_update_content"))["slow_update_content"]
        kept += old in reply
        new += "open disputes" in reply
    assert kept > 25
    assert new > 25


def test_the_same_question_again_is_a_fresh_sample_and_the_same_in_every_run(world):
    task = world.splits["selection"][0]
    one, other = Oracle(world), Oracle(world)
    first = [one.answer(messages(task.prompt, "x")).text for _ in range(12)]
    asked(other, "Something in between.")
    assert [other.answer(messages(task.prompt, "x")).text for _ in range(12)] == first
    assert len({task.answer in text for text in first}) == 2


def test_calls_are_counted_by_role_and_phase(oracle, world):
    for split in ("train", "selection", "test"):
        asked(oracle, world.splits[split][0].prompt)
    asked(oracle, analyst_prompt("x", "page numbers"))
    assert oracle.calls == Counter(
        ["target/train", "target/selection", "target/test", "optimizer/analyst"]
    )
    assert oracle.tokens["optimizer/analyst"] > 0
