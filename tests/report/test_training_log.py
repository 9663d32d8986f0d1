from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.report.terminal import LOG_HEADINGS, log_row

if TYPE_CHECKING:
    from tests.report.conftest import Make


def test_a_step_is_a_row_under_the_headings(make_entry: Make) -> None:
    row = log_row(make_entry())
    assert row == ("3", "2", "0.500", "0.750", "0.750", "1", "120", "merged, new best")
    assert len(row) == len(LOG_HEADINGS)


def test_what_is_no_step_has_no_step_number_and_tells_its_reason(make_entry: Make) -> None:
    entry = make_entry(kind="set_aside", action="set_aside", reason="the branch changed")
    row = log_row(entry)
    assert (row[0], row[5], row[-1]) == ("–", "–", "set aside: the branch changed")


def test_a_step_without_a_candidate_was_not_reverted(make_entry: Make) -> None:
    row = log_row(make_entry(action="reject", score_after=None))
    assert (row[3], row[-1]) == ("–", "nothing changed")


def test_an_epochs_end_is_told_by_its_verdict(make_entry: Make) -> None:
    end = make_entry(kind="slow_update", action="reject", score_after=0.5)
    assert (log_row(end)[0], log_row(end)[-1]) == ("–", "end of epoch: reverted")


def test_an_epochs_end_without_a_candidate_is_told_by_its_reason(make_entry: Make) -> None:
    reason = "no new guidance"
    end = make_entry(kind="slow_update", action="no_content", score_after=None, reason=reason)
    assert log_row(end)[-1] == "end of epoch: no new guidance"
