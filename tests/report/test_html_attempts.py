import shlex

import pytest
from hypothesis import given, settings
from run_views import altered, plain_run, runs

from skillopt_ci.report import view
from skillopt_ci.report.html_attempts import (
    MOST_CHARACTERS,
    VIEWER_MOST,
    WISHES_MOST,
    Recorded,
    Shown,
    Trajectory,
    Turn,
    recorded,
    viewer,
    wishes,
)
from skillopt_ci.report.view import RunView


def attempt(task: str, stage: str, skill: str, *, size: int = 5) -> Trajectory:
    turns = (Turn("model", "model", "x" * size),)
    return Trajectory(task, stage, 0, skill, "failed", "told", turns)


def grown(steps: int) -> RunView:
    """The plain run, each step with skills of its own."""
    run = plain_run(steps)
    records = tuple(
        altered(one, skill_before=f"s{one.step - 1}", skill_after=f"s{one.step}")
        for one in run.steps
    )
    return RunView(run.state, run.history, records, commit=run.commit)


def test_each_step_is_looked_at_once(monkeypatch):
    looked: list[int] = []
    known = view.event_view
    monkeypatch.setattr(view, "event_view", lambda *one: looked.append(one[0].step) or known(*one))
    run = grown(3)
    assert [bool(run.told(one)) for one in (*run.history, *run.history)].count(True) == 6
    wishes(run)
    assert looked == [1, 2, 3]


def everything(run: RunView, size: int = 5) -> Recorded:
    asked = sorted({wish for own in wishes(run).values() for wish in own})
    return recorded(run, [attempt(one.task, one.stage, one.skill, size=size) for one in asked])


def test_what_was_broken_comes_first_then_what_was_learned_from_and_fixed():
    (own,) = wishes(grown(1)).values()
    assert list(own[:6]) == [
        ("selection", "task-3", "s1"),
        ("rollout", "train-1", "s0"),
        ("selection", "task-1", "s1"),
        ("selection", "task-3", "s0"),
        ("selection", "task-1", "s0"),
        ("selection", "task-2", "s1"),
    ]
    assert list(wishes(grown(3))) == ["step-3", "step-2", "step-1"]


@pytest.mark.parametrize(
    ("task", "records", "shown"),
    [
        ("task-3", "0 failed, 1 solved, 2 unknown", 0),  # broken
        ("task-3", "0 partial, 1 failed, 2 failed, 3 partial", 2),
        ("task-1", "0 solved, 1 partial", 0),  # fixed
        ("task-3", "0 failed, 0 solved", 1),  # the last record of an attempt counts
        ("other", "0 failed, 1 solved", 1),
    ],
)
def test_of_several_attempts_the_last_that_shows_a_change_best_is_shown(task, records, shown):
    one, told = attempt(task, "selection", "s1"), [each.split() for each in records.split(", ")]
    made = [one._replace(attempt=int(number), outcome=outcome) for number, outcome in told]
    assert list(recorded(grown(1), made).values()) == [made[shown]]


def test_attempts_before_and_after_a_change_are_told_apart():
    found = viewer(grown(2), everything(grown(2)))
    after, before = found.links["step-2", "task-1"], found.before["step-2", "task-1"]
    by_id = {one.id: one for one in found.shown}
    assert (by_id[after].attempt.skill, by_id[before].attempt.skill) == ("s2", "s1")
    assert (by_id[after].section, by_id[before].section) == ("step-2", "step-1")
    assert by_id[after].made_with == "the skill of step 2"
    # what changed its verdict comes first, with what came before it
    assert [(one.change, one.section) for one in found.shown[:4]] == [
        ("broken", "step-2"),
        ("broken", "step-1"),
        ("fixed", "step-2"),
        ("fixed", "step-2"),
    ]
    assert {one.change for one in found.shown[6:]} == {""}


def test_every_step_has_its_most_telling_attempt_before_any_has_more():
    run = grown(200)
    found = viewer(run, everything(run))
    assert len(found.shown) == VIEWER_MOST
    sections = [one.section for one in found.shown]
    assert {f"step-{number}" for number in range(1, 201)} <= set(sections)
    assert found.left_out > 0
    # and the page is bounded in characters
    found = viewer(run, everything(run, size=6_000))
    size = sum(len(turn.text) for one in found.shown for turn in one.attempt.turns)
    assert (size <= MOST_CHARACTERS, found.shown[0].section) == (True, "step-200")


def test_an_attempt_says_the_command_that_shows_all_of_it():
    (shown,) = viewer(grown(1), recorded(grown(1), [attempt("task-3", "selection", "s1")])).shown
    assert shown.trace == (
        "skillopt-ci trace task-3 --run demo --stage selection --attempt 0 --skill s1 --whole"
    )
    made = attempt("$(reboot); 'x", "selection", "s1")
    shown = Shown("attempt-1", made, "", "", "", "")
    assert shlex.split(shown.trace)[2] == made.task


@settings(max_examples=15)
@given(runs())
def test_any_run_can_be_chosen_from(run):
    assert all(len(own) <= WISHES_MOST for own in wishes(run).values())
    known = everything(run)
    found = viewer(run, known)
    assert len({one.id for one in found.shown}) == len(found.shown)
    assert len(found.shown) + found.left_out == len(known)
    assert {*found.links.values(), *found.before.values()} <= {one.id for one in found.shown}
