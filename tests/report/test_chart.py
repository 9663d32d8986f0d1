import re
from dataclasses import replace

from run_views import entry, plain_run

from skillopt_ci.report.comment import chart
from skillopt_ci.report.view import RunView


def series(run: RunView, name: str) -> list[str]:
    found = re.search(rf"^  {name} \[(.*)\]$", chart(run), re.MULTILINE)
    assert found is not None
    return found[1].split(", ")


def test_there_is_none_before_the_first_step() -> None:
    assert chart(plain_run(0)) == ""


def test_the_line_is_the_current_skill_and_the_bars_are_the_candidates() -> None:
    run = plain_run(3)
    assert series(run, "line") == ["0.1", "0.2", "0.2", "0.3"]
    assert series(run, "bar") == ["0.1", "0.2", "0.15", "0.3"]


def test_a_step_without_a_candidate_has_no_bar() -> None:
    run = plain_run(1)
    empty = entry(2, action="skip_no_patches", score_before=0.2)
    grown = replace(run, history=(*run.history, empty))
    assert series(grown, "bar")[-1] == "0"
    assert series(grown, "line")[-1] == "0.2"


def test_ends_of_epochs_have_a_place() -> None:
    run = plain_run(1)
    end = entry(1, kind="slow_update", action="force_accept", score_before=0.2, score_after=0.4)
    assert series(replace(run, history=(*run.history, end)), "x-axis")[-1] == '"end of 1"'


def test_a_long_run_shows_its_newest_part() -> None:
    run = plain_run(100)
    assert len(series(run, "line")) == len(series(run, "bar")) == len(series(run, "x-axis")) == 40
