from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rollout_values import make_task

from skillopt_ci.config.scorers import ExactScorer, F1Scorer, ScorerSpec
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.scorers.base import GraderError


def scorers(default: ScorerSpec | None) -> TaskScorers:
    return TaskScorers(default, judge=None, root=Path(), environ={})


def test_a_scorer_is_built_once_for_all_tasks_that_share_it():
    find = scorers(ExactScorer(type="exact"))
    own = make_task("c", scorer=ExactScorer(type="exact"))
    assert find(make_task("a")) is find(make_task("b")) is find(own)


def test_the_task_s_own_scorer_goes_before_the_run_s():
    find = scorers(ExactScorer(type="exact"))
    task = make_task("a", references=("two words",), scorer=F1Scorer(type="f1"))
    score = asyncio.run(find(task)(task, "two"))
    assert 0 < score.soft < 1


def test_without_any_scorer_the_task_is_named():
    with pytest.raises(GraderError, match="'a' has no scorer"):
        scorers(None)(make_task("a"))
