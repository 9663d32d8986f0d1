from dataclasses import replace

import pytest

from skillopt_ci.demo.models import STEADY, Dice, choose_size

CALM = replace(STEADY, rash=0)
POOL = "\n".join(f"[{index}] op=append support={1 + index % 4}" for index in range(4))


def prompt(hard: str) -> str:
    return (
        f"## Evidence\n\n- rollout_hard: {hard}\n\n## Proposed items (4 total)\n\n```\n{POOL}\n```"
    )


def number(reply: dict[str, object]) -> int:
    return int(float(str(reply["learning_rate"]).removesuffix(" of them")))


@pytest.mark.parametrize(("hard", "size"), [("0.250000", 3), ("0.750000", 2)])
def test_the_more_tasks_are_solved_the_smaller_the_step(hard: str, size: int, dice: Dice) -> None:
    assert number(choose_size(prompt(hard), dice, CALM)) == size


def test_the_rash_want_more_than_there_is(dice: Dice) -> None:
    assert number(choose_size(prompt("0.250000"), dice, replace(CALM, rash=1))) == 5


def test_the_number_is_written_in_several_ways() -> None:
    replies = (choose_size(prompt("0.25"), Dice(seed, "k"), CALM) for seed in range(20))
    assert {type(reply["learning_rate"]) for reply in replies} == {int, float, str}
