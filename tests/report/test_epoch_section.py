from hostile import problems
from hypothesis import HealthCheck, given, settings
from run_views import REPOSITORY, SHA, boundaries, entry, record

from skillopt_ci.ledger.records import BoundaryRecord, PairRecord, PairSide, SlowUpdateRecord
from skillopt_ci.report.comment import epoch_section, pair_table
from skillopt_ci.report.text import Links
from skillopt_ci.report.view import StepPlace

LINKS, PLACE = Links(REPOSITORY), StepPlace(SHA, SHA[::-1])


def pair(name: str, category: str, before: float, after: float) -> PairRecord:
    return PairRecord(
        id=name,
        category=category,
        previous=PairSide(hard=before, soft=before),
        current=PairSide(hard=after, soft=after),
    )


END = BoundaryRecord(
    epoch=2,
    step=6,
    simulated=False,
    pairs=(pair("t1", "stable_success", 1, 1), pair("t2", "regressed", 1, 0)),
    previous_hard=1.0,
    current_hard=0.5,
    slow_update=SlowUpdateRecord(action="propose", content="Look twice.", reasoning="It slipped."),
    skill_before="a",
    skill_after="b",
    config_sha256="c",
    decision=record(entry(6, action="reject", score_before=0.5, score_after=0.4)).decision,
)


def test_it_tells_verdict_pairs_guidance_and_reason() -> None:
    text = epoch_section(END, PLACE, LINKS).full
    assert "<b>End of epoch 2</b> reverted: 0.500 → 0.400" in text
    assert "| pairs | 1.000 → 0.500 on training tasks: 1 stable success, 1 regressed |" in text
    assert "Look twice." in text
    assert "> It slipped." in text


def test_pairs_that_changed_come_first() -> None:
    text = pair_table(END.pairs)
    assert text.index("t2") < text.index("t1")
    assert "| <code>t2</code> | 1.00 | 0.00 | regressed |" in text


def test_more_pairs_than_fit_are_counted() -> None:
    assert "and 70 more" in pair_table([pair(f"t{n}", "improved", 0, 1) for n in range(100)])


def test_an_end_without_a_candidate_has_no_scores() -> None:
    end = END.model_copy(update={"decision": None, "skill_after": "a", "pairs": ()})
    section = epoch_section(end, StepPlace(), Links())
    assert section.row.startswith("| – | – | – |")
    assert "task" not in section.short


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(end=boundaries(3))
def test_any_end_is_inert(end: BoundaryRecord) -> None:
    assert problems(epoch_section(end, PLACE, LINKS).full) == []
