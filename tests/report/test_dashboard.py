import pytest
from hostile import problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_views import REPOSITORY, SHA, TEXTS, entry, plain_run, runs

from skillopt_ci.report.comment import marker, pinned_comment, step_comment
from skillopt_ci.report.text import Links, size
from skillopt_ci.report.view import RunView

LINKS = Links(REPOSITORY, f"{REPOSITORY}/actions/runs/7")
slow = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@slow
@given(run=runs(), why=st.one_of(st.just(""), TEXTS))
def test_any_record_makes_a_comment_that_is_inert_and_fits(run: RunView, why: str) -> None:
    text = pinned_comment(run, LINKS, inconclusive=why)
    assert size(text) <= 60_000
    assert text.split("\n", 1)[0] == "<!-- skillopt-ci:v1 key=demo -->"
    assert problems(text) == []


@slow
@given(run=runs(), limit=st.integers(4_000, 12_000))
def test_a_comment_that_is_cut_leaves_nothing_open(run: RunView, limit: int) -> None:
    text = pinned_comment(run, LINKS, limit=limit)
    assert size(text) <= limit
    assert problems(text) == []


@slow
@given(run=runs())
def test_a_comment_on_any_step_is_inert_and_fits(run: RunView) -> None:
    text = step_comment(run, LINKS)
    assert size(text) <= 60_000
    assert problems(text) == []


def test_it_says_from_where_to_where_with_how_much_certainty() -> None:
    text = pinned_comment(plain_run(3), LINKS)
    assert "0.100 → 0.300 on 40 tasks" in text
    assert (
        "| score | 0.100 &#91;0.04, 0.23&#93; n=40 → **0.300 &#91;0.18, 0.45&#93; n=40** |" in text
    )
    assert "| steps | 2 merged, 1 reverted |" in text


def test_the_newest_step_comes_first() -> None:
    text = pinned_comment(plain_run(3), LINKS)
    assert text.index("<b>Step 3</b>") < text.index("<b>Step 2</b>") < text.index("<b>Step 1</b>")


def test_steps_are_linked_to_their_commits_and_the_workflow_run() -> None:
    text = pinned_comment(plain_run(1), LINKS)
    assert f"[{SHA[:7]}]({REPOSITORY}/commit/{SHA})" in text
    assert f"[workflow run]({REPOSITORY}/actions/runs/7)" in text


def test_a_hundred_steps_are_told_within_the_limit_the_old_ones_as_rows() -> None:
    text = pinned_comment(plain_run(400), LINKS)
    assert size(text) <= 60_000
    assert "<b>Step 400</b>" in text
    assert "| 300 | " in text


def test_an_interruption_is_no_verdict() -> None:
    text = pinned_comment(plain_run(2), LINKS, inconclusive="the budget was reached")
    head = text.split("<details>", 1)[0]
    assert "No verdict this time" in head
    assert "neither a regression nor an improvement" in head
    assert "✅" not in head


def test_simulated_models_are_called_so() -> None:
    assert "**simulated**" in pinned_comment(plain_run(1, simulated=True), LINKS)
    assert "**simulated**" not in pinned_comment(plain_run(1), LINKS)


def test_scores_from_before_the_tasks_changed_are_not_compared_with() -> None:
    run = plain_run(1)
    again = entry(1, kind="measure", action="measure", score_before=0.2, score_after=0.6)
    text = pinned_comment(RunView(run.state, (*run.history, again)), LINKS)
    assert "0.600 → 0.200" in text
    assert "way of measuring changed" in text


@pytest.mark.parametrize("run", ["demo", "a.b", "x--y", "über/…"])
def test_markers_are_hidden_whatever_the_run_is_called(run: str) -> None:
    assert problems(marker(run, "step 3")) == []


def test_markers_of_different_comments_differ() -> None:
    assert len({marker("a"), marker("b"), marker("a", "step-1"), marker("a", "step-2")}) == 4


def test_each_step_has_a_comment_of_its_own() -> None:
    texts = [step_comment(plain_run(steps), LINKS) for steps in (0, 1, 2)]
    first = [text.split("\n", 1)[0] for text in texts]
    assert first == [marker("demo", part) for part in ("start", "step-1", "step-2")]
    assert [text.count("<details>") for text in texts] == [0, 1, 1]
