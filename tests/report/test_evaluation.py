from dataclasses import replace

import pytest
from hostile import HOSTILE, problems
from hypothesis import given
from hypothesis import strategies as st
from run_views import REPOSITORY, SHA

from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.report import evaluation
from skillopt_ci.report.comment import TaskPlace
from skillopt_ci.report.evaluation import EvaluationView, Finding, chance, evaluation_comment, judge
from skillopt_ci.report.markdown import Links, size
from skillopt_ci.rollout.metrics import PairedDifference, paired

LINKS = Links(REPOSITORY, f"{REPOSITORY}/actions/runs/7")


def side(scores: dict[str, float]) -> tuple[str, Measurement]:
    mean = sum(scores.values()) / max(len(scores), 1)
    tasks = {task: (score, score) for task, score in scores.items()}
    return SHA, Measurement(hard=mean, soft=mean, score=mean, tasks=tasks)


def view(base: dict[str, float], head: dict[str, float], finding: Finding) -> EvaluationView:
    return EvaluationView(
        run="demo",
        skill="skills/ledger/SKILL.md",
        finding=finding,
        sides=(side(base), side(head)),
        difference=paired(base, head),
    )


LOST = {f"t{n}": float(n > 5) for n in range(8)}
WORSE = view({f"t{n}": 1.0 for n in range(8)}, LOST, Finding.REGRESSION)

UNMEASURED = EvaluationView("demo", "SKILL.md", Finding.INCONCLUSIVE, why="no budget")


def test_of_the_pairs_it_lists_only_those_that_changed():
    text = evaluation_comment(WORSE, LINKS)
    assert "❌ <code>skills/ledger/SKILL.md</code>: regression" in text
    assert "regression (-0.750 ± 0.387 (95 %) on 8 tasks)" in text
    assert "**Broken (6):** <code>t0</code>" in text
    assert "0 : 6 in 3.1% of all cases; below 5% counts as clear" in text
    assert "| <code>t0</code> | 1.00 | 0.00 | broken |" in text
    assert ("| <code>t5</code>" in text, "t6" in text) == (True, False)  # t6 is as it was


def test_a_task_measured_on_one_side_only_is_called_unmeasured():
    text = evaluation_comment(view({"a": 1.0, "b": 1.0}, {"a": 1.0}, Finding.UNCLEAR), LINKS)
    assert "| <code>b</code> | 1.00 | not measured |  |" in text
    assert "No task changed its result." in text
    text = evaluation_comment(UNMEASURED, LINKS)
    assert "⚠️" in text
    assert "**Not measured:** no budget. This says nothing about the change" in text


@pytest.mark.parametrize(
    ("finding", "fail_on", "conclusion"),
    [
        (Finding.IMPROVEMENT, "regression", "success"),
        (Finding.UNCLEAR, "regression", "neutral"),
        (Finding.INCONCLUSIVE, "regression", "neutral"),
        (Finding.REGRESSION, "regression", "failure"),
        (Finding.REGRESSION, "never", "neutral"),
    ],
)
def test_only_a_regression_is_red_and_only_if_asked(finding, fail_on, conclusion):
    worse = replace(WORSE, finding=finding)
    assert evaluation.evaluation_check(worse, LINKS, SHA, fail_on=fail_on).conclusion == conclusion


def test_broken_tasks_are_annotated_where_they_are_defined():
    tasks = {"t0": TaskPlace("tasks/selection.jsonl", 3)}
    (found,) = evaluation.evaluation_check(WORSE, LINKS, SHA, tasks=tasks).annotations
    place = (found.path, found.start_line, found.annotation_level)
    assert place == ("tasks/selection.jsonl", 3, "warning")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_reasons_are_inert(text):
    names = {f"{text}{n}": float(n % 2) for n in range(3)}
    other = {name: 1.0 - solved for name, solved in names.items()}
    hostile = replace(view(names, other, Finding.UNCLEAR), skill=text, why=text)
    assert problems(evaluation_comment(hostile, LINKS)) == []


def test_thousands_of_pairs_fit():
    many = {f"{'long name ' * 20}{n}": float(n % 2) for n in range(5_000)}
    other = {name: 1.0 - solved for name, solved in many.items()}
    text = evaluation_comment(view(many, other, Finding.UNCLEAR), LINKS)
    assert size(text) <= 60_000
    assert problems(text) == []


def difference(fixed: int, broken: int, same: int) -> PairedDifference:
    before = {f"t{n}": float(fixed <= n < fixed + broken) for n in range(fixed + broken + same)}
    return paired(before, before | {f"t{n}": float(n < fixed) for n in range(fixed + broken)})


@pytest.mark.parametrize(
    ("fixed", "broken", "same", "finding"),
    [
        (0, 0, 0, Finding.INCONCLUSIVE),
        (0, 0, 9, Finding.UNCLEAR),
        (5, 0, 0, Finding.UNCLEAR),
        (6, 0, 0, Finding.IMPROVEMENT),
        (0, 6, 90, Finding.REGRESSION),
        (9, 2, 0, Finding.UNCLEAR),
        (10, 1, 0, Finding.IMPROVEMENT),
        (1, 10, 0, Finding.REGRESSION),
    ],
)
def test_a_difference_counts_only_if_chance_hardly_makes_it(fixed, broken, same, finding):
    assert judge(difference(fixed, broken, same)) is finding


def test_confidence_threshold_and_flips_say_what_is_clear():
    assert judge(difference(0, 4, 0), confidence=0.8) is Finding.REGRESSION
    assert judge(difference(0, 8, 92), threshold=0.1) is Finding.UNCLEAR
    assert judge(difference(0, 8, 72), threshold=0.1) is Finding.REGRESSION
    before = {f"t{n}": 0.5 for n in range(8)}
    for little, much in ((0.51, 0.0), (0.49, 1.0)):  # the mean against the number
        after = dict.fromkeys(before, little) | {"t7": much}
        assert judge(paired(before, after), confidence=0.9) is Finding.UNCLEAR


@given(fixed=st.integers(0, 40), broken=st.integers(0, 40))
def test_chance_is_a_probability_that_ignores_direction(fixed, broken):
    assert 0 < chance(fixed, broken) <= 1
    assert chance(fixed, broken) == chance(broken, fixed)
    assert chance(6, 0) == pytest.approx(2 / 64)
