import pytest

from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.ledger.timeline import timeline


def entry(kind: str, step: int, action: str, after: float | None, best: float, sha: str):
    return HistoryEntry(
        kind=kind,
        step=step,
        epoch=1,
        action=action,
        score_after=after,
        best_score=best,
        skill_sha256=sha,
    )


START = entry("start", 0, "start", 0.0, 0.0, "a")
BEST = entry("step", 1, "accept_new_best", 0.5, 0.5, "b")
BEST_IS_1 = ("step_0001", 0.5, 1)


def test_a_run_begins_with_the_initial_skill():
    (moment,) = timeline([START])
    assert (moment.current_score, moment.current_origin, moment.best_step) == (0.0, "initial", 0)


@pytest.mark.parametrize(
    ("event", "current", "best"),
    [
        (("step", 1, "reject", 0.9, 0.5, "b"), ("step_0001", 0.5), BEST_IS_1),
        (("step", 2, "accept", 0.4, 0.5, "c"), ("step_0002", 0.4), BEST_IS_1),
        (("step", 2, "force_accept", 0.7, 0.7, "c"), ("step_0002", 0.7), ("step_0002", 0.7, 2)),
        (("slow_update", 1, "accept", 0.5, 0.5, "c"), ("slow_update_momentum", 0.5), BEST_IS_1),
        (("measure", 1, "measure", 0.6, 0.6, "b"), ("step_0001", 0.6), ("step_0001", 0.6, 1)),
        (("measure", 1, "measure", 0.3, 0.5, "c"), ("edited_by_hand", 0.3), BEST_IS_1),
    ],
)
def test_what_is_current_and_best_after_a_new_best_and_an_event(event, current, best):
    *_, before, moment = timeline([START, BEST, entry(*event)])
    assert (before.current_origin, before.best_origin) == ("step_0001", "step_0001")
    assert (moment.current_origin, moment.current_score) == current
    assert (moment.best_origin, moment.best_score, moment.best_step) == best


def test_a_promoted_skill_is_the_best_one():
    accepted = entry("step", 2, "accept", 0.5, 0.5, "c")
    *_, moment = timeline([START, BEST, accepted, entry("finish", 2, "promote", 0.5, 0.5, "c")])
    assert moment.best_origin == "step_0002"


def test_what_a_person_took_back_is_the_best_no_more():
    taken = entry("revert", 1, "revert", None, 0.5, "b")
    *_, moment = timeline([START, BEST, taken, entry("measure", 1, "measure", 0.3, 0.3, "c")])
    assert (moment.best_origin, moment.best_score) == ("edited_by_hand", 0.3)
