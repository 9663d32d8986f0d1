"""Failure patterns, each told once."""

from skillopt_ci.ledger.records import PatternRecord
from skillopt_ci.report.html_data import failures


def pattern(description: str, count: int, *tasks: str) -> PatternRecord:
    return PatternRecord(description=description, count=count, task_ids=tasks)


def test_what_several_analysts_name_is_one_pattern_and_the_commonest_comes_first() -> None:
    found = failures([pattern("date", 2, "a"), pattern("tax", 2, "a", "b"), pattern("tax", 1, "c")])
    assert found == (pattern("tax", 3, "a", "b", "c"), pattern("date", 2, "a"))
