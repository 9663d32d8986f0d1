"""What the action shows on GitHub: harmless, about the change at hand, and for every event."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from action_world import World, example_world
from github_server import pulls
from github_server.state import Hub
from run_views import REPOSITORY, plain_run

from skillopt_ci.report.comment import body, pinned_comment, step_check, title
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.terminal import status_json, status_rows

SKILL = "skills/ledger/SKILL.md"
ADA = {"login": "ada", "type": "User"}
OURS = {"full_name": "octo/skills"}
FORK = {"full_name": "mallory/skills"}
CHECK = "skillopt-ci / quickstart evaluation"
#: As few tasks as show a difference.
TINY = "evaluation.sel_env_num=2"


@pytest.fixture
def world(github_hub: Hub, tmp_path: Path) -> World:
    return example_world(github_hub, tmp_path)


def propose(world: World, head: str, repository: dict[str, str] = OURS) -> dict[str, Any]:
    """Open a pull request of this commit; return the payload of the event."""
    pulls.add(world.hub, "ada", head, head="better", base="main", head_repo=repository["full_name"])
    base = {"sha": world.hub.bare.tip("main"), "ref": "main", "repo": OURS}
    side = {"sha": head, "ref": "better", "repo": repository}
    return {
        "action": "opened",
        "pull_request": {"number": 1, "head": side, "base": base},
        "sender": ADA,
    }


def commented(body: str, **more: Any) -> dict[str, Any]:
    return {
        "action": "created",
        "issue": {"number": 1, "state": "open", "pull_request": {}},
        "comment": {"id": 3, "body": body, **more},
        "sender": ADA,
    }


def conclusions(world: World, commit: str) -> list[str]:
    """How the check that may be required ended on a commit."""
    return [
        check["conclusion"]
        for check in world.hub.checks.values()
        if (check["name"], check["head_sha"]) == (CHECK, commit)
    ]


def without_skill(world: World) -> str:
    bare = world.hub.bare
    tree = bare.tree("main", [{"path": SKILL, "mode": "100644", "sha": None}])
    commit = bare.git("commit-tree", tree, "-p", "main", "-m", "Delete")
    bare.git("update-ref", "refs/heads/better", commit)
    return commit


@pytest.mark.parametrize(
    ("name", "deleted"),
    [
        ("skillopt/<script>alert(1)</script>`code`|__bold__", False),
        ("<img/src=x/onerror=alert(1)>", True),
    ],
)
def test_the_name_of_a_branch_does_not_act_in_the_summary(world, name, deleted):
    done = world.start("push", {"ref": f"refs/heads/{name}", "deleted": deleted, "sender": ADA})
    assert done.outputs["result"] == "skipped"
    assert "did nothing" in done.summary
    assert [sign for sign in ("<script", "<img", "__bold", "`code") if sign in done.summary] == []


def test_what_a_failure_quotes_does_not_act_in_the_summary(world):
    file = world.workspace / "skillopt.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(f'{text}\n"<img src=x onerror=alert(1)>": 1\n', encoding="utf-8")
    done = world.start("workflow_dispatch", {"sender": ADA}, command="status")
    assert done.code == 2
    assert "onerror" in done.summary
    assert "<img" not in done.summary


def test_the_title_after_a_merge_is_relative_to_base():
    run = plain_run(5)
    # base has the start and three steps, the last of which came to 0.30; step 5 comes to 0.40
    assert title(replace(run, base_events=4)) == "ledger: new, +0.100 on 40 selection tasks"
    run = replace(plain_run(5), base_events=4)
    assert dict(status_rows(run))["steps"] == "3 merged, 2 reverted"
    assert status_json(run, {})["merged"] == 3


def test_the_body_after_a_merge_is_relative_to_base():
    run = replace(plain_run(5), base_events=4)
    links = Links(REPOSITORY, f"{REPOSITORY}/actions/runs/7")
    told = body(run, links)
    for text in (told, pinned_comment(run, links)):
        assert "0.300" in text
        assert "0.100 →" not in text
    assert "1 merged, 1 reverted" in told
    assert "<code>main</code>, which has this run up to step 3" in told
    assert "Step 3" not in pinned_comment(run, links)
    assert "0.100" not in step_check(run, links).summary
    assert "1 merged, 1 reverted" in step_check(run, links).summary


@pytest.mark.parametrize("repository", [OURS, FORK])
def test_a_comment_asks_for_what_was_head_when_it_was_made(world, repository):
    name = repository["full_name"]
    first = world.hub.bare.save("better", SKILL, "# Ledger\n\nAs it was.\n")
    propose(world, first, repository)
    world.hub.push("better", first, "2020-01-01T00:00:00Z", name, "branch_creation")
    later = world.hub.bare.save("better", SKILL, "# Ledger\n\nPushed after the comment.\n")
    world.hub.push("better", later, "2020-01-01T00:00:05Z", name)
    at = {"created_at": "2020-01-01T00:00:05Z"}
    done = world.start("issue_comment", commented("/skillopt eval", **at), overrides=TINY)
    assert done.outputs["result"] == "done", done.log
    assert len(conclusions(world, first)) == 1
    assert conclusions(world, later) == []


@pytest.mark.parametrize("trouble", ["", "nothing known", "deleted", "no fork"])
def test_a_comment_is_answered_where_nobody_knows_what_was_head(world, trouble):
    head = world.hub.bare.save("better", SKILL, "# Ledger\n\nAs it was.\n")
    propose(world, head)
    if trouble == "deleted":
        world.hub.push("better", "0" * 40, "2020-01-01T00:00:00Z", kind="branch_deletion")
    elif trouble == "no fork":
        world.hub.pulls[1]["head_repo"] = None
    elif not trouble:
        world.hub.fail("GET /activity", 404, "Not Found", times=9)
    at = {"created_at": "2020-01-01T00:00:05Z"}
    done = world.start("issue_comment", commented("/skillopt eval", **at), overrides=TINY)
    assert done.outputs["result"] == "skipped"
    assert world.hub.checks == {}
    (answer,) = world.hub.own_comments()
    assert "Add the label `skillopt-eval`" in answer


@pytest.mark.parametrize(
    ("event", "repository"), [("pull_request", OURS), ("pull_request_target", FORK)]
)
def test_a_change_without_the_skill_gets_the_check_too(world, event, repository):
    head = world.hub.bare.save("better", "README.md", "Nothing about the skill.\n")
    world.start(event, propose(world, head, repository))
    assert conclusions(world, head) == ["success"]


def test_a_group_to_merge_gets_the_check_too(world):
    ref = "gh-readonly-queue/main/pr-1"
    head = world.hub.bare.save(ref, "README.md", "Nothing about the skill.\n")
    base = world.hub.bare.tip("main")
    group = {
        "head_sha": head,
        "head_ref": f"refs/heads/{ref}",
        "base_sha": base,
        "base_ref": "refs/heads/main",
    }
    payload = {"action": "checks_requested", "merge_group": group, "sender": ADA}
    world.start("merge_group", payload)
    assert conclusions(world, head) == ["success"]


@pytest.mark.parametrize("body", ["/skillopt finish", "/skillopt steps"])
def test_an_unknown_command_in_a_comment_is_answered(world, body):
    propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n"))
    payload = commented(body)
    payload["comment"]["id"] = world.hub.say("ada", body)
    world.start("issue_comment", payload)
    world.start("issue_comment", payload)
    (answer,) = world.hub.own_comments()
    assert "`slow-update`" in answer
    assert [content for _, _, content in world.hub.reactions] == ["confused"]


def test_who_may_not_write_gets_no_comment_for_a_command(world):
    propose(world, world.hub.bare.save("better", SKILL, "# Ledger\n"))
    world.start("issue_comment", {**commented("/skillopt steps"), "sender": {"login": "bob"}})
    assert world.hub.own_comments() == []


def test_a_fork_that_changes_the_skill_waits_for_the_label(world):
    head = world.hub.bare.save("better", SKILL, "# Ledger\n")
    world.start("pull_request_target", propose(world, head, FORK))
    (check,) = world.hub.checks.values()
    assert (check["name"], check["head_sha"], check["status"]) == (CHECK, head, "in_progress")
    assert "skillopt-eval" in check["output"]["summary"]


def test_a_change_that_has_no_skill_is_refused_unless_nothing_fails(world):
    head = without_skill(world)
    done = world.start("pull_request", propose(world, head), overrides="github.fail_on=never")
    assert conclusions(world, head) == ["neutral"]
    assert (done.outputs["finding"], done.outputs["improved"]) == ("regression", "false")
    (comment,) = world.hub.own_comments()
    assert "The head of this pull request has no file skills/ledger/SKILL.md" in comment
