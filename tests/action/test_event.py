import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.action.event import (
    REQUESTS,
    UNKNOWN,
    Activity,
    Conclude,
    Evaluate,
    Facts,
    GitHubEvent,
    Nothing,
    Perform,
    Pull,
    Reply,
    Request,
    decide,
    read_event,
    requested,
)
from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.errors import UsageError

SIDES = {
    "head": {"sha": "h", "ref": "better", "repo": {"full_name": "octo/skills"}},
    "base": {"sha": "b", "ref": "main", "repo": {"full_name": "octo/skills"}},
}


def read(tmp_path: Path, name: str, payload: Any) -> GitHubEvent:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(payload), encoding="utf-8")
    return read_event(name, file)


def test_a_push_and_a_pull_request(tmp_path):
    event = read(tmp_path, "push", {"ref": "refs/heads/main", "deleted": False, "commits": []})
    assert event == GitHubEvent("push", ref="refs/heads/main")
    payload = {"action": "opened", "pull_request": {"number": 7, **SIDES}}
    assert read(tmp_path, "pull_request", payload).pull == Pull(7, "h", "better", from_fork=False)


@pytest.mark.parametrize("head", [{"full_name": "mallory/skills"}, None])
def test_a_head_elsewhere_or_nowhere_is_a_fork(tmp_path, head):
    sides = {**SIDES, "head": {**SIDES["head"], "repo": head}}
    pull = read(tmp_path, "pull_request", {"pull_request": {"number": 7, **sides}}).pull
    assert pull.from_fork


ISSUE = {"number": 7, "state": "open", "pull_request": {"url": "…"}}
COMMENT = {
    "action": "created",
    "issue": ISSUE,
    "comment": {"id": 11, "body": "/skillopt revert 2", "created_at": "then"},
    "sender": {"login": "ada", "type": "User"},
}


@pytest.mark.parametrize(
    "other",
    [
        {"action": "edited"},
        {"comment": {"id": 11, "body": "Well done"}},
        {"sender": {"login": "robot", "type": "Bot"}},
        {"issue": {**ISSUE, "state": "closed"}},
        {"issue": {"number": 7}},
        {"issue": None, "comment": None},
    ],
)
def test_a_person_gives_a_command_in_a_new_comment_on_an_open_pull_request(tmp_path, other):
    event = read(tmp_path, "issue_comment", COMMENT)
    assert (event.actor, event.comment) == ("ada", Request(11, 7, "revert", "then", "2"))
    assert read(tmp_path, "issue_comment", {**COMMENT, **other}).comment is None
    assert read(tmp_path, "pull_request_review_comment", COMMENT).comment is None


@pytest.mark.parametrize(
    ("changes", "action"), [({"base": {"sha": {}}}, "rebased"), ({"title": {}}, "edited")]
)
def test_another_base_changes_a_pull_request(tmp_path, changes, action):
    payload = {"action": "edited", "pull_request": {"number": 7, **SIDES}, "changes": changes}
    assert read(tmp_path, "pull_request", payload).action == action


@pytest.mark.parametrize("text", ["", "[]", '{"pull_request": {"number": "x"}}', "\udcff"])
def test_what_github_does_not_send_is_refused(tmp_path, text):
    file = tmp_path / "event.json"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match="the payload of the event 'push' cannot be read"):
        read_event("push", file)


NOTHING = "nothing"
OWN = Pull(7, "head", "better", from_fork=False)
FORK = replace(OWN, from_fork=True)
TRAINED = replace(OWN, head_ref="skillopt/ledger")
SAID = Request(11, 7, "step")
WRITER = Facts(actor_may_write=True)
UNCONFIGURED = Facts(configured=False)


def push(ref: str, **more: bool) -> GitHubEvent:
    return GitHubEvent("push", ref=ref, **more)


def pull(pull: Pull, action: str = "opened") -> GitHubEvent:
    return GitHubEvent("pull_request", action, pull=pull)


def target(pull: Pull, action: str = "labeled", label: str = "skillopt-eval") -> GitHubEvent:
    return GitHubEvent("pull_request_target", action, actor="ada", label=label, pull=pull)


def said(comment: Request | None = SAID) -> GitHubEvent:
    return GitHubEvent("issue_comment", actor="ada", comment=comment)


def asking(word: str) -> Request:
    return replace(SAID, request=word)


TABLE: list[tuple[GitHubEvent, str, Facts, Activity | str]] = [
    (GitHubEvent("schedule"), "", Facts(), Perform(Command.STEP)),
    (GitHubEvent("schedule"), "slow-update", Facts(), Perform(Command.SLOW_UPDATE)),
    (GitHubEvent("schedule"), "propose", Facts(), Perform(Command.PROPOSE)),
    (GitHubEvent("workflow_dispatch"), "run", Facts(), Perform(Command.RUN)),
    (GitHubEvent("repository_dispatch"), "", Facts(), Perform(Command.STEP)),
    (push("refs/heads/main"), "", Facts(), Perform(Command.STEP)),
    (push("refs/heads/skillopt/ledger"), "", Facts(), NOTHING),
    (GitHubEvent("workflow_dispatch", ref="refs/heads/skillopt/ledger"), "run", Facts(), NOTHING),
    (push("refs/heads/skillopt-candidate/ledger"), "step", Facts(), NOTHING),
    (push("refs/heads/main", deleted=True), "", Facts(), NOTHING),
    (push("refs/tags/v1"), "", Facts(), NOTHING),
    (pull(OWN), "", Facts(), Evaluate(7, "head")),
    (pull(OWN, "synchronize"), "eval", Facts(), Evaluate(7, "head")),
    (pull(OWN, "closed"), "", Facts(), NOTHING),
    (pull(OWN), "", Facts(skill_changed=False), "success"),
    (pull(OWN), "", Facts(keys_missing=("KEY",)), "neutral"),
    (pull(OWN), "step", WRITER, NOTHING),
    (pull(OWN), "rollout", WRITER, NOTHING),
    (pull(OWN), "propose", WRITER, NOTHING),
    (target(OWN), "propose", WRITER, NOTHING),
    (pull(OWN), "comment", WRITER, NOTHING),
    (pull(OWN), "check", Facts(), Perform(Command.CHECK)),
    (pull(TRAINED), "", Facts(trained=True), "success"),
    (pull(TRAINED), "", Facts(), Evaluate(7, "head")),
    (pull(FORK), "", WRITER, NOTHING),
    (pull(FORK), "", Facts(skill_changed=False), NOTHING),
    (pull(replace(TRAINED, from_fork=True)), "", replace(WRITER, trained=True), NOTHING),
    (target(FORK), "", WRITER, Evaluate(7, "head")),
    (target(OWN), "eval", WRITER, Evaluate(7, "head")),
    (target(FORK), "", Facts(), NOTHING),
    (target(FORK, label="docs"), "", WRITER, NOTHING),
    (target(FORK, action="synchronize"), "", WRITER, "waits"),
    (target(FORK, action="opened", label=""), "", Facts(), "waits"),
    (target(FORK, action="reopened", label=""), "", Facts(), "waits"),
    (target(FORK, action="rebased", label=""), "", Facts(), "waits"),
    (target(FORK, action="reopened", label=""), "", Facts(skill_changed=False), "success"),
    (target(FORK, action="closed", label=""), "", Facts(skill_changed=False), NOTHING),
    (target(OWN, action="rebased", label=""), "", Facts(), Evaluate(7, "head", again=True)),
    (target(OWN, action="opened", label=""), "", Facts(skill_changed=False), "success"),
    (target(FORK, label="docs"), "", Facts(skill_changed=False), NOTHING),
    (target(FORK), "step", WRITER, NOTHING),
    (target(FORK), "check", WRITER, NOTHING),
    (target(replace(TRAINED, from_fork=True)), "", WRITER, Evaluate(7, "head")),
    (target(FORK, label="Skillopt-Eval"), "", WRITER, Evaluate(7, "head")),
    (said(asking("step")), "", WRITER, Perform(Command.STEP, asking("step"))),
    (said(asking("slow-update")), "", WRITER, Perform(Command.SLOW_UPDATE, asking("slow-update"))),
    (said(asking("status")), "", WRITER, Reply(asking("status"))),
    (said(asking("eval")), "", replace(WRITER, head_then="h"), Evaluate(7, "h", asking("eval"))),
    (said(asking("eval")), "", WRITER, "answer"),
    (said(asking("eval")), "", replace(WRITER, head_then="h", into_default=False), "answer"),
    (said(asking("note")), "", replace(WRITER, notes_read=False), "answer"),
    (said(asking("unknown")), "", WRITER, "answer"),
    (said(asking("unknown")), "", Facts(), NOTHING),
    (said(asking("unknown")), "", replace(WRITER, of_other_run=True), NOTHING),
    (said(asking("revert")), "", replace(WRITER, of_other_run=True), NOTHING),
    (said(None), "", WRITER, NOTHING),
    (GitHubEvent("pull_request_review_comment", "created", pull=OWN), "", WRITER, NOTHING),
    (GitHubEvent("release", "published"), "step", WRITER, NOTHING),
    (GitHubEvent("merge_group", "checks_requested", group_sha="h"), "", Facts(), "success"),
    (GitHubEvent("merge_group", "destroyed"), "", Facts(), NOTHING),
    (GitHubEvent("merge_group", "checks_requested", group_sha="h"), "", UNCONFIGURED, NOTHING),
    (pull(OWN), "", UNCONFIGURED, NOTHING),
    (pull(OWN), "check", UNCONFIGURED, Perform(Command.CHECK)),
    (target(FORK), "eval", replace(UNCONFIGURED, actor_may_write=True), NOTHING),
    (GitHubEvent("schedule"), "", UNCONFIGURED, Perform(Command.STEP)),
    (GitHubEvent("workflow_run"), "step", WRITER, NOTHING),
    (GitHubEvent("workflow_run"), "report", WRITER, Perform(Command.REPORT)),
]


@pytest.mark.parametrize(("event", "command", "facts", "expected"), TABLE)
def test_what_an_event_asks_for(event, command, facts, expected):
    found = decide(event, Inputs(command=Command(command) if command else None), facts)
    match found:
        case Nothing(comment=comment, answer=True):
            assert (expected, comment) == ("answer", event.comment)
        case Nothing():
            assert expected == NOTHING
        case Conclude(head_sha=head, conclusion=conclusion):
            assert (conclusion or "waits", head in ("h", "head")) == (expected, True)
        case _:
            assert found == expected


@pytest.mark.parametrize("word", ["step", "eval", "slow-update", "status", "note"])
def test_who_may_not_write_is_refused_and_told(word):
    refused = decide(said(asking(word)), Inputs(), Facts())
    assert (refused.comment, refused.reaction) == (asking(word), "-1")
    assert "@ada may not write" in refused.reason


def test_a_note_is_seen_and_left_for_the_next_step():
    found = decide(said(asking("note")), Inputs(), WRITER)
    assert found == Nothing("the note is read by the next training step", asking("note"), "eyes")
    for comment in ("/skillopt note Be brief", "/skillopt note\r\n\r\nBe brief"):
        assert requested(comment)[0] == "note"


def test_a_fork_is_told_what_starts_its_evaluation():
    found = decide(pull(FORK), Inputs(label="please-measure"), Facts())
    assert isinstance(found, Nothing)
    assert all(words in found.reason for words in ("nothing was spent", "'please-measure'"))
    assert found.comment is None


def test_missing_keys_are_named():
    found = decide(pull(OWN), Inputs(), Facts(keys_missing=("A_KEY", "B_KEY")))
    assert isinstance(found, Conclude)
    assert "A_KEY, B_KEY" in found.reason


@pytest.mark.parametrize(
    "word", ["step", "eval", "slow-update", "status", "diff", "report", "apply"]
)
def test_commands_are_words_of_their_own(word):
    assert requested(f"/skillopt {word}") == (word, "")
    assert requested(f"/skillopt \t{word} \r\nPlease.") == (word, "")


@pytest.mark.parametrize(
    "comment",
    [
        *("", "/skillopt-ci step", "/skilloptstep", " /skillopt step", "    /skillopt step"),
        *("> /skillopt step", "`/skillopt step`", "```\n/skillopt step\n```"),
        *("Please\n/skillopt step", "\n/skillopt step"),
    ],
)
def test_everything_else_is_talk(comment):
    assert requested(comment) == ("", "")


@pytest.mark.parametrize(
    "comment",
    [
        *("/skillopt", "/skillopt ", "/skillopt note", "/skillopt note \n\t\n"),
        *("/skillopt revert", "/skillopt revert\n3", "/skillopt apply now"),
        *("/skillopt status anyway", "/skillopt steps", "/skillopt step now", "/skillopt Step"),
        *("/skillopt finish", "/skillopt\nstep", "/skillopt\u00a0step", "/Skillopt step"),
    ],
)
def test_a_command_that_does_not_exist_is_told_from_talk(comment):
    assert requested(comment)[0] == UNKNOWN


@given(st.text())
def test_any_comment_can_be_read(comment):
    assert requested(comment)[0] in ("", UNKNOWN, *REQUESTS)
