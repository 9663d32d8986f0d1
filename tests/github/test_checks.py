from dataclasses import replace

import pytest
from github_server.scene import Scene

from skillopt_ci.errors import LostRace
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import Refused
from skillopt_ci.github.types import NOTHING_TO_DO, Annotation, Conclusion, WantedCheck


def wanted(scene: Scene, annotations: int = 0, conclusion: Conclusion | None = None) -> WantedCheck:
    notes = tuple(
        Annotation("tasks/train.jsonl", number + 1, number + 1, "warning", f"task {number}", "t")
        for number in range(annotations)
    )
    head = scene.hub.bare.tip("skillopt/demo") or scene.step()
    return WantedCheck("skillopt", head, "0.1 → 0.9", "Summary", conclusion, notes, "http://x/1")


def test_it_is_in_progress_and_then_concluded_once(scene, client):
    keep_check(client, wanted(scene))
    keep_check(client, wanted(scene, 3, "success"))
    assert "PATCH /check-runs/{check_run_id}" in scene.writes()
    keep_check(client, wanted(scene, 3, "success"))
    assert scene.writes() == []
    for late in (wanted(scene), wanted(scene, 0, "failure")):
        with pytest.raises(LostRace, match="stays as it is: success"):
            keep_check(client, replace(late, yields=True))
    assert [run["conclusion"] for run in scene.hub.checks.values()] == ["success"]
    keep_check(client, wanted(scene))
    assert len(scene.hub.checks) == 2


@pytest.mark.parametrize(
    ("ended", "title"),
    [("success", NOTHING_TO_DO), ("cancelled", ""), ("neutral", "Inconclusive"),
     ("timed_out", "Waiting")],  # GitHub says `stale`, which its description leaves out
)  # fmt: skip
def test_what_needed_no_evaluation_or_had_none_may_wait_for_one_later(scene, client, ended, title):
    keep_check(client, replace(wanted(scene, 0, ended), title=title))
    keep_check(client, replace(wanted(scene), yields=True))
    assert [run["status"] for run in scene.hub.checks.values()] == ["completed", "in_progress"]


def test_annotations_are_added_once_even_if_an_answer_is_lost_or_the_title_cut(scene, client):
    scene.hub.fail("POST /check-runs", 500, after=True)
    for count in (2, 50, 50):
        scene.writes()
        keep_check(client, replace(wanted(scene, count, "failure"), title="t" * 500))
    (run,) = scene.hub.checks.values()
    assert (scene.writes(), len(run["output"]["title"])) == ([], 255)
    assert [each["message"] for each in run["annotations"]] == [f"task {n}" for n in range(50)]


def test_the_check_of_another_app_is_not_touched(scene, client):
    keep_check(client, wanted(scene))
    next(iter(scene.hub.checks.values()))["app"] = "elsewhere"
    keep_check(client, wanted(scene))
    assert len(scene.hub.checks) == 2


def test_a_persons_token_is_told_which_ones_can_post_checks(scene):
    with pytest.raises(Refused, match="use a job's or an app's"):
        keep_check(scene.client("pat"), wanted(scene))
