import math

import pytest

from bench.figures import aligned, first_reach, summary, table
from bench.outcome import Outcome, Piece, Timed, pieces, rounds
from bench.wall_time import compared


def outcome(true: float, *, system: str = "ours", seconds: float = 1.0, **more: object) -> Outcome:
    given: dict[str, object] = {
        "system": system,
        "seed": 0,
        "start": 0.3,
        "true": true,
        "accepted": 4,
        "worse_accepted": 1,
        "rejected": 5,
        "better_rejected": 2,
        "ungated": 0,
        "worse_ungated": 0,
        "calls": {
            "target/train": 10,
            "target/selection": 20,
            "optimizer/merge": 2,
            "target/test": 8,
        },
        "tokens": {"target/train": 100},
        "seconds": seconds,
        "curve": ((10, 0.3), (20, 0.5), (30, 0.45)),
    }
    return Outcome(**{**given, **more})


def test_a_score_is_reached_when_it_first_stands():
    curve = ((10, 0.3), (20, 0.5), (30, 0.45))
    assert first_reach(curve, 0.3) == 10
    assert first_reach(curve, 0.45) == 20
    assert first_reach(curve, 0.6) == math.inf


def test_a_system_is_summed_up_over_its_seeds():
    found = summary([outcome(0.5), outcome(0.7)], (0.5, 40))
    assert (found.runs, found.true, found.lowest, found.highest) == (2, 0.6, 0.5, 0.7)
    assert found.margin == pytest.approx(0.2)
    assert (found.false_accepts, found.false_rejects) == (0.25, 0.4)
    assert (found.train, found.selection, found.optimizer, found.calls) == (10, 20, 2, 32)
    assert found.share == 0.5
    assert (found.gain, found.calls_ratio) == (pytest.approx(0.1), 0.8)


def test_a_rival_that_most_runs_never_reach_makes_an_infinite_share():
    never = {"curve": ((10, 0.3),)}
    assert summary([outcome(0.5), outcome(0.3, **never)], (0.5, 40)).share == math.inf
    alone = summary([outcome(0.5)], None)
    assert all(map(math.isnan, (alone.share, alone.gain, alone.calls_ratio)))


def test_without_verdicts_there_are_no_false_ones():
    none = {"accepted": 0, "worse_accepted": 0, "rejected": 0, "better_rejected": 0}
    found = summary([outcome(0.5, **none)], None)
    assert (found.false_accepts, found.false_rejects) == (0, 0)


def test_a_table_is_aligned():
    assert aligned(["a", "long"], [["xyz", 1.0], [12, math.nan]]) == (
        "  a   long\nxyz  1.000\n 12      -"
    )
    lines = table([summary([outcome(0.5)], None)]).splitlines()
    assert len(lines) == 2
    assert len(lines[0]) == len(lines[1])


@pytest.mark.parametrize(
    ("phases", "limit", "expected"),
    [
        ([], 4, 0),
        (["target/train"] * 4, 4, 1),
        (["target/train"] * 5, 4, 2),
        (["target/train"] * 4 + ["optimizer/analyst"] * 2 + ["optimizer/merge"], 4, 3),
        (["optimizer/slow_update", "optimizer/meta_skill"], 4, 1),
        (["target/train", "target/selection", "target/train"], 4, 3),
    ],
)
def test_calls_of_one_phase_make_a_round_and_phases_wait_for_each_other(phases, limit, expected):
    trace = [(phase, float(at), at + 1.0) for at, phase in enumerate(phases)]
    assert rounds(trace, limit) == expected
    assert rounds(trace[::-1], limit) == expected


def test_calls_that_overlap_do_not_wait_for_each_other():
    selection = [("target/selection", 0.0, 1.0)] * 3
    train = [("target/train", 0.5, 1.5)] * 3
    analyst = [("optimizer/analyst", 1.5, 2.5)]
    assert rounds([*selection, *train, *analyst], 4) == 3


def test_a_piece_of_work_lasts_from_the_last_verdict_to_its_own():
    trace = [
        ("target/selection", 1.0, 2.0),
        *[("target/train", 2.5, 3.5)] * 5,
        ("optimizer/analyst", 3.5, 4.5),
        *[("target/selection", 5.0, 6.0)] * 2,
        ("target/test", 6.5, 7.5),
    ]
    assert pieces(trace, 4) == [Piece(4.0, 4), Piece(1.5, 1)]
    assert pieces([], 4) == []


def test_wall_times_are_compared_with_the_rival_and_with_the_least_possible():
    theirs, mine = compared(
        0.5,
        [outcome(0.5, seconds=6.0, timed=Timed(8, (Piece(0.5, 2),)))],
        [outcome(0.5, system="skillopt", seconds=12.0, timed=Timed(10))],
    )
    assert (theirs.system, theirs.ratio, theirs.least) == ("skillopt", 1.0, 5.0)
    assert (mine.ratio, mine.calls_ratio, mine.least, mine.overhead) == (0.5, 1.0, 4.0, 1.5)
    assert (mine.step, mine.slowest) == (0.5, 0.5)
