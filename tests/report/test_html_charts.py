import re

import run_views
from hypothesis import given, settings
from hypothesis import strategies as st
from run_views import runs

from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.ledger.summary import MEASURED_ANEW
from skillopt_ci.report.html_charts import Column, curve, outcome_map


def entry(kind: str, step: int, action: str, after: float | None, sha: str = "a") -> HistoryEntry:
    facts = {"score_after": after, "skill_sha256": sha, "tasks": 20}
    return run_views.entry(step, kind=kind, action=action, **facts)


START = entry("start", 0, "start", 0.2)


def test_the_line_follows_what_was_merged_and_no_candidate_stands_on_the_ground():
    merged = entry("step", 1, "accept_new_best", 0.5, "b")
    history = [START, merged, entry("step", 2, "reject", 0.9, "b")]
    drawn = curve(history)
    ((line, _),) = drawn.stretches
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert heights[0] == heights[1] > heights[2] == heights[3] == heights[4]
    assert [mark.kind for mark in drawn.marks] == ["measured", "merged", "reverted"]
    assert drawn.marks[2].y < heights[-1]
    assert drawn.marks[1].anchor == "step-1"
    (_, mark) = curve([START, entry("step", 1, "skip_no_patches", None)]).marks
    assert (mark.kind, mark.title) == ("none", "Step 1: nothing proposed")


def test_the_line_breaks_where_the_way_of_measuring_changed():
    assert len(curve([START, entry("measure", 1, "measure", 0.7)]).stretches) == 2
    other = entry("measure", 1, "measure", 0.7, "other")
    assert len(curve([START, other]).stretches) == 1
    both = other.model_copy(update={"reason": f"by hand, and {MEASURED_ANEW}"})
    assert len(curve([START, both]).stretches) == 2


def test_the_band_is_of_the_tasks_of_the_start_or_a_merged_candidate_not_of_a_reverted_one():
    judged = entry("step", 1, "reject", 0.1).model_copy(update={"tasks": 4, "planned": 20})
    merged = entry("step", 1, "accept", 0.2).model_copy(update={"tasks": 400})
    for one, edges in ((judged, 2), (merged, 4)):
        ((_, band),) = curve([START, one]).stretches
        assert len({point.split(",")[1] for point in band.split()}) == edges


def test_a_long_run_has_smaller_marks_short_ticks_for_its_epochs_and_numbers_with_room():
    history = [START, *(entry("step", number, "reject", 0.1) for number in range(1, 201))]
    assert 10 <= len(curve(history).labels) <= 25
    short = curve([START, entry("slow_update", 1, "reject", 0.1)])
    assert (short.crowded, short.epoch_bottom) == (False, 100)
    ends = [entry("slow_update", number, "reject", 0.1) for number in range(1, 100)]
    long = curve([START, *ends])
    assert long.crowded
    assert long.epoch_bottom < 10


@settings(max_examples=15)
@given(runs())
def test_everything_is_inside_of_the_picture(run):
    drawn = curve(run.history)
    points = [pair for each in drawn.stretches for pair in " ".join(each).split()]
    places = [tuple(map(float, pair.split(","))) for pair in points]
    places += [(mark.x, mark.y) for mark in drawn.marks]
    assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in places)


def column(**tasks: tuple[float, float]) -> Column:
    return Column("", "", "merged", Measurement(hard=0, soft=0, score=0, tasks=tasks))


def test_each_cell_says_what_became_of_the_task_and_the_hardest_is_at_the_top():
    drawn = outcome_map([column(a=(1, 1), b=(0, 0)), column(a=(0, 0.5), c=(1, 1))])
    assert {row.task: row.letters for row in drawn.rows} == {"a": "sp", "b": "fu", "c": "us"}
    assert outcome_map([]).rows == ()
    columns = [column(a=(1, 1), b=(0, 0), c=(1, 1)), column(a=(0, 0), b=(0, 0), c=(1, 1))]
    drawn = outcome_map(columns)
    assert [(row.task, row.solved) for row in drawn.rows] == [("b", 0), ("a", 0.5), ("c", 1)]


def test_columns_are_named_as_far_as_there_is_room():
    few, many = (outcome_map([column(a=(1, 1))] * count) for count in (3, 200))
    assert few.every == 2
    assert many.every * many.cell >= 24
    assert 200 // many.every > 20


OUTCOMES = st.sampled_from([(0.0, 0.0), (1.0, 1.0), (0, 0.5)])


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), OUTCOMES), max_size=12))
def test_the_paths_cover_every_cell_exactly_once(measured):
    drawn = outcome_map([column(**tasks) for tasks in measured])
    cells = [
        (int(row), start)
        for path in drawn.paths.values()
        for x, row, width in re.findall(r"M(\d+) (\d+)h(\d+)", path)
        for start in range(int(x), int(x) + int(width), drawn.cell)
    ]
    assert len(cells) == len(set(cells)) == len(drawn.rows) * len(drawn.columns)


def test_a_mark_says_what_only_the_evidence_can_tell_from_noise_and_what_is_an_estimate():
    history = [START, entry("step", 1, "accept_new_best", 0.5)]
    assert "merged, new best" in curve(history).marks[1].title
    assert "new best" not in curve(history, {"step-1": "merged, within noise"}).marks[1].title
    facts = {"score_after": 0.825, "tasks": 1_600, "planned": 4_000}
    (_, mark) = curve([START, run_views.entry(7, **facts)]).marks
    assert mark.title.endswith("~0.825 on 1,600 of 4,000 tasks")
