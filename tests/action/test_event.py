import json
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.action.event import Comment, Event, Pull, read_event
from skillopt_ci.errors import UsageError

SIDES = {
    "head": {"sha": "h", "ref": "better", "repo": {"full_name": "octo/skills"}},
    "base": {"sha": "b", "ref": "main", "repo": {"full_name": "octo/skills"}},
}


def read(tmp_path: Path, name: str, payload: Any) -> Event:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(payload), encoding="utf-8")
    return read_event(name, file)


def test_a_push(tmp_path: Path) -> None:
    event = read(tmp_path, "push", {"ref": "refs/heads/main", "deleted": False, "commits": []})
    assert event == Event("push", ref="refs/heads/main")


def test_a_pull_request(tmp_path: Path) -> None:
    payload = {"action": "opened", "pull_request": {"number": 7, **SIDES}}
    assert read(tmp_path, "pull_request", payload).pull == Pull(7, "h", "better", from_fork=False)


@pytest.mark.parametrize("head", [{"full_name": "mallory/skills"}, None])
def test_a_head_elsewhere_or_nowhere_is_a_fork(tmp_path: Path, head: Any) -> None:
    sides = {**SIDES, "head": {**SIDES["head"], "repo": head}}
    pull = read(tmp_path, "pull_request", {"pull_request": {"number": 7, **sides}}).pull
    assert pull is not None
    assert pull.from_fork


def test_a_comment(tmp_path: Path) -> None:
    payload = {
        "action": "created",
        "issue": {"number": 7, "state": "closed", "pull_request": {"url": "…"}},
        "comment": {"id": 11, "body": None},
        "sender": {"login": "bot", "type": "Bot"},
    }
    event = read(tmp_path, "issue_comment", payload)
    assert event.comment == Comment(11, 7, "", on_pull_request=True, open=False)
    assert (event.actor, event.actor_is_bot) == ("bot", True)


def test_an_issue_is_no_pull_request(tmp_path: Path) -> None:
    payload = {"issue": {"number": 7}, "comment": {"id": 11, "body": "/skillopt step"}}
    comment = read(tmp_path, "issue_comment", payload).comment
    assert comment is not None
    assert not comment.on_pull_request


@pytest.mark.parametrize("text", ["", "[]", '{"pull_request": {"number": "x"}}', "\udcff"])
def test_what_github_does_not_send_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "event.json"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match="the payload of the event 'push' cannot be read"):
        read_event("push", file)
