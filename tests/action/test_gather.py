from dataclasses import replace
from pathlib import Path

import pytest
from action_world import make_job
from github_server.scene import Scene
from github_server.state import Hub

from skillopt_ci.action.event import Facts, GitHubEvent, Pull, Request
from skillopt_ci.action.job import Job
from skillopt_ci.action.main import gather
from skillopt_ci.demo import write_example
from skillopt_ci.github.pull_requests import keep_pull_request
from skillopt_ci.github.types import WantedPullRequest
from skillopt_ci.report.comment import marker

SKILL = "skills/ledger/SKILL.md"
WANTED = WantedPullRequest("better", "main", "Better", "Body")
PULL = Pull(1, "head", "better", from_fork=False)


@pytest.fixture
def job(github_hub: Hub, tmp_path: Path) -> Job:
    write_example(tmp_path)
    (tmp_path / ".git").mkdir()
    return make_job(tmp_path, client=Scene(github_hub).client())


def base_of(hub: Hub) -> None:
    hub.bare.save("main", SKILL, "# Ledger\n")
    hub.bare.save("main", "README.md", "Read\n")


def pull_of(hub: Hub, *paths: str) -> None:
    base_of(hub)
    for path in paths:
        hub.bare.save("better", path, "changed\n")
    keep_pull_request(Scene(hub).client(), WANTED)


def said(request: str, actor: str) -> GitHubEvent:
    return GitHubEvent("issue_comment", actor=actor, comment=Request(11, 1, request))


@pytest.mark.parametrize(("actor", "may"), [("ada", True), ("bob", False), ("mallory", False)])
def test_github_says_who_may_ask(job, github_hub, actor, may):
    pull_of(github_hub, SKILL)
    assert gather(job, said("step", actor)).actor_may_write is may


@pytest.mark.parametrize(
    ("branch", "run", "other"),
    [("refunds", "refunds", True), ("quickstart", "quickstart", False), ("fix-wording", "", False)],
)
def test_a_pull_request_of_another_runs_training_is_known(job, github_hub, branch, run, other):
    base_of(github_hub)
    github_hub.bare.save(f"skillopt/{branch}", SKILL, "changed\n")
    body = f"{marker(run, 'pull-request')}\nBody" if run else "Body"
    keep_pull_request(job.client, WantedPullRequest(f"skillopt/{branch}", "main", "T", body))
    assert gather(job, said("revert", "ada")) == Facts(
        actor_may_write=True, of_other_run=other, notes_read=other or run == "quickstart"
    )


def test_nobody_is_asked_about_other_events_and_another_base_is_known(job, github_hub):
    assert gather(job, GitHubEvent("issue_comment", actor="ada")) == Facts()
    gather(job, GitHubEvent("schedule"))
    assert gather(job, GitHubEvent("pull_request_review", "submitted", pull=PULL)) == Facts()
    assert github_hub.requests == []
    base_of(github_hub)
    github_hub.bare.save("release", SKILL, "old\n")
    github_hub.bare.save("better", SKILL, "changed\n", start="release")
    keep_pull_request(job.client, replace(WANTED, base="release"))
    assert not gather(job, said("eval", "ada")).into_default


@pytest.mark.parametrize("place", ["", "sub"])
@pytest.mark.parametrize(("path", "touched"), [(SKILL, True), ("README.md", False)])
def test_whether_the_skill_is_touched(job, github_hub, path, touched, place):
    if place:  # of a checkout below the workspace
        write_example(job.folder / place)
        (job.folder / place / ".git").mkdir()
        job = replace(job, inputs=replace(job.inputs, directory=place))
    pull_of(github_hub, path)
    pull = replace(PULL, head_sha=github_hub.bare.tip("better"))
    assert gather(job, GitHubEvent("pull_request", "opened", pull=pull)).skill_changed is touched
    # GitHub lists the files of a later head: of this one nothing is known
    assert gather(job, GitHubEvent("pull_request", "opened", pull=PULL)).skill_changed


@pytest.mark.parametrize(
    ("branch", "trained"),
    [("skillopt/quickstart", True), ("skillopt-candidate/quickstart", True),
     ("skillopt/fix-wording", False), ("skillopt/quickstart-2", False)],
)  # fmt: skip
def test_only_the_runs_own_branches_are_trained(job, github_hub, branch, trained):
    pull_of(github_hub, SKILL)
    pull = replace(PULL, head_ref=branch)
    assert gather(job, GitHubEvent("pull_request", "opened", pull=pull)).trained is trained


def test_without_a_configuration_everything_counts_as_touched(job, github_hub):
    (job.folder / "skillopt.yaml").unlink()
    pull_of(github_hub, "README.md")
    github_hub.requests.clear()
    for event in (GitHubEvent("pull_request", "opened", pull=PULL), GitHubEvent("merge_group")):
        assert gather(job, event) == Facts(configured=False)
    assert github_hub.requests == []
    (job.folder / "skillopt.yaml").write_text("run: [", encoding="utf-8")
    assert gather(job, GitHubEvent("pull_request", "opened", pull=PULL)).skill_changed
    assert job.configured is None


def test_who_labelled_it_is_asked_only_for_our_label(job, github_hub):
    pull_of(github_hub, SKILL)
    event = GitHubEvent("pull_request_target", "labeled", actor="ada", label="docs", pull=PULL)
    assert not gather(job, event).actor_may_write
    assert gather(job, replace(event, label="skillopt-eval")).actor_may_write


def test_missing_keys_are_found_in_the_configuration(job, github_hub):
    pull_of(github_hub, SKILL)
    file = job.folder / "skillopt.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("seed: 0", "api_key_env: A_KEY", 1), encoding="utf-8")
    event = GitHubEvent("pull_request", "opened", pull=PULL)
    assert gather(job, event).keys_missing == ("A_KEY",)
    assert gather(replace(job, environ={"A_KEY": "k"}), event).keys_missing == ()
