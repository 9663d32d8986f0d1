from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from github_server import pulls
from github_server.scene import SKILL, WANTED, Scene

from skillopt_ci.github import pull_requests
from skillopt_ci.github.checks import keep_check
from skillopt_ci.github.client import NotFound, Refused, Unavailable
from skillopt_ci.github.pull_requests import (
    changed_paths,
    file_at,
    get_pull_request,
    keep_pull_request,
    merge_pull_request,
    why_paused,
)
from skillopt_ci.github.types import KeptPullRequest, WantedCheck

READY = replace(WANTED, draft=False)


def test_the_first_commit_opens_one(scene, client):
    head, kept = scene.step(), keep_pull_request(client, WANTED)
    pull = get_pull_request(client, 1)
    assert (kept.number, pull.head.sha) == (1, head)
    assert (pull.draft, pull.title) == (True, "Train demo")


def test_nothing_is_written_that_is_there(scene, client):
    wanted = replace(WANTED, labels=("bug",), body="One\nTwo\n")
    scene.step()
    keep_pull_request(client, wanted)
    scene.hub.pulls[1]["body"] = "One\r\nTwo"  # as GitHub's own editor leaves it
    scene.writes()
    assert keep_pull_request(client, wanted) == KeptPullRequest(1)
    assert scene.writes() == []


def test_title_body_and_labels_are_brought_up_to_date_and_other_labels_stay(scene, client):
    scene.pull()
    scene.hub.pulls[1]["labels"] = ["urgent", "skillopt"]
    wanted = replace(WANTED, title="0.1 → 0.9", body="New", labels=("skillopt", "improved"))
    (note,) = keep_pull_request(client, wanted).notes
    assert "gh label create" in note  # a job may label, but create no label
    scene.hub.pulls[1]["title"] = "Old"
    scene.hub.labels |= {"skillopt", "improved"}
    assert keep_pull_request(client, wanted).notes == ()
    assert (scene.hub.pulls[1]["title"], scene.hub.pulls[1]["body"]) == ("0.1 → 0.9", "New")
    assert scene.hub.pulls[1]["labels"] == ["urgent", "skillopt", "improved"]


def test_a_draft_becomes_ready_and_stays_it_unless_a_person_converts_it(scene, client):
    scene.pull()
    keep_pull_request(client, READY)
    assert scene.hub.pulls[1]["draft"] is False
    keep_pull_request(client, WANTED)
    assert scene.hub.pulls[1]["draft"] is False
    scene.hub.convert_to_draft(1)
    keep_pull_request(client, READY)
    assert scene.hub.pulls[1]["draft"] is True


def test_what_it_can_do_without_becomes_a_note(scene, client):
    scene.pull()
    refused = "Resource not accessible by integration"
    scene.hub.fail("POST /graphql", 403, refused)
    scene.hub.fail("POST /issues/{issue_number}/labels", 403, refused)
    scene.hub.fail("PATCH /pulls/{pull_number}", 403, refused)
    kept = keep_pull_request(client, replace(READY, title="New", labels=("skillopt",)))
    assert [note.count("pull-requests: write") for note in kept.notes] == [1, 1, 1]


def test_one_that_a_person_closed_is_left_alone_until_it_is_opened_again(scene, client):
    scene.pull()
    scene.hub.pulls[1]["state"] = "closed"
    scene.hub.event(1, "closed")
    scene.step("more\n")
    kept = keep_pull_request(client, READY)
    assert (kept.declined, len(scene.hub.pulls)) == (True, 1)
    assert "#1 was closed without a merge" in kept.notes[0]
    scene.hub.pulls[1]["state"] = "open"
    assert not keep_pull_request(client, replace(WANTED, title="On")).declined
    assert scene.hub.pulls[1]["title"] == "On"


def test_a_branch_that_was_deleted_gets_a_new_one(scene, client):
    scene.pull()
    scene.hub.bare.git("update-ref", "-d", "refs/heads/skillopt/demo")
    assert get_pull_request(client, 1).state == "closed"
    scene.step("from the start\n")
    assert keep_pull_request(client, WANTED).number == 2


def test_deleting_and_restoring_the_branch_is_still_a_no(scene, client):
    scene.pull()
    tip = str(scene.hub.bare.tip("skillopt/demo"))
    scene.hub.bare.git("update-ref", "-d", "refs/heads/skillopt/demo")
    get_pull_request(client, 1)
    scene.hub.bare.git("update-ref", "refs/heads/skillopt/demo", tip)
    scene.hub.event(1, "head_ref_restored")
    assert keep_pull_request(client, WANTED).declined


def test_after_a_merge_the_next_step_opens_another(scene, client):
    scene.pull()
    scene.hub.bare.git("update-ref", "refs/heads/main", str(scene.hub.bare.tip("skillopt/demo")))
    assert get_pull_request(client, 1).merged
    assert keep_pull_request(client, WANTED) == KeptPullRequest(None)
    scene.hub.bare.git("update-ref", "-d", "refs/heads/skillopt/demo")  # as GitHub may do by itself
    assert keep_pull_request(client, WANTED) == KeptPullRequest(None)
    scene.step("next\n")
    assert keep_pull_request(client, WANTED).number == 2


@pytest.mark.parametrize("fork", ["octo/fork", None])  # None: it is gone
def test_a_fork_with_a_branch_of_that_name_is_not_ours(scene, client, fork):
    head = scene.step()
    pulls.add(scene.hub, "eve", head, head="skillopt/demo", base="main", head_repo=fork)
    assert get_pull_request(client, 1).number == 1
    assert keep_pull_request(client, WANTED).number == 2


def test_without_draft_pull_requests_it_opens_a_ready_one(scene, client):
    scene.hub.drafts = False
    scene.step()
    kept = keep_pull_request(client, WANTED)
    assert scene.hub.pulls[1]["draft"] is False
    assert "no draft pull requests" in kept.notes[0]


def test_a_lost_answer_does_not_open_two(scene, client):
    scene.step()
    scene.hub.fail("POST /pulls", 502, after=True)
    assert (keep_pull_request(client, WANTED).number, len(scene.hub.pulls)) == (1, 1)


def test_jobs_at_the_same_time_open_one(scene, monkeypatch):
    create, all_have_looked = pull_requests._create, Barrier(6, timeout=60)

    def create_late(*asked):
        all_have_looked.wait()
        return create(*asked)

    monkeypatch.setattr(pull_requests, "_create", create_late)
    scene.step()
    with ThreadPoolExecutor(6) as pool:
        kept = list(pool.map(lambda _: keep_pull_request(scene.client(), WANTED), range(6)))
    assert (len(scene.hub.pulls), {one.number for one in kept}) == (1, {1})


def test_a_branch_that_is_not_there_and_the_setting_that_forbids_it_are_named(scene, client):
    with pytest.raises(Refused, match="head invalid"):
        keep_pull_request(client, WANTED)
    scene.hub.actions_may_open = False
    scene.step()
    with pytest.raises(Refused, match="Allow GitHub Actions to create and approve"):
        keep_pull_request(client, WANTED)
    with pytest.raises(NotFound, match="#7"):
        get_pull_request(client, 7)


def test_one_that_was_retargeted_is_kept_where_it_is_and_told(scene, client):
    scene.pull()
    scene.hub.bare.save("release", SKILL, "# Other\n")
    scene.hub.pulls[1]["base"] = "release"
    wanted = replace(WANTED, title="On")
    for _ in range(2):
        kept = keep_pull_request(client, wanted)
        assert "#1 asks to merge into release, but training follows main" in kept.notes[0]
    assert scene.hub.pulls[1]["base"] == "release"


def test_the_spelling_of_the_repository_does_not_matter(scene):
    scene.pull()
    client = replace(scene.client(), name="OCTO/Skills")
    assert keep_pull_request(client, WANTED) == KeptPullRequest(1)


@pytest.fixture
def head(scene: Scene) -> str:
    scene.pull()
    scene.hub.pulls[1]["draft"] = False
    return str(scene.hub.bare.tip("skillopt/demo"))


def test_github_merges_once_the_required_check_is_there(scene, client, head):
    scene.hub.required_check = "skillopt"
    assert not merge_pull_request(client, 1, head)
    assert not merge_pull_request(client, 1, head)
    assert get_pull_request(client, 1).state == "open"
    keep_check(client, WantedCheck("skillopt", head, "Fine", "Fine", "success"))
    assert get_pull_request(client, 1).merged


def test_with_nothing_to_wait_for_it_is_merged_at_once(scene, client, head):
    assert merge_pull_request(client, 1, head, title="Take in the skill")
    assert scene.hub.bare.git("log", "-1", "--format=%s", "main") == "Take in the skill"
    assert merge_pull_request(client, 1, head)


@pytest.mark.parametrize("auto_merge", [True, False])
def test_checks_that_nobody_requires_are_not_waited_for(scene, client, head, auto_merge):
    scene.hub.auto_merge = auto_merge
    keep_check(client, WantedCheck("skillopt/confirmed", head, "Not yet", "Not yet"))
    assert merge_pull_request(client, 1, head)


def test_it_waits_until_github_knows_but_not_for_ever(scene, client, head):
    scene.hub.looks_until_mergeable = 99
    with pytest.raises(Refused, match="still checking"):
        merge_pull_request(client, 1, head)
    scene.waits.clear()
    scene.hub.looks_until_mergeable = scene.hub.pulls[1]["looks"] + 2
    assert merge_pull_request(client, 1, head)
    assert scene.waits == [2.0, 2.0]


def test_protection_is_never_bypassed(scene, head):
    scene.hub.auto_merge, scene.hub.required_check = False, "skillopt"
    with pytest.raises(Refused, match="branch protection"):
        merge_pull_request(scene.client("pat"), 1, head)
    assert "PUT /pulls/{pull_number}/merge" not in scene.hub.requests


def test_a_conflict_or_a_branch_that_moved_on_withholds_it(scene, client, head):
    scene.hub.auto_merge = False
    scene.hub.bare.save("main", SKILL, "# Changed by a person\n")
    with pytest.raises(Refused, match="conflicts"):
        merge_pull_request(client, 1, head)
    scene.step("later\n")
    with pytest.raises(Refused, match="moved on; look at what is new"):
        merge_pull_request(client, 1, head)


@pytest.mark.parametrize("change", [{"draft": True}, {"state": "closed"}])
def test_drafts_and_closed_ones_are_withheld(scene, client, head, change):
    scene.hub.pulls[1] |= change
    with pytest.raises(Refused, match="it is a draft" if "draft" in change else "it is closed"):
        merge_pull_request(client, 1, head)


def test_training_goes_on_while_only_it_can_conclude_what_a_merge_waits_for(scene, client, head):
    scene.hub.required_check = "skillopt/confirmed"
    assert not merge_pull_request(client, 1, head)
    assert "disable its auto-merge" in why_paused(client, "skillopt/demo", "main")
    for conclusion in (None, "failure"):
        keep_check(client, WantedCheck("skillopt/confirmed", head, "No", "No", conclusion))
        assert why_paused(client, "skillopt/demo", "main") == ""
    # `plan` and `rollout` ask too, with permissions to read
    scene.hub.permissions = dict.fromkeys(scene.hub.permissions, "read")
    assert why_paused(client, "skillopt/demo", "main") == ""
    scene.hub.permissions["checks"] = "none"
    assert "Grant `checks: write`" in why_paused(client, "skillopt/demo", "main")
    scene.hub.permissions["checks"], scene.hub.required_check = "read", "build"
    assert why_paused(client, "skillopt/demo", "main").endswith("run `comment`.")


def test_what_is_in_a_merge_queue_is_to_be_merged(scene, client, head):
    scene.hub.pulls[1]["queued"] = True
    assert not merge_pull_request(client, 1, head)
    assert "is in the merge queue" in why_paused(client, "skillopt/demo", "main")
    scene.hub.fail("POST /graphql", 502, times=2)
    assert "is in the merge queue" in why_paused(client, "skillopt/demo", "main")
    scene.hub.pulls[1]["queued"] = False
    scene.hub.fail("POST /graphql", 200, content=b'{"errors": [{"message": "no such field"}]}')
    assert why_paused(client, "skillopt/demo", "main") == ""
    scene.hub.fail("GET /pulls/{pull_number}", 502, times=6)
    with pytest.raises(Unavailable, match="could not show pull request #1: GitHub answered 502"):
        why_paused(client, "skillopt/demo", "main")


def test_a_missing_permission_or_a_stack_withholds_it_and_is_named(scene, client, head):
    scene.hub.permissions["contents"] = "read"
    with pytest.raises(Refused, match="contents: write"):
        merge_pull_request(client, 1, head)
    scene.hub.permissions["contents"] = "write"
    scene.hub.fail("PUT /pulls/{pull_number}/merge", 403, "Merging stacked PRs is not supported.")
    with pytest.raises(Refused, match="take it out of its stack"):
        merge_pull_request(client, 1, head)
    scene.hub.fail("PUT /pulls/{pull_number}/merge", 502, after=True)
    assert merge_pull_request(client, 1, head)


def test_changed_files_are_listed_as_far_as_github_lists_them(scene, client):
    scene.pull()
    head = scene.hub.bare.save("skillopt/demo", "new.md", "x\n")
    scene.hub.pulls[1]["changed_files"] = 2
    assert changed_paths(client, 1, head) == {"new.md", SKILL}
    scene.hub.fail("GET /pulls/{pull_number}/files", 422, "Sorry, this diff is taking too long")
    assert changed_paths(client, 1, head) is None
    scene.hub.pulls[1]["changed_files"] = 3001
    assert changed_paths(client, 1, head) is None


def test_a_file_is_read_whole_and_as_data_also_from_a_fork(scene, client):
    head = scene.hub.bare.save("theirs", SKILL, "naïve\r\n")
    pulls.add(scene.hub, "eve", head, head="main", base="main", head_repo="eve/skills")
    assert file_at(client, SKILL, get_pull_request(client, 1).head.sha) == "naïve\r\n".encode()
    assert file_at(client, SKILL, scene.step("0123456789" * 150_000)) == b"0123456789" * 150_000
    assert file_at(client, "skills", "main") is None
    assert file_at(client, "skills/none.md", "main") is None
