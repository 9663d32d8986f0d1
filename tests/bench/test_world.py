import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.world.world import (
    INITIAL_SKILL,
    SENTENCES,
    Parameters,
    World,
    answer,
    certainties,
    doubts,
    make_world,
)

SEEDS = range(12)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(7)


def with_rules(*sentences: str) -> str:
    return INITIAL_SKILL + "".join(f"- {sentence}\n" for sentence in sentences)


def test_a_seed_makes_one_world_and_another_seed_another():
    one, same, other = make_world(1), make_world(1), make_world(2)
    assert one.splits == same.splits
    assert one.rules == same.rules
    assert one.odds == same.odds
    assert one.rules != other.rules


def test_the_splits_have_the_configured_sizes_and_share_no_task(world):
    sizes = {split: len(tasks) for split, tasks in world.splits.items()}
    assert sizes == {"train": 80, "selection": 40, "test": 280}
    assert len(world.tasks) == sum(sizes.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_much_to_learn_and_nothing_is_ever_certain(seed):
    world = make_world(seed)
    assert 0.2 < world.true_score(INITIAL_SKILL) < 0.35
    assert 0.82 < world.true_score(world.best_skill()) <= 0.95


def test_right_practices_help_harmful_ones_harm_and_neutral_ones_do_nothing(world):
    start = world.true_score(INITIAL_SKILL)
    for sentence, rule in world.rules.items():
        gain = world.true_score(with_rules(sentence)) - start
        assert (gain > 0) == rule.helpful
        assert (gain < 0) == rule.harmful


def test_every_topic_has_rivals_and_some_topics_have_no_right_one(world):
    assert {topic: len(rules) for topic, rules in world.by_topic.items()} == dict.fromkeys(
        SENTENCES, 3
    )
    right = [rules[0].helpful for rules in world.by_topic.values()]
    assert right.count(True) == len(Parameters().weights)
    assert right.count(False) == 10


def test_a_bloated_skill_is_worth_a_little_less(world):
    neutral = [rule.text for rule in world.rules.values() if not (rule.helpful or rule.harmful)]
    lean, bloated = with_rules(*neutral[:14]), with_rules(*neutral)
    assert world.true_score(bloated) < world.true_score(lean)
    assert world.true_score(lean) == world.true_score(INITIAL_SKILL)
    assert world.true_score(lean) - world.true_score(bloated) < 0.1


@given(
    st.lists(st.sampled_from(sorted(s for each in SENTENCES.values() for s in each)), unique=True)
)
def test_a_rule_is_stated_however_it_is_broken_into_lines(world, sentences):
    text = with_rules(*sentences)
    assert world.stated(text) == frozenset(sentences)
    assert world.stated(text.upper().replace(" ", "\n  ")) == frozenset(sentences)


def test_the_target_is_right_as_often_as_the_world_says(world):
    dice, skill = random.Random(3), with_rules(*list(world.rules)[:9])
    stated = world.stated(skill)
    tasks = world.splits["test"]
    right = [task.answer in answer(world, task, skill, dice) for _ in range(20) for task in tasks]
    expected = sum(world.success(task, stated) for task in tasks) / len(tasks)
    assert sum(right) / len(right) == pytest.approx(expected, abs=0.02)


def test_a_failure_mostly_names_a_topic_that_the_skill_lacks(world):
    dice, named = random.Random(5), []
    for task in world.splits["train"] * 4:
        text = answer(world, task, INITIAL_SKILL, dice)
        if task.answer in text:
            assert certainties(text)
            assert not doubts(text)
            continue
        (topic,) = doubts(text)
        named.append(task.type in world.by_topic[topic][0].effects)
    assert 0.6 < sum(named) / len(named) < 0.9


def test_what_the_skill_states_rightly_is_rarely_named_again(world):
    dice, skill = random.Random(5), world.best_skill()
    before = after = 0
    heaviest = max(world.rules.values(), key=lambda rule: max([0.0, *rule.effects.values()]))
    for task in world.splits["test"]:
        before += heaviest.topic in doubts(answer(world, task, INITIAL_SKILL, dice))
        after += heaviest.topic in doubts(answer(world, task, skill, dice))
    assert after < before / 5
