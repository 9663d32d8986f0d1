"""The map of tasks and candidates."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.ledger.records import Measurement
from skillopt_ci.report.html_charts import Column, outcome_map


def column(**tasks: tuple[float, float]) -> Column:
    return Column("", "", "merged", Measurement(hard=0, soft=0, score=0, tasks=tasks))


def test_each_cell_says_what_became_of_the_task() -> None:
    drawn = outcome_map([column(a=(1, 1), b=(0, 0)), column(a=(0, 0.5), c=(1, 1))])
    assert {row.task: row.letters for row in drawn.rows} == {"a": "sp", "b": "fu", "c": "us"}


def test_the_hardest_task_is_at_the_top() -> None:
    drawn = outcome_map(
        [column(a=(1, 1), b=(0, 0), c=(1, 1)), column(a=(0, 0), b=(0, 0), c=(1, 1))]
    )
    assert [(row.task, row.solved) for row in drawn.rows] == [("b", 0), ("a", 0.5), ("c", 1)]


def test_columns_are_named_as_far_as_there_is_room() -> None:
    few = outcome_map([Column("", "", "merged", column(a=(1, 1)).measurement, "1")] * 3)
    assert [name for _, name in few.labels] == ["1", "1"]
    many = outcome_map([Column("", "", "merged", column(a=(1, 1)).measurement, "1")] * 200)
    places = [x for x, _ in many.labels]
    assert all(later - one >= 24 for one, later in pairwise(places))
    assert len(places) > 20


def test_without_measurements_there_is_nothing_to_draw() -> None:
    assert outcome_map([]).rows == ()


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcdef"), st.sampled_from([(0.0, 0.0), (1.0, 1.0), (0, 0.5)])
        ),
        max_size=12,
    )
)
def test_the_paths_cover_every_cell_exactly_once(
    measured: list[dict[str, tuple[float, float]]],
) -> None:
    drawn = outcome_map([column(**tasks) for tasks in measured])
    cells = [
        (int(row), start)
        for path in drawn.paths.values()
        for x, row, width in re.findall(r"M(\d+) (\d+)h(\d+)", path)
        for start in range(int(x), int(x) + int(width), drawn.cell)
    ]
    assert len(cells) == len(set(cells)) == len(drawn.rows) * len(drawn.columns)
