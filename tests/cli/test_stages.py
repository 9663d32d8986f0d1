import pytest

from skillopt_ci.cli.progress import Stage, after, count_text, finished_text, rate_text, time_text
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted


def test_a_stage_counts_from_its_start_to_its_end() -> None:
    started = after({}, StageStarted("rollout", 2), 5.0)
    advanced = after(started, StageAdvanced("rollout", "t1"), 6.0)
    assert advanced == {"rollout": Stage("rollout", 2, 5.0, 1, "t1")}
    assert after(advanced, StageFinished("rollout"), 7.0) == {}


def test_stages_overlap() -> None:
    both = after(after({}, StageStarted("a"), 0.0), StageStarted("b"), 1.0)
    assert after(both, StageFinished("a"), 2.0) == {"b": Stage("b", 0, 1.0)}


def test_an_unannounced_stage_counts_too() -> None:
    assert after({}, StageAdvanced("merge"), 3.0) == {"merge": Stage("merge", 0, 3.0, 1)}


@pytest.mark.parametrize(
    ("stage", "text"), [(Stage("a", 4, 0, 1), "1 of 4"), (Stage("a", 0, 0, 1), "1")]
)
def test_count(stage: Stage, text: str) -> None:
    assert count_text(stage) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (72, "1 min 12 s"), (7380, "2 h 03 min")]
)
def test_time(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("done", "seconds", "text"),
    [(0, 5, ""), (3, 0, ""), (30, 20, "1.5/s"), (3, 20, "9.0/min")],
)
def test_rate(done: int, seconds: float, text: str) -> None:
    assert rate_text(done, seconds) == text


@pytest.mark.parametrize(
    ("summary", "started", "text"),
    [("4 edits", 0.0, "4 edits (12 s)"), ("4 edits", 11.9, "4 edits"), ("", 11.9, "done")],
)
def test_a_finished_stage_tells_its_summary_and_its_time(
    summary: str, started: float, text: str
) -> None:
    assert finished_text(StageFinished("a", summary), Stage("a", 0, started), 12.0) == text


def test_a_stage_that_never_started_took_no_time() -> None:
    assert finished_text(StageFinished("gate", "merged"), None, 12.0) == "merged"
