from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.ledger.timeline import Moment, timeline


def entry(kind: str, step: int, action: str, after: float | None, best: float, sha: str):
    return HistoryEntry(
        kind=kind,  # type: ignore[arg-type]
        step=step,
        epoch=1,
        action=action,
        score_after=after,
        best_score=best,
        skill_sha256=sha,
    )


def last(*entries: HistoryEntry) -> Moment:
    return list(timeline(entries))[-1]


START = entry("start", 0, "start", 0.0, 0.0, "a")
BEST = entry("step", 1, "accept_new_best", 0.5, 0.5, "b")


def test_a_run_begins_with_the_initial_skill() -> None:
    moment = last(START)
    assert (moment.current_score, moment.current_origin, moment.best_step) == (0.0, "initial", 0)


def test_a_new_best_is_current_and_best() -> None:
    moment = last(START, BEST)
    assert (moment.current_origin, moment.best_origin, moment.best_step) == (
        "step_0001",
        "step_0001",
        1,
    )


def test_a_rejected_candidate_changes_nothing() -> None:
    moment = last(START, BEST, entry("step", 2, "reject", 0.9, 0.5, "b"))
    assert (moment.current_score, moment.current_origin, moment.best_step) == (0.5, "step_0001", 1)


def test_an_accepted_one_leaves_the_best_alone() -> None:
    moment = last(START, BEST, entry("step", 2, "accept", 0.4, 0.5, "c"))
    assert (moment.current_origin, moment.best_origin) == ("step_0002", "step_0001")


def test_a_forced_one_is_best_if_it_scored_higher() -> None:
    moment = last(START, BEST, entry("step", 2, "force_accept", 0.7, 0.7, "c"))
    assert (moment.best_origin, moment.best_score) == ("step_0002", 0.7)


def test_guidance_has_its_own_origin() -> None:
    moment = last(START, BEST, entry("slow_update", 1, "accept", 0.5, 0.5, "c"))
    assert (moment.current_origin, moment.best_origin) == ("slow_update_momentum", "step_0001")


def test_a_change_by_hand_is_told_from_a_new_measurement() -> None:
    again = last(START, BEST, entry("measure", 1, "measure", 0.6, 0.6, "b"))
    by_hand = last(START, BEST, entry("measure", 1, "measure", 0.3, 0.5, "c"))
    assert (again.current_origin, again.current_score) == ("step_0001", 0.6)
    assert (by_hand.current_origin, by_hand.best_origin) == ("edited_by_hand", "step_0001")


def test_a_promoted_skill_is_the_best_one() -> None:
    accepted = entry("step", 2, "accept", 0.5, 0.5, "c")
    moment = last(START, BEST, accepted, entry("finish", 2, "promote", 0.5, 0.5, "c"))
    assert moment.best_origin == "step_0002"
