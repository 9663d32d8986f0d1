"""What reviewers say on GitHub: handed to the next step, and answered there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from github_server.scene import Scene
from github_server.state import Hub

from skillopt_ci.action.publish import leave_notes
from skillopt_ci.cli.comment import publish_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.redaction import HIDDEN
from skillopt_ci.training.review_comments import read_notes
from skillopt_ci.training.trainer import train_once

if TYPE_CHECKING:
    from tests.conftest import Checkout, ModelServer, Workshop

SKILL = "skills/SKILL.md"


class Desk:
    """A checkout whose remote is the repository on GitHub, and the action at work in it."""

    def __init__(self, checkout: Checkout, hub: Hub) -> None:
        self.checkout = checkout
        self.hub = hub
        self._client = Scene(hub).client()
        self._settings = Globals({}, checkout.folder)

    def step(self) -> int:
        """Fetch notes, do a step with them, publish; return how many notes there were."""
        file = self.checkout.folder / ".git" / "notes.json"
        count = leave_notes(self._settings, self._client, file)
        session = replace(self.checkout.session(), notes=read_notes(file))
        asyncio.run(train_once(session, lambda outcome: None))
        self.publish()
        return count

    def publish(self) -> None:
        assert publish_run(self._settings, self._client).notes == ()

    def answers(self) -> list[str]:
        """What the bot said, the pinned comment apart."""
        said = self.hub.own_comments()
        threads = [each["body"] for each in self.hub.reviews.values() if "[bot]" in each["login"]]
        return [body for body in [*said, *threads] if "/note%20" in body]


@pytest.fixture
def desk(workshop: Workshop, github_hub: Hub) -> Desk:
    made = workshop.checkout()
    made.git("remote", "add", "origin", github_hub.bare.folder.as_uri())
    made.git("push", "--quiet", "origin", "main")
    return Desk(made, github_hub)


def test_without_a_pull_request_nobody_said_anything(desk: Desk) -> None:
    assert desk.step() == 0
    assert desk.answers() == []


def test_a_secret_in_a_note_is_left_out_of_the_file(desk: Desk, tmp_path: Path) -> None:
    desk.step()
    number = next(iter(desk.hub.pulls))
    secret = "sk-reviewers-4711-secret"
    desk.hub.say("ada", f"/skillopt note Ask with {secret} instead", number)
    file = tmp_path / "notes.json"
    settings = Globals({"DEMO_KEY": secret}, desk.checkout.folder)
    assert leave_notes(settings, Scene(desk.hub).client(), file) == 1
    assert secret not in file.read_text("utf-8")
    assert HIDDEN in read_notes(file)[0].text


def test_notes_of_reviewers_reach_the_next_step_and_are_answered_once(
    desk: Desk, model_server: ModelServer
) -> None:
    desk.step()
    number = next(iter(desk.hub.pulls))
    spoken = desk.hub.say("ada", "/skillopt note Name kind b. Thanks @bob", number)
    written = desk.hub.review("ada", "Shorter, please", SKILL, 1, pull=number)
    model_server.edit = lambda line: {  # type: ignore[assignment,return-value]
        "op": "append",
        "content": f"- {line}",
        "note_ids": [f"issue-{spoken}"],
    }
    assert desk.step() == 2
    heard = desk.checkout.record(2).proposal.reviewer_notes
    assert {note.id for note in heard} == {f"issue-{spoken}", f"review-{written}"}
    reverted, idle = desk.answers()
    assert "**Reverted.** Step 2 tried what this note asks for: 0.250 → 0.000 on 8 tasks" in (
        reverted
    )
    assert "add “Leave out every answer”" in reverted
    assert "**Not taken up.**" in idle
    assert desk.step() == 2
    assert desk.checkout.record(3).proposal.reviewer_notes == ()
    assert desk.answers() == [reverted, idle]


def test_publishing_again_answers_nobody_again(desk: Desk) -> None:
    desk.step()
    desk.hub.say("ada", "/skillopt note Be brief", next(iter(desk.hub.pulls)))
    desk.step()
    (answer,) = desk.answers()
    desk.hub.requests.clear()
    desk.publish()
    assert desk.answers() == [answer]
    assert not any(request.startswith("POST") for request in desk.hub.requests)


def test_who_may_not_write_is_not_heard(desk: Desk) -> None:
    desk.step()
    desk.hub.say("bob", "/skillopt note Obey me", next(iter(desk.hub.pulls)))
    assert desk.step() == 0
