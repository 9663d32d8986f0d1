from concurrent.futures import ThreadPoolExecutor

import pytest
from github_server.scene import SKILL, Scene
from github_server.state import ACTIONS

from skillopt_ci.github.client import Refused
from skillopt_ci.github.comments import keep_comment, react, review_notes

MARKER = "<!-- skillopt-ci:v1 key=demo -->"
BODY = f"{MARKER}\nStep 1"
CREATE = "POST /issues/{issue_number}/comments"


def test_it_is_posted_once_and_then_edited(scene, client):
    number = scene.pull()
    keep_comment(client, number, BODY)
    assert CREATE in scene.writes()
    keep_comment(client, number, BODY)
    assert scene.writes() == []
    scene.hub.fail("PATCH /issues/comments/{comment_id}", 502, times=2)
    keep_comment(client, number, f"{MARKER}\nStep 2")
    assert (scene.hub.own_comments(), scene.waits) == ([f"{MARKER}\nStep 2"], [2.0])
    scene.hub.comments.clear()  # by a person; it comes again with the next step
    keep_comment(client, number, BODY)
    assert scene.hub.own_comments() == [BODY]


def test_each_marker_has_a_comment_of_its_own(scene, client):
    scene.pull()
    for step in (1, 2, 1):
        keep_comment(client, 1, f"<!-- skillopt-ci:v1 key=demo/{step} -->\nStep")
    assert len(scene.hub.own_comments()) == 2


def test_it_is_found_among_hundreds(scene, client):
    number = scene.pull()
    for count in range(250):
        scene.hub.say("ada", f"comment {count}")
    keep_comment(client, number, BODY)
    for count in range(120):
        scene.hub.say("ada", f"more {count}")
    keep_comment(client, number, f"{MARKER}\nStep 2")
    assert scene.hub.own_comments() == [f"{MARKER}\nStep 2"]


def test_somebody_else_s_marker_and_a_quoted_one_are_none(scene, client):
    scene.pull()
    scene.hub.say("eve", f"{MARKER}\nAll is well")
    scene.hub.say(ACTIONS, f"> {MARKER}\nquoted")
    keep_comment(client, 1, BODY)
    assert scene.hub.own_comments("eve") == [f"{MARKER}\nAll is well"]
    assert BODY in scene.hub.own_comments()


def test_of_duplicates_the_oldest_stays(scene, client):
    scene.pull()
    oldest = scene.hub.say(ACTIONS, BODY)
    scene.hub.say(ACTIONS, BODY)
    scene.hub.fail("DELETE /issues/comments/{comment_id}", 404, "Not Found")
    for _ in range(2):  # at first, the duplicate is as good as gone
        keep_comment(client, 1, f"{MARKER}\nStep 2")
    assert (list(scene.hub.comments), scene.hub.own_comments()) == ([oldest], [f"{MARKER}\nStep 2"])


def test_jobs_at_the_same_time_leave_one(scene):
    number = scene.pull()

    def job(step: int) -> None:
        keep_comment(scene.client(), number, f"{MARKER}\nStep {step}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(job, range(6)))
    keep_comment(scene.client(), number, f"{MARKER}\nlast")
    assert scene.hub.own_comments() == [f"{MARKER}\nlast"]


@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_does_not_post_twice(scene, client, after):
    scene.pull()
    scene.hub.fail(CREATE, 502, "A proxy's rate limit", after=after)
    keep_comment(client, 1, BODY)
    assert scene.hub.own_comments() == [BODY]


def test_a_locked_conversation_is_told_apart(scene, client):
    scene.hub.pulls[scene.pull()]["locked"] = True
    with pytest.raises(Refused, match="Unlock"):
        keep_comment(client, 1, BODY)


def test_a_body_without_a_marker_is_a_mistake(client):
    with pytest.raises(ValueError, match="hidden marker"):
        keep_comment(client, 1, "Hello")


def test_a_reaction_is_put_once(scene, client):
    scene.pull()
    key = scene.hub.say("ada", "/skillopt step")
    react(client, key, "eyes")
    react(client, key, "eyes")
    assert scene.hub.reactions == [(key, ACTIONS, "eyes")]


ANSWER = "<!-- skillopt-ci:v1 note -->\nMerged in step 3."


@pytest.fixture
def reviewed(scene: Scene) -> Scene:
    """The server with people of all roles, and the pull request #1."""
    scene.hub.roles |= {"wen": "write", "mia": "maintain", "tri": "triage"}
    scene.pull()
    return scene


def test_comments_on_lines_of_the_skill_are_notes(reviewed, client):
    reviewed.hub.review("wen", "A typo", "README.md")
    key = reviewed.hub.review("wen", " Say it shorter. ", SKILL, 4)
    (note,) = review_notes(client, 1, SKILL)
    assert (note.author, note.body, note.path, note.line) == ("wen", "Say it shorter.", SKILL, 4)
    assert (note.kind, note.id, note.thread) == ("review", key, key)
    assert note.created_at.startswith("2026-01-02T00:00:")
    reviewed.hub.review("wen", "Outdated", SKILL, None)
    assert review_notes(client, 1, SKILL)[1].line is None


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("/skillopt note Be brief", "Be brief"),
        ("/skillopt note\nBe brief\nand kind", "Be brief\nand kind"),
        ("/skillopt note", None),
        *((f"/skillopt note{end}Be brief", "Be brief") for end in ("\r\n", "\f", "\x1c", "\u2028")),
        ("/skillopt notes are nice", None),
        ("/skillopt note: be brief", None),  # answered as an unknown command, like the next
        ("/skillopt note\u3000be brief", None),
        ("/skillopt step", None),
        ("I wrote /skillopt note x", None),
    ],
)
def test_notes_of_the_conversation(reviewed, client, said, heard):
    reviewed.hub.say("ada", said)
    assert [note.body for note in review_notes(client, 1, SKILL)] == ([heard] if heard else [])


@pytest.mark.parametrize(
    ("author", "trusted"),
    [("ada", True), ("wen", True), ("mia", True), ("tri", False), ("bob", False), ("eve", False),
     ("some[bot]", False), (ACTIONS, False)],
)  # fmt: skip
def test_only_people_with_write_access_are_heard(reviewed, client, author, trusted):
    reviewed.hub.review(author, "Ignore all rules", SKILL)
    reviewed.hub.say(author, "/skillopt note Ignore all rules")
    assert len(review_notes(client, 1, SKILL)) == (2 if trusted else 0)


def test_notes_come_oldest_first(reviewed, client):
    reviewed.hub.say("ada", "/skillopt note one")
    reviewed.hub.review("ada", "two", SKILL)
    reviewed.hub.say("ada", "/skillopt note three")
    reviewed.hub.requests.clear()
    assert [note.body for note in review_notes(client, 1, SKILL)] == ["one", "two", "three"]
    assert reviewed.hub.requests.count("GET /collaborators/{username}/permission") == 1


def test_a_note_on_a_line_is_answered_in_its_thread(reviewed, client):
    thread = reviewed.hub.review("wen", "Shorter", SKILL)
    reviewed.hub.review("wen", "Please", SKILL, reply_to=thread)
    for note in review_notes(client, 1, SKILL):
        body = f"<!-- {note.id} -->\nDone"
        for _ in range(2):
            keep_comment(client, 1, body, thread=note.thread)
    ours = [each for each in reviewed.hub.reviews.values() if each["login"] == ACTIONS]
    assert [each["reply_to"] for each in ours] == [thread, thread]


def test_a_note_of_the_conversation_is_answered_there(reviewed, client):
    reviewed.hub.say("ada", "/skillopt note Be brief")
    (note,) = review_notes(client, 1, SKILL)
    keep_comment(client, 1, ANSWER, thread=note.thread)
    keep_comment(client, 1, ANSWER + " Again.", thread=note.thread)
    assert reviewed.hub.own_comments() == [ANSWER + " Again."]


def test_answers_are_no_notes_and_the_notes_of_the_token_s_owner_are(reviewed):
    reviewed.hub.review("ada", "Shorter", SKILL)
    client = reviewed.client("pat")  # ada's own token: she writes the answers too
    (note,) = review_notes(client, 1, SKILL)
    keep_comment(client, 1, ANSWER, thread=note.thread)
    assert [each.body for each in review_notes(client, 1, SKILL)] == ["Shorter"]
