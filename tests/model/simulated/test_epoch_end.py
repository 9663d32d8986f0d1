"""The simulated optimizer at an epoch's end."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from skillopt_ci.config.config import Gradient
from skillopt_ci.demo.models import (
    MOST,
    STEADY,
    ComparisonBrief,
    Dice,
    LedgerTask,
    Trajectory,
    advise,
    answer,
    conventions_followed,
    generate_notes,
    propose,
    read_comparison_brief,
    read_note,
    remember,
)
from skillopt_ci.messages import Message
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.skill.regions import SLOW_UPDATE, with_region
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.slow_update import Pair, Side, render_pairs

ALERT = replace(STEADY, vigilance=1.0)
BARE = "# Ledger lines\n"
REFUND = "Refunds are negative: a minus sign stands directly before the number."


def advised(brief: ComparisonBrief, dice: Dice) -> list[str]:
    content = advise(brief, dice, ALERT)["slow_update_content"]
    assert isinstance(content, str)
    return content.splitlines()


@pytest.fixture
def failures() -> tuple[Trajectory, ...]:
    """Answers that follow no convention but the order of the fields."""
    dice = Dice(1, "failures")
    return tuple(
        Trajectory((task.reference,), task.prompt, _bare(task.prompt, dice))
        for task in generate_notes(3, 12)
    )


def _bare(prompt: str, dice: Dice) -> str:
    said = answer((Message("system", BARE), Message("user", prompt)), dice, STEADY)
    return said.partition("<answer>")[2].removesuffix("</answer>")


def test_what_the_skill_does_not_say_becomes_a_rule(
    dice: Dice, failures: tuple[Trajectory, ...]
) -> None:
    lines = advised(ComparisonBrief(BARE, (), failures), dice)
    assert len(lines) == MOST
    assert not any("Check last" in line for line in lines)


def test_what_the_skill_says_becomes_a_reminder(
    dice: Dice, failures: tuple[Trajectory, ...]
) -> None:
    rules = advised(ComparisonBrief(BARE, (), failures), dice)
    again = advised(ComparisonBrief("\n".join(rules), (), failures), dice)
    assert all(line.startswith("- Check last: ") for line in again)


def test_last_guidance_is_kept(dice: Dice, failures: tuple[Trajectory, ...]) -> None:
    lines = advised(ComparisonBrief(BARE, (f"- {REFUND}",), failures), dice)
    assert lines[0] == f"- {REFUND}"
    assert sum("inus" in line for line in lines) == 1


def test_without_failures_nothing_new_is_said(dice: Dice) -> None:
    assert advised(ComparisonBrief(BARE, (f"- {REFUND}",), ()), dice) == [f"- {REFUND}"]


def test_memory_names_what_is_left(failures: tuple[Trajectory, ...]) -> None:
    content = remember(ComparisonBrief(BARE, (), failures))["meta_skill_content"]
    assert "Still open: " in str(content)


@pytest.fixture
def ask(failures: tuple[Trajectory, ...]) -> Callable[[str], Any]:
    """Put a real prompt of a stage to the optimizer."""

    def run(stage: str) -> Any:
        system = Message("system", Prompts.load().text(stage))
        steady = replace(ALERT, malformed=0.0)
        reply = propose((system, Message("user", comparison(failures))), Dice(0, "x"), steady)
        return json.loads(reply[reply.index("{") : reply.rindex("}") + 1])

    return run


def comparison(failures: tuple[Trajectory, ...]) -> str:
    pairs = []
    for number, one in enumerate(failures):
        user = Message("user", one.prompt)
        said = Message("assistant", f"<answer>{one.answer}</answer>")
        task = Task(f"t{number}", (user,), references=one.references)
        rollout = Rollout(task.id, Status.SCORED, 0.0, 0.0, "", one.answer, (user, said))
        side = Side((rollout,))
        pairs.append(Pair(task, side, side))
    return library.joined(
        library.current_skill(BARE),
        library.section("Previous Guidance", "There is none yet."),
        render_pairs(pairs, BARE, BARE, Gradient()),
    )


def test_brief_is_read_back_from_the_prompt(failures: tuple[Trajectory, ...]) -> None:
    brief = read_comparison_brief(comparison(failures))
    wrong = [one for one in failures if one.answer not in one.references]
    assert [one.answer for one in brief.failures] == [one.answer for one in wrong]
    assert (brief.skill, brief.guidance) == (BARE.strip(), ())


@pytest.mark.parametrize(
    ("stage", "key"),
    [("slow_update", "slow_update_content"), ("meta_skill", "meta_skill_content")],
)
def test_both_stages_are_answered(ask: Callable[[str], Any], stage: str, key: str) -> None:
    assert ask(stage)[key].startswith("- ")


def test_reminded_target_slips_less() -> None:
    skill = f"# Ledger lines\n\n- Separate the fields with ` | `.\n- {REFUND}\n"
    forgetful = replace(STEADY, slip=0.5, heedless=0.0)
    refunds = [task for task in generate_notes(5, 80) if task.task_type == "refund"]

    def solved(text: str) -> int:
        said = (answer(_ask(text, task.prompt), Dice(0, task.id), forgetful) for task in refunds)
        return sum(
            "refund" in _followed(task, one) for task, one in zip(refunds, said, strict=True)
        )

    assert solved(with_region(skill, SLOW_UPDATE, f"- {REFUND}")) > solved(skill)


def _followed(task: LedgerTask, said: str) -> frozenset[str]:
    note = read_note(task.prompt)
    assert note is not None
    line = said.partition("<answer>")[2].removesuffix("</answer>")
    return conventions_followed(note, line) or frozenset()


def _ask(skill: str, prompt: str) -> tuple[Message, ...]:
    return (Message("system", skill), Message("user", prompt))
