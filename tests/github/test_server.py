import pytest
from github.GithubException import GithubException
from github_server.description import find, request_problems
from github_server.scene import Scene
from github_server.state import Fault, Hub

from skillopt_ci.github.client import NotFound, Unavailable
from skillopt_ci.github.settings import setup_of

CHECK = {"name": "x", "head_sha": "0" * 40}


@pytest.mark.parametrize(
    ("request_line", "body", "words"),
    [
        ("POST /issues/1/comments", {}, "'body' is a required property"),
        ("POST /issues/1/comments", {"body": "x", "text": "y"}, "unknown field text"),
        ("POST /issues/1/labels", ["a"], "is not valid"),
        ("POST /check-runs", CHECK | {"conclusion": "green"}, "is not one of"),
        ("GET /pulls", {"head": "x"}, "a body"),
    ],
)
def test_wrong_requests_are_seen(request_line, body, words):
    method, _, path = request_line.partition(" ")
    operation = find(method, f"/repos/octo/skills{path}")
    assert operation is not None
    assert words in " ".join(request_problems(operation, {}, body))


def test_a_body_that_is_too_long_is_refused(scene):
    scene.pull()
    with pytest.raises(GithubException, match="body is too long"):
        scene.client().send("POST", "/issues/1/comments", {"body": "x" * 65_537})


# What `check --github` tells of a repository: the real client on the test server.

BRANCH = "skillopt/demo"


def told(hub: Hub, *, signed: bool = False) -> list[tuple[str, str]]:
    return list(setup_of(Scene(hub).client("pat"), ("A_KEY", "B_KEY"), "demo", signed=signed))


def test_what_is_missing_is_told_with_its_remedy(github_hub):
    github_hub.bare.save("main", "README.md", "Hello\n")
    github_hub.actions_may_open, github_hub.secrets = False, ["A_KEY"]
    workflow, allowed, one, other, branch, _ = told(github_hub)
    assert workflow[0] == allowed[0] == "error"
    assert "`skillopt-ci init --github` writes one" in workflow[1]
    allow = "gh api -X PUT repos/octo/skills/actions/permissions/workflow"
    assert allowed[1].endswith(f": {allow} -F can_approve_pull_request_reviews=true")
    assert one == ("ok", "the secret A_KEY is set")
    assert other == ("error", "the secret B_KEY is set: no. To fix it: gh secret set B_KEY")
    assert branch == ("ok", f"no rule keeps Actions from pushing to {BRANCH}")


def test_all_is_well_if_the_workflow_is_named_or_known_by_the_action_that_it_uses(github_hub):
    github_hub.bare.save("main", ".github/workflows/a.yml", "on: push\n")
    github_hub.bare.save("main", ".github/workflows/b.yml", "uses: skillopt-ci/skillopt-ci@v0\n")
    assert told(github_hub)[0] == ("ok", ".github/workflows/b.yml is on main")
    github_hub.bare.save("main", ".github/workflows/skillopt.yml", "on: push\n")
    github_hub.secrets, github_hub.rules = ["A_KEY", "B_KEY"], ["copilot_code_review"]
    lines = told(github_hub)
    assert {level for level, _ in lines} == {"ok"}
    assert lines[0][1] == ".github/workflows/skillopt.yml is on main"
    assert lines[-1][1].startswith("no rule keeps Actions from pushing to skillopt-candidate/")


def test_a_public_repository_needs_a_policy_for_evaluations(github_hub):
    github_hub.bare.save("main", ".github/workflows/skillopt.yml", "on: pull_request_target\n")
    github_hub.policies = ["disabled", "evaluate"]
    level, text = told(github_hub)[1]
    assert (level, "Settings → Actions → Policies" in text) == ("error", True)
    github_hub.policies.append("active")
    assert told(github_hub)[1][0] == "ok"


def test_a_rule_that_stops_actions_is_told(github_hub):
    many = ["non_fast_forward", "max_file_size", "max_file_path_length"] * 50  # of many rulesets
    github_hub.rules = [*many, "pull_request", "deletion", "commit_message_pattern"]
    (level, text), (_, candidate) = told(github_hub)[-2:]
    assert level == "warning"
    assert f"may refuse pushes to {BRANCH} (commit_message_pattern, pull_request): exclude" in text
    assert "pushes to skillopt-candidate/demo (commit_message_pattern, deletion, " in candidate
    github_hub.rules = ["required_signatures"]
    assert [told(github_hub, signed=api)[-1][0] for api in (False, True)] == ["warning", "ok"]


def test_what_the_token_may_not_see_is_told_and_no_error(github_hub):
    github_hub.bare.save("main", ".github/workflows/skillopt.yml", "on: pull_request_target\n")
    settings = ("/actions/policies", "/actions/permissions/workflow", "/actions/secrets")
    for name in (*settings, "/rules/branches/{branch}"):
        words = "Resource not accessible by personal access token"
        github_hub.faults.append(Fault(f"GET {name}", 403, words, times=2))
    lines = told(github_hub)
    assert [level for level, _ in lines] == ["ok"] + 6 * ["warning"]
    assert all("this token may not see " in text for _, text in lines[1:])


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [(404, b"", NotFound), (200, b"{}", Unavailable), (200, b"[]", Unavailable)],
)
def test_a_repository_that_is_not_shown_is_an_error(github_hub, status, content, error):
    github_hub.fail("GET ", status, content=content)
    with pytest.raises(error, match="show the repository octo/skills"):
        told(github_hub)
