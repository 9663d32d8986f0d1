import pytest
from github_server.scene import SKILL, Scene

from skillopt_ci.github.github import GitHubForge
from skillopt_ci.github.types import Merging, WantedCheck


@pytest.fixture
def head(scene: Scene) -> str:
    scene.pull()
    scene.hub.pulls[1]["draft"] = False
    return str(scene.hub.bare.tip("skillopt/demo"))


def test_github_merges_once_the_required_check_is_there(
    scene: Scene, forge: GitHubForge, head: str
) -> None:
    scene.hub.required_check = "skillopt"
    assert forge.merge(1, head).merging == Merging.SCHEDULED
    assert forge.merge(1, head).merging == Merging.SCHEDULED
    assert forge.pull_request(1).open
    forge.keep_check(WantedCheck("skillopt", head, "Fine", "Fine", "success"))
    assert forge.pull_request(1).merged


def test_with_nothing_to_wait_for_it_is_merged_at_once(
    scene: Scene, forge: GitHubForge, head: str
) -> None:
    assert forge.merge(1, head, title="Take in the skill").merging == Merging.MERGED
    assert scene.hub.bare.git("log", "-1", "--format=%s", "main") == "Take in the skill"
    assert forge.merge(1, head).merging == Merging.MERGED


def test_it_waits_until_github_knows(scene: Scene, forge: GitHubForge, head: str) -> None:
    scene.hub.looks_until_mergeable = 2
    assert forge.merge(1, head).merging == Merging.MERGED
    assert scene.waits == [2.0, 2.0]


def test_it_does_not_wait_for_ever(scene: Scene, forge: GitHubForge, head: str) -> None:
    scene.hub.looks_until_mergeable = 99
    assert "not found out yet" in forge.merge(1, head).note


def test_protection_is_never_bypassed(scene: Scene, head: str) -> None:
    scene.hub.auto_merge, scene.hub.required_check = False, "skillopt"
    outcome = scene.forge("pat").merge(1, head)
    assert outcome.merging == Merging.WITHHELD
    assert "protects base" in outcome.note
    assert "PUT /pulls/{pull_number}/merge" not in scene.hub.requests


def test_a_conflict_withholds_it(scene: Scene, forge: GitHubForge, head: str) -> None:
    scene.hub.auto_merge = False
    scene.hub.bare.save("main", SKILL, "# Changed by a person\n")
    assert "conflicts" in forge.merge(1, head).note


def test_a_branch_that_moved_on_withholds_it(scene: Scene, forge: GitHubForge, head: str) -> None:
    scene.step("later\n")
    assert "moved on" in forge.merge(1, head).note


@pytest.mark.parametrize(
    ("change", "why"), [({"draft": True}, "draft"), ({"state": "closed"}, "closed")]
)
def test_drafts_and_closed_ones_are_withheld(
    scene: Scene, forge: GitHubForge, head: str, change: dict[str, object], why: str
) -> None:
    scene.hub.pulls[1] |= change
    outcome = forge.merge(1, head)
    assert (outcome.merging, why in outcome.note) == (Merging.WITHHELD, True)


def test_a_missing_permission_withholds_it_and_is_named(
    scene: Scene, forge: GitHubForge, head: str
) -> None:
    scene.hub.fail("POST /graphql", 403, "Resource not accessible by integration")
    assert "contents: write" in forge.merge(1, head).note


def test_a_lost_answer_to_a_merge_is_looked_after(
    scene: Scene, forge: GitHubForge, head: str
) -> None:
    scene.hub.fail("PUT /pulls/{pull_number}/merge", 502, after=True)
    assert forge.merge(1, head).merging == Merging.MERGED
