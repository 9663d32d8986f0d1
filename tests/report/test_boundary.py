"""Commit messages of an epoch's end."""

from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    MetaSkillRecord,
    PairRecord,
    PairSide,
    SlowUpdateRecord,
    UsageRecord,
)
from skillopt_ci.report.commits import boundary_landed, boundary_proposed, categories
from skillopt_ci.report.terminal import (
    boundary_rows,
    boundary_rows_in_full,
    boundary_title,
    boundary_verdict,
)

Make = Callable[..., Any]

BEFORE, AFTER = "a" * 64, "b" * 64
GOOD, BAD = PairSide(hard=1, soft=1), PairSide(hard=0, soft=0)
SLOW = SlowUpdateRecord(
    action="propose",
    previous_content="- Old.",
    content="- Check twice.\n- Ask @ada.",
    reasoning="so",
)
META = MetaSkillRecord(action="write_meta_skill", content="- Short rules work.")
NO_SLOW, NO_META = SlowUpdateRecord(action="no_content"), MetaSkillRecord(action="no_content")


@pytest.fixture
def make_end(make_decision: Make) -> Make:
    record = BoundaryRecord(
        epoch=2,
        step=6,
        simulated=False,
        policy="mixed",
        pairs=(
            PairRecord(id="t1", category="improved", previous=BAD, current=GOOD),
            PairRecord(id="t2", category="persistent_fail", previous=BAD, current=BAD),
        ),
        previous_hard=0.0,
        current_hard=0.5,
        slow_update=SLOW,
        meta_skill=META,
        skill_before=BEFORE,
        skill_after=AFTER,
        config_sha256="c" * 64,
        stages={"slow_rollout": UsageRecord(calls=4)},
        decision=make_decision(),
        usage=UsageRecord(calls=9),
    )

    def make(**changes: object) -> BoundaryRecord:
        return record.model_copy(update=changes)

    return make


def unchanged(make_end: Make, **changes: object) -> BoundaryRecord:
    end: BoundaryRecord = make_end(decision=None, skill_after=BEFORE, **changes)
    return end


def test_candidate_says_what_it_proposes(make_end: Make) -> None:
    text = boundary_proposed(make_end(decision=None))
    assert text.subject == "End of epoch 2: Check twice. - Ask (at)ada."
    assert text.trailers["Skillopt-Action"] == "proposed"
    assert text.trailers["Skillopt-Skill-Sha256"] == AFTER


def test_merge_has_scores_and_evidence(make_end: Make) -> None:
    text = boundary_landed(make_end(), "f" * 40, 1.25)
    assert text.subject.startswith("Merge end of epoch 2 (0.500 → 0.750): Check twice.")
    assert "Compared on 2 training tasks: 1 improved, 1 persistent fail; 0.000 under" in text.body
    assert "For the optimizer: - Short rules work." in text.body
    assert (text.trailers["Skillopt-Epoch"], text.trailers["Skillopt-Epoch-End"]) == ("2", "true")
    assert text.trailers["Skillopt-Score-After"] == "0.75"
    assert text.trailers["Skillopt-Skill-Sha256"] == AFTER


def test_revert_names_its_candidate(make_end: Make, make_decision: Make) -> None:
    text = boundary_landed(make_end(decision=make_decision(action="reject")), "f" * 40, 1.25)
    assert text.subject.startswith("Revert end of epoch 2")
    assert f"This reverts commit {'f' * 40}." in text.body
    assert text.trailers["Skillopt-Skill-Sha256"] == BEFORE


def test_end_without_a_candidate_is_told_plainly(make_end: Make) -> None:
    text = boundary_landed(unchanged(make_end, slow_update=NO_SLOW), None, 1.25)
    assert text.subject == "End of epoch 2: no new guidance, but notes for the optimizer"
    assert text.trailers["Skillopt-Action"] == "no_content"
    assert "Skillopt-Score-After" not in text.trailers


@pytest.mark.parametrize(
    ("slow", "meta", "gist", "reason"),
    [
        (NO_SLOW, NO_META, "no new guidance", "no new guidance"),
        (None, META, "notes for the optimizer", "notes for the optimizer"),
        (None, NO_META, "no notes for the optimizer", "no notes for the optimizer"),
        (
            None,
            MetaSkillRecord(action="skip_first_epoch"),
            "no notes for the optimizer",
            "the first epoch has nothing to compare with",
        ),
        (
            NO_SLOW.model_copy(update={"refused": "it holds a token"}),
            None,
            "no new guidance",
            "guidance refused: it holds a token",
        ),
        (
            None,
            NO_META.model_copy(update={"refused": "it holds a token"}),
            "no notes for the optimizer",
            "notes refused: it holds a token",
        ),
        (
            SlowUpdateRecord(action="inject_placeholder"),
            None,
            "there is room for guidance",
            "the skill has a place for guidance already",
        ),
    ],
)
def test_unchanged_skill_has_a_reason(
    make_end: Make, slow: object, meta: object, gist: str, reason: str
) -> None:
    end = unchanged(make_end, slow_update=slow, meta_skill=meta)
    assert (end.gist, end.reason) == (gist, reason)


def test_refusals_are_in_the_message(make_end: Make) -> None:
    refused = {"refused": "it holds a token"}
    end = unchanged(
        make_end,
        slow_update=NO_SLOW.model_copy(update=refused),
        meta_skill=NO_META.model_copy(update=refused),
    )
    body = boundary_landed(end, None, 1.0).body
    assert "Guidance refused: it holds a token" in body
    assert "Notes refused: it holds a token" in body


def test_categories_are_counted(make_end: Make) -> None:
    assert categories(make_end()) == "1 improved, 1 persistent fail"


def test_rows_at_a_glance(make_end: Make) -> None:
    rows = dict(boundary_rows(make_end(), 1.25))
    assert rows["verdict"] == "merged, new best"
    assert rows["compared"].startswith("0.000 → 0.500 on 2 training tasks: 1 improved")
    assert rows["used"].endswith("1.2 s")


def test_all_rows(make_end: Make) -> None:
    rows = dict(boundary_rows_in_full(make_end()))
    assert (rows["guidance"], rows["old guidance"]) == (SLOW.content, "- Old.")
    assert (rows["  improved"], rows["  persistent fail"]) == ("t1", "t2")
    assert rows["meta skill"] == META.content
    assert rows["  slow_rollout"].startswith("4 calls")
    assert rows["before"] == "0.500"


def test_first_epoch_has_nothing_to_compare(make_end: Make) -> None:
    rows = dict(boundary_rows(make_end(pairs=()), 1.0))
    assert rows["compared"] == "nothing to compare"


def test_verdict_without_a_decision(make_end: Make) -> None:
    assert boundary_verdict(make_end(decision=None)) == "in flight"
    assert boundary_verdict(unchanged(make_end)) == "nothing changed"


def test_simulated_models_are_named(make_end: Make) -> None:
    assert boundary_title(make_end(simulated=True)).endswith("(simulated models)")
    assert "simulated" in boundary_landed(make_end(simulated=True), "f" * 40, 1.0).body
