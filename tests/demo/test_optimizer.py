"""The simulated optimizer, stage by stage; whole runs with it are in training/test_update.py."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from office_tasks import ledger_tasks

from skillopt_ci.config.config import Gradient
from skillopt_ci.demo import optimizer
from skillopt_ci.demo.client import answer
from skillopt_ci.demo.optimizer import AnalystBrief, Trajectory, read_failures
from skillopt_ci.demo.world import CONVENTIONS, Dice, content_key
from skillopt_ci.messages import Message
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.slow_update import Pair, Side, render_pairs
from tests.demo.conftest import asked

PROMPTS = Prompts.load()
FIRST, SECOND = CONVENTIONS["date"].rules
WRONG = CONVENTIONS["date"].harmful
SEEN = Trajectory(
    references=("2026-03-07 | OAK TOWER | EUR 480.00",),
    prompt="Note: Paid 480 EUR to Oak Tower on 7 March 2026.",
    answer="7 March 2026 | Oak Tower | EUR 480.00",
)
BRIEF = AnalystBrief(skill="# Skill\n", limit=4, previous="", trajectories=(SEEN,) * 3)
POOL = """## Edit pool (3 edits)

```
[0] op="append" target="" content="a" support=1
[1] op="append" target="" content="b" support=5
[2] op="append" target="" content="support=9" support=3
```

Select at most 2 edits."""

pytestmark = pytest.mark.usefixtures("careful")


def stage(name: str, user: str) -> tuple[Message, ...]:
    return asked(f"# Role\n\nStage: {name}\n", user)


def edits_of(brief: AnalystBrief, dice: Dice) -> list[optimizer.Edit]:
    return optimizer.analyse_failures(brief, dice)[2]


def test_broken_conventions_compares_answers_with_references():
    assert optimizer.broken_conventions([SEEN, SEEN]) == {"date": 2, "vendor": 2}
    strange, unreferenced = replace(SEEN, answer="no idea"), replace(SEEN, references=())
    assert optimizer.broken_conventions([strange, unreferenced, replace(SEEN, prompt="?")]) == {}


def test_analyst_adds_a_missing_rule_with_its_support(dice):
    edits = edits_of(BRIEF, dice)
    assert [edit["support_count"] for edit in edits] == [3, 3]
    assert str(edits[0]["content"])[2:] in CONVENTIONS["date"].rules
    known = "".join(f"- {CONVENTIONS[name].rules[0]}\n" for name in ("date", "vendor"))
    assert edits_of(replace(BRIEF, skill=f"# Skill\n\n{known}"), dice) == []


def test_analyst_replaces_a_line_that_misleads(dice):
    edits = edits_of(replace(BRIEF, skill=f"- {WRONG}\n"), dice)
    assert [edit["target"] for edit in edits if edit["op"] == "replace"] == [f"- {WRONG}"]
    edit, *_ = edits_of(replace(BRIEF, skill=f"- {FIRST}\n- {WRONG}\n"), dice)
    assert edit == {"op": "delete", "target": f"- {WRONG}", "support_count": 3}


@pytest.mark.parametrize("rejected", CONVENTIONS["date"].rules)
def test_analyst_avoids_a_rejected_wording(rejected, dice):
    edits = edits_of(replace(BRIEF, previous=f'1. [append] "- {rejected}"'), dice)
    assert f"- {rejected}" not in [edit["content"] for edit in edits]


@pytest.mark.parametrize("kind", optimizer.MISHAPS)
def test_each_mishap_can_happen(kind, dice, rates):
    skilled = replace(BRIEF, skill=f"- {CONVENTIONS['tax'].rules[0]}\n")
    plain = edits_of(skilled, dice)
    rates(**{kind: 1})
    assert edits_of(skilled, dice) != plain


def test_mishap_is_none_where_there_is_nothing_to_propose(dice):
    rejected = "\n".join(convention.harmful for convention in CONVENTIONS.values())
    assert optimizer.mishap("harmful", replace(BRIEF, previous=rejected), dice) is None


def edit(content: str, support: int = 2, **fields: object) -> optimizer.Edit:
    return {"op": "append", "content": content, "support_count": support, **fields}


@pytest.mark.parametrize(
    ("edits", "kept"),
    [
        ([edit(FIRST, 2), edit(SECOND, 3)], [(FIRST, 5)]),
        ([edit(WRONG, 2), edit(FIRST, 3)], [(FIRST, 3)]),
        ([edit(WRONG, 3), edit(FIRST, 2)], [(WRONG, 3)]),
        ([edit("Be nice.", 1)], []),
        ([edit("Be nice."), edit(FIRST)], [("Be nice.", 2), (FIRST, 2)]),
    ],
    ids=["wordings", "contradiction", "contradiction-turned", "alone", "subjects"],
)  # fmt: skip
def test_merge_keeps_one_edit_of_each_subject(edits, kept, dice):
    prompt = f"## Patches to merge\n\n```json\n{json.dumps(edits)}\n```"
    found = optimizer.merge_edits(prompt, dice)["edits"]
    assert [(one["content"], one["support_count"]) for one in found] == kept


def test_ranking_prefers_support(dice):
    reply = optimizer.propose(stage("ranking", POOL), dice)
    assert json.loads(reply[reply.index("{") : reply.rindex("}") + 1])["selected_indices"] == [1, 2]


BARE = "# Ledger lines\n"
REFUND = "Refunds are negative: a minus sign stands directly before the number."


@pytest.fixture
def failures() -> tuple[Trajectory, ...]:
    """Answers that follow no convention but the order of the fields."""
    said = ((one, answer(asked(BARE, one.prompt), Dice(1, "f"))) for one in ledger_tasks()[:12])
    answers = [(task, text.partition("<answer>")[2][:-9]) for task, text in said]
    return tuple(Trajectory((task.reference,), task.prompt, answer) for task, answer in answers)


def comparison(failures: tuple[Trajectory, ...], skill: str = BARE, guidance: str = "None.") -> str:
    pairs = []
    for number, one in enumerate(failures):
        user = Message("user", one.prompt)
        said = Message("assistant", f"<answer>{one.answer}</answer>")
        task = Task(f"t{number}", (user,), references=one.references)
        side = Side((Rollout(task.id, Status.SCORED, 0.0, 0.0, "", one.answer, (user, said)),))
        pairs.append(Pair(task, side, side))
    known = (library.current_skill(skill), library.section("Previous Guidance", guidance))
    return library.joined(*known, render_pairs(pairs, skill, skill, Gradient()))


@pytest.fixture
def guidance(dice: Dice) -> Callable[..., list[str]]:
    return lambda *about: str(
        optimizer.slow_update(comparison(*about), dice)["slow_update_content"]
    ).splitlines()


def test_failures_are_read_back(failures):
    wrong = [one.answer for one in failures if one.answer not in one.references]
    assert [one.answer for one in read_failures(comparison(failures))] == wrong


def test_guidance_states_a_rule_then_reminds_of_it(failures, guidance):
    rules = guidance(failures)
    assert len(rules) == optimizer.MOST_CAUSES
    assert not any("Check last" in line for line in rules)
    assert all(line.startswith("- Check last: ") for line in guidance(failures, "\n".join(rules)))


def test_guidance_keeps_what_it_said(failures, guidance):
    lines = guidance(failures, BARE, f"- {REFUND}")
    assert lines[0] == f"- {REFUND}"
    assert sum("inus" in line for line in lines) == 1
    assert guidance((), BARE, f"- {REFUND}") == [f"- {REFUND}"]


@pytest.mark.parametrize("name", ["slow_update", "meta_skill"])
def test_real_prompts_name_their_stage(name, failures, dice):
    reply = optimizer.propose(asked(PROMPTS.texts[name], comparison(failures)), dice)
    assert json.loads(reply[reply.index("{") : reply.rindex("}") + 1])


def test_unknown_stage_is_answered_with_an_empty_object():
    assert all("{}" in optimizer.propose(stage("someday", "?"), Dice(0, str(k))) for k in range(20))


def test_retry_may_mend_a_malformed_reply(rates):
    first = stage("ranking", POOL)
    good = optimizer.propose(first, Dice(0, "k"))
    rates(malformed=0.5)
    retry = (*first, Message("assistant", "?"), Message("user", "That was no JSON object."))
    told = [optimizer.propose(first, Dice(k, content_key(first))) for k in range(40)]
    again = [optimizer.propose(retry, Dice(k, content_key(retry))) for k in range(40)]
    bad = [k for k in range(40) if "reasoning" not in told[k] or len(told[k]) < len(good) // 2]
    assert 5 < len(bad) < 35
    assert any("selected_indices" in again[k] and again[k] != told[k] for k in bad)


def grade_of(prompt: str) -> float:
    score = json.loads(optimizer.propose((Message("user", prompt),), Dice(0, prompt)))["score"]
    assert isinstance(score, float)
    return score


def test_grade_is_the_share_of_known_words():
    rubric = 'Reply {"score": 0..1}.\n```\nnames the river and the town\n```\n'
    assert grade_of(f"{rubric}```\nthe town\n```") == 1
    assert grade_of(f"{rubric}```\nno idea\n```") == 0


@given(st.sampled_from(["analyst_error", "analyst_success", "merge_final", "ranking"]), st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_propose_takes_any_prompt(name, user):
    assert optimizer.propose(stage(name, f"## Trajectory 1\n{user}"), Dice(0, user))
