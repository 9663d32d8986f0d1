from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.report.commits import proposed
from skillopt_ci.report.words import attempted, training_score

if TYPE_CHECKING:
    from tests.report.conftest import Make

OLDER = "d" * 64


@pytest.mark.parametrize(
    ("older", "when", "score", "commit"),
    [
        ("", "before the change", "0.500 [0.09, 0.91] n=2", "Before this change the model"),
        (
            OLDER,
            "one version earlier",
            "0.500 [0.09, 0.91] n=2, one version earlier",
            "One version earlier the model",
        ),
    ],
)
def test_it_is_said_when_training_tasks_were_attempted(
    make_record: Make, make_proposal: Make, older: str, when: str, score: str, commit: str
) -> None:
    proposal = make_proposal(skill_attempted=older)
    assert (attempted(proposal), training_score(proposal)) == (when, score)
    assert commit in proposed(make_record(proposal=proposal, decision=None)).body


def test_the_older_skill_is_the_one_that_was_attempted(make_proposal: Make) -> None:
    assert make_proposal(skill_attempted=OLDER).attempted_under == OLDER
    assert make_proposal().attempted_under == make_proposal().skill_before
