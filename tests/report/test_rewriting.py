from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.ledger.records import SuggestionRecord
from skillopt_ci.report.commits import headline, merged, proposed
from skillopt_ci.report.words import rewriting, suggestion_rows

if TYPE_CHECKING:
    from tests.report.conftest import Make

DATES = SuggestionRecord(type="add_rule", title="Dates", instruction="- Write dates\nas ISO.")
REWRITE = {"mode": "rewrite_from_suggestions", "edits": (), "suggestions": (DATES, DATES)}
FULL = {"mode": "full_rewrite_minibatch", "edits": ()}


def test_a_rewrite_says_of_itself_what_changed(make_proposal: Make) -> None:
    proposal = make_proposal(**FULL, change_summary=("- Add: ISO dates.", " ", "Drop: commas"))
    assert rewriting(proposal) == ("Add: ISO dates", "Drop: commas")
    assert headline(proposal) == "Add: ISO dates; Drop: commas"


def test_a_silent_rewrite_is_told_by_its_suggestions(make_proposal: Make) -> None:
    untitled = DATES.model_copy(update={"title": ""})
    proposal = make_proposal(**REWRITE | {"suggestions": (DATES, untitled)})
    assert rewriting(proposal) == ("Dates", "Write dates as ISO")


def test_a_document_that_says_nothing_is_written_anew(make_proposal: Make) -> None:
    assert headline(make_proposal(**FULL)) == "the document, written anew"


def test_a_text_that_stayed_has_no_changes(make_proposal: Make) -> None:
    same = make_proposal().skill_before
    proposal = make_proposal(**FULL, change_summary=("Add: x",), skill_after=same)
    assert (rewriting(proposal), headline(proposal)) == ((), "no change")
    assert proposal.change_count == 0


@pytest.mark.parametrize(("mode", "count"), [(REWRITE, 2), (FULL, 1), ({}, 1)])
def test_changes_are_counted_by_mode(
    make_proposal: Make, mode: dict[str, object], count: int
) -> None:
    assert make_proposal(**mode).change_count == count


def test_commits_of_a_rewrite_read_like_those_of_edits(
    make_record: Make, make_proposal: Make, make_decision: Make
) -> None:
    record = make_record(proposal=make_proposal(**REWRITE, change_summary=("Add: ISO dates",)))
    assert proposed(record).subject == "Step 3: Add: ISO dates"
    assert "- Add: ISO dates\n" in proposed(record).body + "\n"
    text = merged(record, make_decision(), 1.0)
    assert text.subject == "Merge step 3 (0.500 → 0.750): Add: ISO dates"
    assert text.trailers["Skillopt-Edits"] == "2"


def test_suggestions_are_listed_on_one_line_each(make_proposal: Make) -> None:
    hostile = DATES.model_copy(update={"type": "x\n@y", "title": "@octocat fixes #1"})
    rows = list(suggestion_rows(make_proposal(**REWRITE | {"suggestions": (DATES, hostile)})))
    assert rows[0] == ("suggestion 1", "add_rule, Dates: Write dates as ISO")
    assert rows[1][1].startswith("x (at)y, (at)octocat fixes no. 1: ")
