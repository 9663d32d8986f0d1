from dataclasses import replace

import pytest
from hostile import HOSTILE, problems
from hypothesis import HealthCheck, given, settings
from run_views import REPOSITORY, plain_run, runs

from skillopt_ci.report.comment import body, title
from skillopt_ci.report.text import Links, size
from skillopt_ci.report.view import RunView

LINKS = Links(REPOSITORY)


def with_skill(path: str) -> RunView:
    run = plain_run(3)
    return replace(run, state=run.state.model_copy(update={"skill": path}))


def test_the_title_says_where_training_stands() -> None:
    assert title(plain_run(3)) == (
        "Train ledger skill: 0.10 → 0.30 on 40 tasks (2 merged, 1 reverted)"
    )


def test_the_title_says_when_models_are_simulated() -> None:
    assert title(plain_run(1, simulated=True)).endswith(" [simulated models]")


@pytest.mark.parametrize(
    ("path", "name"),
    [("AGENTS.md", "AGENTS.md"), ("a/b/SKILL.md", "b"), ("SKILL.md", "SKILL.md")],
)
def test_the_skill_is_called_by_its_folder_or_file(path: str, name: str) -> None:
    assert title(with_skill(path)).startswith(f"Train {name} skill: ")


@pytest.mark.parametrize("path", HOSTILE)
def test_the_title_is_one_short_line_that_notifies_nobody(path: str) -> None:
    text = title(with_skill(path))
    assert len(text) < 130
    assert not {"@", "#", "\n"} & set(text)


def test_the_body_compares_the_branches() -> None:
    assert f"{REPOSITORY}/compare/main...skillopt%2Fdemo" in body(plain_run(1), LINKS)


def test_the_body_explains_review_merge_and_stop() -> None:
    text = body(plain_run(1), LINKS)
    assert "How to review" in text
    assert "How to merge, and how to stop" in text


def test_the_chart_is_shown_where_no_comment_shows_it() -> None:
    assert "xychart" in body(plain_run(1), LINKS, with_chart=True)
    assert "xychart" not in body(plain_run(1), LINKS)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(run=runs())
def test_any_record_makes_a_body_that_is_inert_and_fits(run: RunView) -> None:
    text = body(run, LINKS, with_chart=True)
    assert size(text) <= 60_000
    assert problems(text) == []
