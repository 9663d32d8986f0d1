from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from github_server.scene import Scene
from github_server.state import Hub

from skillopt_ci.action.event import Comment, Event, Pull
from skillopt_ci.action.event_context import configured, gather
from skillopt_ci.action.inputs import Inputs
from skillopt_ci.action.job import Job, Shown
from skillopt_ci.action.outputs import JobLog, Runner
from skillopt_ci.cli.options import Globals
from skillopt_ci.demo.quickstart import write_example
from skillopt_ci.github.pull_requests import keep_pull_request
from skillopt_ci.github.types import WantedPullRequest

SKILL = "skills/ledger/SKILL.md"
WANTED = WantedPullRequest("better", "main", "Better", "Body")
PULL = Pull(1, "head", "better", from_fork=False)


class Reviewer:
    """Takes every comment for a request of its first word."""

    def requested(self, comment: str) -> str:
        return comment.partition(" ")[0]

    def evaluate(self, settings: Globals, pull: object) -> Shown:
        raise AssertionError


@pytest.fixture
def job(github_hub: Hub, tmp_path: Path) -> Iterator[Job]:
    write_example(tmp_path / "workspace")
    runner = Runner.of(
        {
            "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
            "GITHUB_EVENT_NAME": "x",
            "GITHUB_EVENT_PATH": "x",
            "GITHUB_REPOSITORY": "octo/skills",
        }
    )
    with (tmp_path / "log").open("w", encoding="utf-8") as stream:
        log = JobLog(stream, lambda: "t")
        yield Job(runner, Inputs(), log, {}, client=Scene(github_hub).client(), reviewer=Reviewer())


def pull_of(hub: Hub, *paths: str) -> None:
    hub.bare.save("main", SKILL, "# Ledger\n")
    hub.bare.save("main", "README.md", "Read\n")
    for path in paths:
        hub.bare.save("better", path, "changed\n")
    keep_pull_request(Scene(hub).client(), WANTED)


def said(body: str, actor: str) -> Event:
    comment = Comment(11, 1, body, on_pull_request=True, open=True)
    return Event("issue_comment", "created", actor=actor, comment=comment)


@pytest.mark.parametrize(("actor", "may"), [("ada", True), ("bob", False), ("mallory", False)])
def test_github_says_who_may_ask(job: Job, actor: str, may: bool) -> None:
    facts = gather(job, said("step please", actor))
    assert (facts.request, facts.actor_may_write) == ("step", may)


def test_nobody_is_asked_about_other_comments(job: Job, github_hub: Hub) -> None:
    assert gather(job, said("", "ada")).request == ""
    assert github_hub.requests == []


def test_a_clock_asks_nothing(job: Job, github_hub: Hub) -> None:
    gather(job, Event("schedule"))
    assert github_hub.requests == []


@pytest.mark.parametrize(("path", "touched"), [(SKILL, True), ("README.md", False)])
def test_whether_the_skill_is_touched(job: Job, github_hub: Hub, path: str, touched: bool) -> None:
    pull_of(github_hub, path)
    assert gather(job, Event("pull_request", "opened", pull=PULL)).skill_changed is touched


def test_without_a_configuration_everything_counts_as_touched(job: Job, github_hub: Hub) -> None:
    (job.folder / "skillopt.yaml").unlink()
    pull_of(github_hub, "README.md")
    assert gather(job, Event("pull_request", "opened", pull=PULL)).skill_changed
    assert configured(job) is None


def test_who_labelled_it_is_asked_only_for_our_label(job: Job, github_hub: Hub) -> None:
    pull_of(github_hub, SKILL)
    event = Event("pull_request_target", "labeled", actor="ada", label="docs", pull=PULL)
    assert not gather(job, event).actor_may_write
    assert gather(job, replace(event, label="skillopt-eval")).actor_may_write


def test_missing_keys_are_found_in_the_configuration(job: Job, github_hub: Hub) -> None:
    pull_of(github_hub, SKILL)
    file = job.folder / "skillopt.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("seed: 0", "api_key_env: A_KEY", 1), encoding="utf-8")
    event = Event("pull_request", "opened", pull=PULL)
    assert gather(job, event).keys_missing == ("A_KEY",)
    assert gather(replace(job, environ={"A_KEY": "k"}), event).keys_missing == ()
