from concurrent.futures import ThreadPoolExecutor

import pytest
from github_server.scene import Scene
from github_server.state import ACTIONS

from skillopt_ci.github.client import AnswerLost, ConversationLocked, PermissionMissing
from skillopt_ci.github.github import GitHubForge
from skillopt_ci.github.types import Change, CommentRef

MARKER = "<!-- skillopt-ci:v1 key=demo -->"
BODY = f"{MARKER}\nStep 1"
CREATE = "POST /issues/{issue_number}/comments"


def test_it_is_posted_once_and_then_edited(scene: Scene, forge: GitHubForge) -> None:
    number = scene.pull()
    first = forge.keep_comment(number, BODY)
    second = forge.keep_comment(number, f"{MARKER}\nStep 2")
    assert (first.change, second.change) == (Change.CREATED, Change.UPDATED)
    assert first.id == second.id
    assert scene.hub.own_comments() == [f"{MARKER}\nStep 2"]


def test_nothing_is_written_if_it_says_that_already(scene: Scene, forge: GitHubForge) -> None:
    forge.keep_comment(scene.pull(), BODY)
    scene.hub.requests.clear()
    assert forge.keep_comment(1, BODY).change == Change.UNCHANGED
    assert all(request.startswith("GET") for request in scene.hub.requests)


def test_each_marker_has_a_comment_of_its_own(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    for step in (1, 2, 1):
        forge.keep_comment(1, f"<!-- skillopt-ci:v1 key=demo/{step} -->\nStep")
    assert len(scene.hub.own_comments()) == 2


def test_it_is_found_among_hundreds(scene: Scene, forge: GitHubForge) -> None:
    number = scene.pull()
    for count in range(250):
        scene.hub.say("ada", f"comment {count}")
    forge.keep_comment(number, BODY)
    for count in range(120):
        scene.hub.say("ada", f"more {count}")
    assert forge.keep_comment(number, f"{MARKER}\nStep 2").change == Change.UPDATED
    assert len(scene.hub.own_comments()) == 1


def test_somebody_who_forges_the_marker_is_not_edited(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.say("eve", f"{MARKER}\nAll is well")
    assert forge.keep_comment(1, BODY).change == Change.CREATED
    assert scene.hub.own_comments("eve") == [f"{MARKER}\nAll is well"]


def test_a_marker_that_is_only_quoted_is_not_one(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.say(ACTIONS, f"> {MARKER}\nquoted")
    assert forge.keep_comment(1, BODY).change == Change.CREATED


def test_one_that_a_person_deleted_comes_again_with_the_next_step(
    scene: Scene, forge: GitHubForge
) -> None:
    forge.keep_comment(scene.pull(), BODY)
    scene.hub.comments.clear()
    assert forge.keep_comment(1, BODY).change == Change.CREATED


def test_of_duplicates_the_oldest_stays(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    oldest = scene.hub.say(ACTIONS, BODY)
    scene.hub.say(ACTIONS, BODY)
    assert forge.keep_comment(1, f"{MARKER}\nStep 2").id == oldest
    assert scene.hub.own_comments() == [f"{MARKER}\nStep 2"]


def test_a_duplicate_that_is_gone_already_is_no_trouble(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    for _ in range(2):
        scene.hub.say(ACTIONS, BODY)
    scene.hub.fail("DELETE /issues/comments/{comment_id}", 404, "Not Found")
    assert forge.keep_comment(1, BODY).change == Change.UNCHANGED


def test_jobs_at_the_same_time_leave_one(scene: Scene) -> None:
    number = scene.pull()

    def job(step: int) -> None:
        scene.forge().keep_comment(number, f"{MARKER}\nStep {step}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(job, range(6)))
    scene.forge().keep_comment(number, f"{MARKER}\nlast")
    assert scene.hub.own_comments() == [f"{MARKER}\nlast"]


@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_does_not_post_twice(scene: Scene, forge: GitHubForge, after: bool) -> None:
    scene.pull()
    scene.hub.fail(CREATE, 502, after=after)
    assert forge.keep_comment(1, BODY).change == Change.CREATED
    assert scene.hub.own_comments() == [BODY]


def test_a_server_that_stays_broken_is_given_up(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.fail(CREATE, 503, times=3)
    with pytest.raises(AnswerLost, match="503"):
        forge.keep_comment(1, BODY)


def test_an_edit_is_retried(scene: Scene, forge: GitHubForge) -> None:
    forge.keep_comment(scene.pull(), BODY)
    scene.hub.fail("PATCH /issues/comments/{comment_id}", 502, times=2)
    assert forge.keep_comment(1, f"{MARKER}\nStep 2").change == Change.UPDATED
    assert scene.waits == [2.0]


def test_a_locked_conversation_is_told_apart(scene: Scene, forge: GitHubForge) -> None:
    number = scene.pull()
    scene.hub.pulls[number]["locked"] = True
    with pytest.raises(ConversationLocked, match="Unlock"):
        forge.keep_comment(number, BODY)
    assert forge.pull_request(number).locked


def test_the_missing_permission_is_named(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    scene.hub.fail(CREATE, 403, "Resource not accessible by integration")
    with pytest.raises(PermissionMissing, match="Grant `pull-requests: write`"):
        forge.keep_comment(1, BODY)


def test_a_body_that_is_too_long_is_cut(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    body = f"{MARKER}\n" + "word 🙂\n" * 12_000
    assert forge.keep_comment(1, body).change == Change.CREATED
    assert forge.keep_comment(1, body).change == Change.UNCHANGED
    assert "(cut here" in scene.hub.own_comments()[0]


def test_a_body_without_a_marker_is_a_mistake(forge: GitHubForge) -> None:
    with pytest.raises(ValueError, match="hidden marker"):
        forge.keep_comment(1, "Hello")


def test_a_reaction_is_put_once(scene: Scene, forge: GitHubForge) -> None:
    scene.pull()
    key, line = scene.hub.say("ada", "/skillopt step"), scene.hub.review("ada", "x", "s.md")
    for ref in (CommentRef("issue", key), CommentRef("issue", key), CommentRef("review", line)):
        forge.react(ref, "eyes")
    assert scene.hub.reactions == [(key, ACTIONS, "eyes"), (line, ACTIONS, "eyes")]
