"""What `init --github` writes, with the reusable workflows that it calls, run event by event."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import forked
import pytest
from action_world import ADA, FORK, OURS, SMALL, Finished, World, opened_pull
from github_server.scene import WANTED, Scene
from workflow_runner import INSTALLED, Ran, Runner, github_runner

from skillopt_ci.cli.scaffold import WORKFLOW
from skillopt_ci.github.pull_requests import keep_pull_request

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not INSTALLED, reason="npm has not installed GitHub's expressions"),
]
SKILL = "skills/ledger/SKILL.md"
TRAINING, EVALUATION = "Training", "Evaluation"


@pytest.fixture
def github(world: World) -> Iterator[Runner]:
    """The example's repository, after `init --github --pages` and a push."""
    words = ["-m", "skillopt_ci", "init", "--github", "--pages"]
    done = forked.run(words, cwd=world.workspace, env=world.variables("", {}))
    assert done.returncode == 0, done.stderr
    world.git("add", ".github")
    world.git("-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "-qm", "Train on GitHub")
    world.git("push", "-q", str(world.hub.bare.folder), "main")
    with github_runner(world, world.workspace / WORKFLOW) as runner:
        runner.overrides = SMALL
        yield runner


def only(ran: dict[str, Ran]) -> tuple[str, Ran, Finished]:
    """The one job that ran, by its name, and how the action in it ended."""
    ((name, job),) = ran.items()
    return name, job, job.done


def test_a_schedule_trains_keeps_what_was_paid_for_and_publishes_the_page(github):
    first = github.fire("schedule", {"schedule": "17 3 * * 1-5", "sender": ADA})
    assert list(first) == [TRAINING, "Report", "Publish"]
    job = first[TRAINING]
    assert (job.done.code, job.done.outputs["step"], job.restored) == (0, "1", "")
    assert job.group == "skillopt-train-skillopt.yaml-"
    assert job.artifacts == [job.done.outputs["report"], job.done.outputs["page"]]
    assert job.summary.endswith("[The whole run as a page](https://github.com/artifacts/7)\n")
    site = github.world.workspace / "site" / "index.html"
    assert "quickstart" in site.read_text(encoding="utf-8")
    assert first["Publish"].permissions == {"pages": "write", "id-token": "write"}
    second = github.fire("schedule", {"schedule": "17 3 * * 1-5", "sender": ADA})[TRAINING]
    told = (second.done.outputs["step"], second.restored)
    assert told == ("2", "skillopt-calls-skillopt.yaml//1-1")


def test_a_manual_start_does_its_command(github):
    # of what its branch has by the time it starts
    github.sha = github.world.hub.bare.tip("main")
    newest = github.world.hub.bare.save("main", "README.md", "Changed while the job waited\n")
    ran = github.fire("workflow_dispatch", {"inputs": {"command": "check"}, "sender": ADA})
    assert ran[TRAINING].head == newest
    assert "step" not in ran[TRAINING].done.outputs
    assert github.world.hub.bare.tip("skillopt/quickstart") is None


def proposal(github: Runner, path: str, repository: dict[str, str] = OURS) -> dict[str, Any]:
    """The payload of a pull request that changes a file."""
    hub = github.world.hub
    base = hub.bare.tip("main")
    head = hub.bare.save("better", path, "# Ledger lines\n\nAs short as can be.\n")
    number = keep_pull_request(Scene(hub).client(), replace(WANTED, head="better")).number
    return opened_pull(head, base, repository, number)


def checks(github: Runner) -> list[tuple[str, str | None]]:
    return [(one["head_sha"], one.get("conclusion")) for one in github.world.hub.checks.values()]


def test_an_own_pull_request_is_evaluated_from_base(github):
    payload = proposal(github, SKILL)
    name, job, done = only(github.fire("pull_request_target", payload))
    ends = payload["pull_request"]
    assert (name, job.head) == (EVALUATION, ends["base"]["sha"])
    assert job.permissions["contents"] == "read"
    assert done.outputs["finding"], done.log
    assert [sha for sha, _ in checks(github)] == [ends["head"]["sha"]]


def test_a_forks_pull_request_waits_for_the_label(github):
    payload = proposal(github, SKILL, FORK)
    head = payload["pull_request"]["head"]["sha"]
    _, _, waiting = only(github.fire("pull_request_target", payload))
    assert (waiting.outputs["result"], checks(github)) == ("skipped", [(head, None)])
    other = payload | {"action": "labeled", "label": {"name": "docs"}}
    assert github.fire("pull_request_target", other) == {}
    labelled = payload | {"action": "labeled", "label": {"name": "skillopt-eval"}}
    _, job, done = only(github.fire("pull_request_target", labelled))
    assert done.outputs["finding"], done.log
    assert job.head == payload["pull_request"]["base"]["sha"]


def test_what_touches_no_skill_and_merge_groups_get_the_required_check(github):
    payload = proposal(github, "README.md", FORK)
    only(github.fire("pull_request_target", payload))
    base = github.world.hub.bare.tip("main")
    group = {"head_sha": payload["pull_request"]["head"]["sha"], "base_sha": base}
    asked = {"action": "checks_requested", "merge_group": group}
    _, job, _ = only(github.fire("merge_group", asked))
    assert job.head == base
    assert checks(github) == [(group["head_sha"], "success")]


def comment(body: str, role: str = "COLLABORATOR") -> dict[str, Any]:
    said = {"id": 3, "body": body, "author_association": role, "created_at": "2026-01-02T00:00:00Z"}
    issue = {"number": 1, "state": "open", "pull_request": {}}
    return {"action": "created", "issue": issue, "comment": said, "sender": ADA}


def test_comments_of_members_are_obeyed_and_only_what_trains_waits(github):
    Scene(github.world.hub).pull()
    assert github.fire("issue_comment", comment("/skillopt step", "NONE")) == {}
    assert github.fire("issue_comment", comment("Nice")) == {}
    _, merge, _ = only(github.fire("issue_comment", comment("/skillopt apply")))
    assert merge.group == "skillopt-train-skillopt.yaml-"  # no step may land in between
    _, step, done = only(github.fire("issue_comment", comment("/skillopt  step", "CONTRIBUTOR")))
    assert (step.group, done.outputs["step"]) == ("skillopt-train-skillopt.yaml-", "1")
    name, asked, done = only(github.fire("issue_comment", comment("/skillopt status")))
    assert (name, asked.group) == (TRAINING, "skillopt-comment-3")
    assert asked.restored in github.caches  # what the comment's step paid for
    assert done.outputs["result"] == "done", done.log


def test_the_whole_way_to_a_merge_that_a_person_asked_for(github):
    """Two scheduled steps, the pull request, a question, an undo, and the merge."""
    hub, steps, branch = github.world.hub, [], "skillopt/quickstart"
    for _ in range(2):
        _, job = next(iter(github.fire("schedule", {"sender": ADA}).items()))
        steps.append((job.done.outputs["step"], job.done.outputs["result"]))
    assert [number for number, _ in steps] == ["1", "2"]
    (pull,) = hub.pulls.values()
    assert pull["title"].startswith("ledger: ")
    # two steps are not confirmed by fresh attempts: that merge must be meant
    asked = {
        "/skillopt status": "done",
        "/skillopt revert 1": "done",
        "/skillopt apply": "skipped",
        "/skillopt apply anyway": "done",
    }
    for said, result in asked.items():
        payload = comment(said)
        payload["issue"]["number"] = pull["number"]
        payload["comment"]["created_at"] = "2999-01-01T00:00:00Z"
        hub.push(branch, hub.bare.tip(branch) or "", hub.moment())
        _, _, answered = only(github.fire("issue_comment", payload))
        assert answered.outputs["result"] == result, answered.log
    assert pull["merged_at"]
    assert hub.bare.git("diff", "--stat", "main", branch) == ""


def test_the_models_key_gets_where_the_configuration_looks_for_it(github, model_server):
    text = github.workflow.read_text(encoding="utf-8")
    keys = '    secrets: {keys: "MY_KEY=${{ secrets.MY_KEY }}\\nOTHER=${{ secrets.OTHER }}"}\n'
    github.workflow.write_text(text.replace("    permissions:\n", f"{keys}    permissions:\n", 1))
    github.secrets = {"MY_KEY": "sk-planted-0123"}
    role = ("provider=openai", "model=small", "api_key_env=MY_KEY", f"base_url={model_server.url}")
    github.overrides = "\n".join([SMALL, *(f"model.target.{line}" for line in role)])
    _, job, done = only(github.fire("pull_request_target", proposal(github, SKILL)))
    assert done.outputs["finding"] == "no clear difference", done.log
    assert model_server.keys == {"Bearer sk-planted-0123"}
    masked, _, rest = done.log.partition("::group::")
    assert "::add-mask::sk-planted-0123" in masked
    assert "planted" not in rest + job.done.summary


def test_check_asks_github_whether_all_that_is_there(github):
    world = github.world
    world.hub.private = True  # or it would need a policy
    environ = world.variables("", {}) | {"GITHUB_TOKEN": "pat"}
    del environ["GITHUB_REPOSITORY"]  # the remote says it
    words = ["-m", "skillopt_ci", "check", "--github", "--json"]
    done = forked.run(words, cwd=world.workspace, env=environ)
    told = [one for one in json.loads(done.stdout)["findings"] if one["part"] == "github"]
    assert [one["level"] for one in told] == 4 * ["ok"], told
    environ["GITHUB_TOKEN"] = ""
    done = forked.run(words[:-1], cwd=world.workspace, env=environ)
    assert done.returncode == 2
    assert "GITHUB_TOKEN=$(gh auth token)" in done.stdout
