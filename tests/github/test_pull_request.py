from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from github_server import pulls
from github_server.scene import SKILL, WANTED, Scene

from skillopt_ci.github.client import NotFound, PermissionMissing, Refused
from skillopt_ci.github.github import GitHubForge
from skillopt_ci.github.types import Change

READY = replace(WANTED, draft=False)


def writes(scene: Scene) -> list[str]:
    return [each for each in scene.hub.requests if not each.startswith("GET")]


def test_the_first_commit_opens_one(scene: Scene, forge: GitHubForge) -> None:
    head = scene.step()
    kept = forge.keep_pull_request(WANTED)
    assert kept.change == Change.CREATED
    assert kept.pull_request == forge.pull_request(1)
    assert kept.pull_request.head_sha == head
    assert (kept.pull_request.draft, kept.pull_request.title) == (True, "Train demo")
    assert not kept.pull_request.from_fork


def test_nothing_is_written_that_is_there(scene: Scene, forge: GitHubForge) -> None:
    wanted = replace(WANTED, labels=("skillopt",), body="One\nTwo\n")
    scene.step()
    forge.keep_pull_request(wanted)
    scene.hub.pulls[1]["body"] = "One\r\nTwo"  # as GitHub's own editor leaves it
    before = writes(scene)
    assert forge.keep_pull_request(wanted).change == Change.UNCHANGED
    assert writes(scene) == before


def test_title_and_body_are_brought_up_to_date(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    kept = forge.keep_pull_request(replace(WANTED, title="0.1 → 0.9", body="New"))
    assert kept.change == Change.UPDATED
    assert (scene.hub.pulls[1]["title"], scene.hub.pulls[1]["body"]) == ("0.1 → 0.9", "New")


def test_missing_labels_are_added_and_others_stay(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.pulls[1]["labels"] = ["urgent", "skillopt"]
    kept = forge.keep_pull_request(replace(WANTED, labels=("skillopt", "improved")))
    assert scene.hub.pulls[1]["labels"] == ["urgent", "skillopt", "improved"]
    assert kept.pull_request is not None
    assert kept.pull_request.labels == ("urgent", "skillopt", "improved")


def test_a_draft_becomes_ready_and_stays_it(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    assert forge.keep_pull_request(READY).change == Change.UPDATED
    assert scene.hub.pulls[1]["draft"] is False
    assert forge.keep_pull_request(WANTED).change == Change.UNCHANGED
    assert scene.hub.pulls[1]["draft"] is False


def test_what_it_can_do_without_becomes_a_note(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    refused = "Resource not accessible by integration"
    scene.hub.fail("POST /graphql", 403, refused)
    scene.hub.fail("POST /issues/{issue_number}/labels", 403, refused)
    kept = forge.keep_pull_request(replace(READY, labels=("skillopt",)))
    assert [note.count("pull-requests: write") for note in kept.notes] == [1, 1]
    assert kept.change == Change.UNCHANGED


def test_one_that_a_person_closed_is_left_alone(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.pulls[1]["state"] = "closed"
    scene.hub.event(1, "closed")
    scene.step("more\n")
    kept = forge.keep_pull_request(READY)
    assert (kept.change, len(scene.hub.pulls)) == (Change.DECLINED, 1)
    assert "#1 was closed without a merge" in kept.notes[0]
    assert kept.pull_request is not None
    assert not kept.pull_request.open


def test_one_that_was_opened_again_goes_on(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.pulls[1]["state"] = "closed"
    forge.keep_pull_request(WANTED)
    scene.hub.pulls[1]["state"] = "open"
    assert forge.keep_pull_request(replace(WANTED, title="On")).change == Change.UPDATED


def test_a_branch_that_was_deleted_gets_a_new_one(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.bare.git("update-ref", "-d", "refs/heads/skillopt/demo")
    assert not forge.pull_request(1).open
    scene.step("from the start\n")
    kept = forge.keep_pull_request(WANTED)
    assert kept.change == Change.CREATED
    assert kept.pull_request is not None
    assert kept.pull_request.number == 2


def test_deleting_and_restoring_the_branch_is_still_a_no(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    tip = str(scene.hub.bare.tip("skillopt/demo"))
    scene.hub.bare.git("update-ref", "-d", "refs/heads/skillopt/demo")
    forge.pull_request(1)
    scene.hub.bare.git("update-ref", "refs/heads/skillopt/demo", tip)
    scene.hub.event(1, "head_ref_restored")
    assert forge.keep_pull_request(WANTED).change == Change.DECLINED


def test_after_a_merge_the_next_step_opens_another(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.bare.git("update-ref", "refs/heads/main", str(scene.hub.bare.tip("skillopt/demo")))
    assert forge.pull_request(1).merged
    assert forge.keep_pull_request(WANTED).change == Change.NOTHING
    scene.step("next\n")
    kept = forge.keep_pull_request(WANTED)
    assert kept.pull_request is not None
    assert (kept.change, kept.pull_request.number) == (Change.CREATED, 2)


def test_a_fork_with_a_branch_of_that_name_is_not_ours(scene: Scene, forge: GitHubForge) -> None:
    head = scene.step()
    pulls.add(scene.hub, "eve", head, head="skillopt/demo", base="main", head_repo="octo/fork")
    kept = forge.keep_pull_request(WANTED)
    assert kept.pull_request is not None
    assert (kept.pull_request.number, kept.pull_request.author) == (2, "github-actions[bot]")
    assert forge.pull_request(1).from_fork


def test_one_whose_fork_is_gone_can_be_read(scene: Scene, forge: GitHubForge) -> None:
    head = scene.step()
    pulls.add(scene.hub, "eve", head, head="x", base="main", head_repo=None)
    assert forge.pull_request(1).head_repository is None


def test_without_draft_pull_requests_it_opens_a_ready_one(scene: Scene, forge: GitHubForge) -> None:
    scene.hub.drafts = False
    scene.step()
    kept = forge.keep_pull_request(WANTED)
    assert kept.change == Change.CREATED
    assert "no draft pull requests" in kept.notes[0]


def test_a_lost_answer_does_not_open_two(scene: Scene, forge: GitHubForge) -> None:
    scene.step()
    scene.hub.fail("POST /pulls", 502, after=True)
    kept = forge.keep_pull_request(WANTED)
    assert kept.pull_request is not None
    assert (kept.pull_request.number, len(scene.hub.pulls)) == (1, 1)


def test_jobs_at_the_same_time_open_one(scene: Scene) -> None:
    scene.step()
    with ThreadPoolExecutor(6) as pool:
        kept = list(pool.map(lambda _: scene.forge().keep_pull_request(WANTED), range(6)))
    assert len(scene.hub.pulls) == 1
    assert [each.change for each in kept].count(Change.CREATED) == 1


def test_the_setting_that_forbids_it_is_named(scene: Scene, forge: GitHubForge) -> None:
    scene.hub.actions_may_open = False
    scene.step()
    with pytest.raises(PermissionMissing, match="Allow GitHub Actions to create and approve"):
        forge.keep_pull_request(WANTED)


def test_the_missing_permission_is_named(scene: Scene, forge: GitHubForge) -> None:
    scene.step()
    scene.hub.fail("POST /pulls", 403, "Resource not accessible by integration")
    with pytest.raises(PermissionMissing, match="Grant `pull-requests: write`") as caught:
        forge.keep_pull_request(WANTED)
    assert caught.value.permission == "pull-requests: write"


def test_a_branch_that_is_not_there_is_named_in_the_refusal(forge: GitHubForge) -> None:
    with pytest.raises(Refused, match="head invalid"):
        forge.keep_pull_request(WANTED)


def test_a_number_that_does_not_exist_is_not_found(forge: GitHubForge) -> None:
    with pytest.raises(NotFound, match="#7"):
        forge.pull_request(7)


def test_texts_are_cut_to_what_github_takes(scene: Scene, forge: GitHubForge) -> None:
    scene.step()
    forge.keep_pull_request(replace(WANTED, title="t" * 999, body="line\n" * 20_000))
    assert len(scene.hub.pulls[1]["title"]) == 256
    assert len(scene.hub.pulls[1]["body"]) <= 65_536


def test_one_that_was_retargeted_is_kept_where_it_is(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.bare.save("release", SKILL, "# Other\n")
    scene.hub.pulls[1]["base"] = "release"
    assert forge.keep_pull_request(replace(WANTED, title="On")).change == Change.UPDATED
    assert scene.hub.pulls[1]["base"] == "release"


def test_the_spelling_of_the_repository_does_not_matter(scene: Scene) -> None:
    scene.pull()
    client = replace(scene.client(), name="OCTO/Skills")
    assert GitHubForge(client).keep_pull_request(WANTED).change == Change.UNCHANGED
