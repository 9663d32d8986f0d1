from __future__ import annotations

import json

from skillopt_ci.report.terminal import as_values, estimate_text, remarks
from skillopt_ci.rollout.metrics import estimate, summarise
from skillopt_ci.rollout.types import Limit, Rollout, Status


def attempt(
    task: str,
    hard: float = 0.0,
    status: Status = Status.SCORED,
    reason: str = "",
    limit: Limit | None = None,
) -> Rollout:
    return Rollout(task, status, hard, hard, reason, "", (), limit=limit)


MIXED = [
    attempt("a", 1),
    attempt("a", 0, Status.LIMIT, limit=Limit.STEPS),
    attempt("b", 0, Status.ERROR, "no route"),
    attempt("b", 0, Status.ERROR, "no route"),
    attempt("c", 1),
    attempt("c", 0, Status.GRADER_ERROR, "no verdict"),
]


def test_a_mean_is_told_with_what_is_known_of_it() -> None:
    assert estimate_text(estimate([1, 0], shares=True)) == "0.500 [0.09, 0.91] n=2"
    assert estimate_text(estimate([1.0])) == "1.000 n=1"
    assert estimate_text(estimate([])) == "– n=0"
    assert estimate_text(estimate([0, 1, 1], ["x", "x", "y"])).endswith(" n=3 in 2 clusters")


def test_everything_worth_knowing_is_remarked() -> None:
    assert list(remarks(summarise(MIXED))) == [
        (
            "incomplete: 3 attempts of 6 not measured, and left out; "
            "counted as failures: 0.333 (soft 0.333)"
        ),
        "  2 × error: no route",
        "  1 × grader_error: no verdict",
        "never measured: b",
        "ended by the limit of steps: 33%, 100% of the unsolved",
        "solved at least once (pass@k): 1: 0.750",
        "solved every time (pass^k): 1: 0.750",
    ]


def test_nothing_is_remarked_where_all_went_well() -> None:
    assert list(remarks(summarise([attempt("a", 1), attempt("b")]), all_of_them=True)) == []


def test_several_attempts_are_told_by_k() -> None:
    found = list(
        remarks(summarise([attempt("a", 1), attempt("a"), attempt("b", 1), attempt("b", 1)]))
    )
    assert found == [
        "solved at least once (pass@k): 1: 0.750, 2: 1.000",
        "solved every time (pass^k): 1: 0.750, 2: 0.500",
    ]


def test_values_are_strict_json() -> None:
    found = json.loads(json.dumps(as_values(summarise(MIXED)), allow_nan=False))
    assert found["error_table"][0] == {"status": "error", "reason": "no route", "count": 2}
    assert found["limits"] == {"steps": {"of_all": 1 / 3, "of_unsolved": 1.0}}
    assert found["hard_estimate"]["tasks"] == 2
    assert json.loads(json.dumps(as_values(summarise([])), allow_nan=False))["complete"] is True
