"""A person's change of the skill on GitHub, measured against base without being checked out."""

import os
import re
import shutil
import signal

import pytest
from action_world import make_job
from github_server.scene import Scene
from github_server.state import Hub
from programs import write_program

from skillopt_ci.action.event import Evaluate
from skillopt_ci.action.inputs import Inputs
from skillopt_ci.action.job import JobOutcome
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.action.review import review_pull_request
from skillopt_ci.errors import ExitCode, ModelSetupError, RepositoryError
from skillopt_ci.github.client import Refused
from tests.conftest import SKILL, Checkout, Workshop

EDIT = "PATCH /check-runs/{check_run_id}"
KNOWN = "# Items\n\n" + "".join(f"- Kind {kind}: a number begins with {kind}.\n" for kind in "abcd")


class Desk:
    """The action in a checkout of base."""

    def __init__(self, checkout: Checkout, hub: Hub) -> None:
        self.checkout = checkout
        self.hub = hub

    def propose(self, text: str, path: str = SKILL) -> str:
        """Let a person push a branch with this file; return its head."""
        return self.hub.bare.save("better", path, text)

    def evaluate(
        self, head: str, *overrides: str, run: str = "", again: bool = False
    ) -> JobOutcome:
        environ = {"DEMO_KEY": "sk-demo-key", "GITHUB_REPOSITORY": "octo/skills"}
        environ |= {"GITHUB_RUN_ID": run, "DB_PASSWORD": "pass_word@1"}
        job = make_job(self.checkout.folder, inputs=Inputs(overrides=overrides), environ=environ)
        return review_pull_request(job, Scene(self.hub).client(), Evaluate(1, head, again=again))

    def conclusion(self) -> tuple[str, str]:
        (check,) = self.hub.checks.values()
        return check["head_sha"], check["conclusion"]


@pytest.fixture
def desk(workshop: Workshop, github_hub: Hub) -> Desk:
    made = workshop.checkout()
    made.git("push", "--quiet", github_hub.bare.folder.as_uri(), "main")
    Scene(github_hub).pull()
    return Desk(made, github_hub)


def test_a_better_skill_is_an_improvement(desk):
    head = desk.propose(KNOWN)
    desk.evaluate(head, "github.comments=off")
    assert (desk.hub.own_comments(), desk.conclusion()) == ([], (head, "success"))
    shown = desk.evaluate(head)
    assert (shown.exit_code, shown.outputs.improved) == (0, "true")
    assert (shown.outputs.score_before, shown.outputs.score_after) == ("0", "1")
    assert desk.conclusion() == (head, "success")
    assert "improvement" in shown.report


def test_the_worth_against_no_skill_is_told_where_it_is_wanted(desk, model_server):
    shown = desk.evaluate(desk.propose(KNOWN), "github.baseline=none")
    assert "| no skill | 0.000" in shown.report
    assert "Against no skill at all, head is worth +1.000" in shown.report
    assert len(model_server.prompts) == 24
    desk.evaluate(desk.propose(KNOWN + "\nOr so.\n"), "github.baseline=none")
    assert len(model_server.prompts) == 32


def test_a_worse_skill_turns_the_check_red_unless_it_never_may(desk):
    desk.checkout.write(SKILL, KNOWN)
    desk.checkout.git("commit", "--quiet", "--all", "--message", "Know")
    head = desk.propose("# Items\n\nNothing.\n")
    shown = desk.evaluate(head)
    assert (shown.exit_code, shown.outputs.finding) == (0, "regression")
    assert desk.conclusion() == (head, "failure")
    (check,) = desk.hub.checks.values()
    assert {one["path"] for one in check["annotations"]} == {"tasks/selection.jsonl"}
    stopped = "budget.step.calls=1", "model.target.temperature=0.5"
    unmeasured = desk.evaluate(head, *stopped)
    assert (unmeasured.exit_code, desk.conclusion()) == (ExitCode.BUDGET, (head, "failure"))
    assert unmeasured.notes == ("the check skillopt-ci / demo evaluation stays as it is: failure",)
    assert ["regression" in body for body in desk.hub.own_comments()] == [True]
    desk.evaluate(head, "github.fail_on=never")
    assert desk.conclusion() == (head, "neutral")
    desk.evaluate(head, *stopped, run="2", again=True)  # an earlier run's was for another base
    assert ["inconclusive" in body for body in desk.hub.own_comments()] == [True]
    titles = [one["output"]["title"].split()[0] for one in desk.hub.checks.values()]
    assert titles == ["Regression", "Inconclusive"]  # another check: it was pending meanwhile
    for options in ((), stopped):  # its own is for this one
        desk.evaluate(head, *options, run="2", again=True)
    assert [*desk.hub.checks.values()][-1]["conclusion"] == "failure"


def test_what_base_has_learned_since_counts_as_in_a_merge(desk, tmp_path, monkeypatch):
    def base(text: str) -> None:
        desk.checkout.commit(SKILL, text)
        desk.checkout.git("push", "--quiet", desk.hub.bare.folder.as_uri(), "main")

    base("# Items\n\nFirst.\n")
    apart, same = map(desk.propose, ("# All items\n\nFirst.\n", "# Items\n\nSecond.\n"))
    base(KNOWN.replace("\n\n", "\n\nThird.\n\n", 1))
    shown = desk.evaluate(apart)
    assert (shown.outputs.score_after, shown.outputs.finding) == ("1", "no clear difference")
    assert "conflicts with base: update the branch" in desk.evaluate(same).report
    base("# All items\n\nFirst.\n")
    desk.hub.fail("GET /compare/{basehead}", 422)  # what base has by now is not there twice
    assert "skill is the same as at base" in desk.evaluate(apart).report
    assert "Update the branch: GitHub would not compare" in desk.evaluate(same).report
    dying = f'case "$*" in *merge-file*) kill -KILL $$;; esac; exec {shutil.which("git")} "$@"'
    write_program(tmp_path / "git", dying)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RepositoryError, match=r"signal 9 \(Killed\)"):
        desk.evaluate(same)


def test_the_same_skill_is_not_paid_for_and_replaces_an_earlier_heads_comment(desk, model_server):
    head = desk.propose(desk.checkout.show("main"))
    shown = desk.evaluate(head)
    assert (shown.exit_code, shown.outputs) == (0, Outputs(pull_request="1"))
    assert (desk.conclusion(), model_server.prompts) == ((head, "success"), [])
    assert desk.hub.own_comments() == []
    desk.evaluate(desk.propose(KNOWN))
    desk.evaluate(desk.propose(desk.checkout.show("main")))
    (comment,) = desk.hub.own_comments()
    assert "Nothing to evaluate\n\nThe skill is the same as at base." in comment


def test_a_skill_that_base_does_not_have_is_compared_with_nothing(desk, model_server):
    desk.checkout.git("rm", "--quiet", SKILL)
    desk.checkout.git("commit", "--quiet", "--message", "Delete")
    desk.checkout.git("push", "--quiet", desk.hub.bare.folder.as_uri(), "main")
    head = desk.propose(KNOWN)
    shown = desk.evaluate(head)
    assert (shown.exit_code, shown.outputs.finding) == (0, "inconclusive")
    assert "base has no skills/SKILL.md to compare with" in shown.report
    assert (desk.conclusion(), model_server.prompts) == ((head, "neutral"), [])


def test_a_smaller_change_than_the_threshold_is_not_clear(desk):
    head = desk.propose("# Items\n\n- Kind a: a number begins with a.\n")
    assert "no clear difference" in desk.evaluate(head, "github.threshold=0.5").report
    assert desk.conclusion() == (head, "neutral")
    desk.evaluate(desk.propose(KNOWN))
    (comment,) = desk.hub.own_comments()  # a newer head edits it
    assert "improvement" in comment


def test_nothing_but_the_skills_text_comes_from_head(desk, model_server):
    before = desk.checkout.git("status", "--porcelain"), desk.checkout.git("rev-parse", "HEAD")
    desk.propose("{}", "tasks/selection.jsonl")
    desk.propose("broken: [", "skillopt.yaml")
    desk.evaluate(desk.propose(KNOWN))
    assert all("Item 10" in prompt for prompt in model_server.prompts)
    assert len(model_server.prompts) == 16
    now = desk.checkout.git("status", "--porcelain"), desk.checkout.git("rev-parse", "HEAD")
    assert (now, desk.checkout.ref("better")) == (before, "")


def test_an_old_job_that_is_run_again_leaves_the_newer_comment(desk):
    old, new = desk.propose(KNOWN), desk.propose("# Items\n\nAs before.\n")
    assert desk.evaluate(new, run="10").outputs.improved == "false"
    again = desk.evaluate(old, run="9")
    assert "the newer workflow run 10 wrote it" in again.notes[0]
    assert (again.outputs.finding, again.exit_code) == ("improvement", 0)
    assert "no clear difference" in desk.hub.own_comments()[0]
    assert [each["head_sha"] for each in desk.hub.checks.values()] == [new, old]
    assert desk.evaluate(new, "github.confidence=0.9", run="10").notes == ()
    for rebased in (False, True):
        same = desk.evaluate(new, "github.threshold=0.5", run="9", again=rebased)
        assert (len(desk.hub.checks), "stays as it is: neutral" in same.notes[0]) == (2, True)
    desk.checkout.write(SKILL, "# Items\n\nAs before.\n")  # which leaves nothing to evaluate
    desk.checkout.git("commit", "--quiet", "--all", "--message", "Do as head does")
    assert "stays as it is: neutral" in desk.evaluate(new, run="9").notes[0]


def test_a_budgets_end_is_no_finding(desk):
    head = desk.propose(KNOWN)
    shown = desk.evaluate(head, "budget.step.calls=3")
    stopped = Outputs(finding="inconclusive", pull_request="1")
    assert (shown.exit_code, shown.outputs) == (ExitCode.BUDGET, stopped)
    assert "budget.step.calls is used up" in shown.report
    assert desk.conclusion() == (head, "neutral")


def test_failed_infrastructure_is_no_finding(desk, model_server):
    model_server.trouble = lambda prompt: (503, "busy")
    shown = desk.evaluate(head := desk.propose(KNOWN))
    assert (shown.exit_code, "Not measured" in shown.report) == (ExitCode.INFRASTRUCTURE, True)
    assert desk.conclusion() == (head, "neutral")
    model_server.trouble = lambda prompt: (401, "refused key")
    with pytest.raises(ModelSetupError):
        desk.evaluate(desk.propose(KNOWN + "\nOr so.\n"))
    assert [*desk.hub.checks.values()][-1]["output"]["title"] == "Not evaluated: the job says why"
    model_server.trouble = lambda prompt: None
    grader = "type: command, command: [/bin/sh, -c, 'echo $DB_PASSWORD; exit 3'], error_status: [3]"
    options = f"scorer={{{grader}, env: [DB_PASSWORD]}}", "rollout.programs_can_read_secrets=true"
    assert "status 3: &#91;secret hidden&#93;" in desk.evaluate(head, *options).report


@pytest.mark.parametrize("text", ["caf\udce9", "caf\0", "x" * 500_001])
def test_what_is_no_skill_is_not_measured(desk, model_server, text):
    bare = desk.hub.bare
    oid = bare.git("hash-object", "-w", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))
    tree = bare.tree(bare.tip("main"), [{"path": SKILL, "mode": "100644", "sha": oid}])
    head = bare.git("commit-tree", tree, "-p", "main", "-m", "Write")
    shown = desk.evaluate(head)
    assert re.search("is not UTF-8 text .byte 3|has a NUL|has 500,001 bytes; a", shown.report)
    assert (shown.exit_code, shown.outputs.finding) == (0, "regression")
    assert (desk.conclusion(), model_server.prompts) == ((head, "failure"), [])


def test_a_skill_that_head_deletes_is_not_measured(desk):
    tree = desk.hub.bare.git("mktree", stdin=b"")
    head = desk.hub.bare.git("commit-tree", tree, "-p", "main", "-m", "Delete")
    shown = desk.evaluate(head)
    assert "If the skill was renamed, merge despite" in shown.report
    assert desk.conclusion() == (head, "failure")
    assert (shown.outputs.finding, shown.outputs.improved) == ("regression", "false")
    assert ["skills/SKILL.md is missing" in body for body in desk.hub.own_comments()] == [True]


@pytest.mark.parametrize(
    ("part", "status", "code"),
    [("POST /issues/{issue_number}/comments", 403, 0), (EDIT, 403, 2), (EDIT, 503, 5)],
)
def test_the_check_which_a_merge_may_wait_for_must_be_posted(desk, part, status, code):
    desk.hub.fail(part, status, "Resource not accessible by integration", times=9)
    shown = desk.evaluate(desk.propose(KNOWN))
    assert (shown.exit_code, shown.outputs.finding, len(shown.notes)) == (code, "improvement", 1)
    assert ("re-run this job: a merge may wait for the check" in shown.notes[0]) is bool(code)
    statuses = [each["status"] for each in desk.hub.checks.values()]
    assert statuses == ["in_progress" if code else "completed"]
    assert len(desk.hub.own_comments()) == bool(code)


def test_what_may_post_no_check_pays_for_no_evaluation(desk, model_server):
    desk.hub.permissions["checks"] = "read"
    with pytest.raises(Refused, match="Grant `checks: write`"):
        desk.evaluate(desk.propose(KNOWN))
    assert (desk.hub.checks, desk.hub.own_comments(), model_server.prompts) == ({}, [], [])


@pytest.mark.parametrize("verdict", ["", "success"])
def test_an_evaluation_that_is_interrupted_leaves_no_check_in_progress(desk, model_server, verdict):
    head, shown = desk.propose(KNOWN), list[str]()
    if verdict:
        desk.evaluate(head)

    def interrupt(prompt: str) -> None:
        if not shown:
            shown.extend(one.get("conclusion", "") for one in desk.hub.checks.values())
            os.kill(os.getpid(), signal.SIGINT)

    model_server.trouble = interrupt
    with pytest.raises(KeyboardInterrupt):
        desk.evaluate(head, "model.target.temperature=0.5")
    assert (desk.conclusion(), shown) == ((head, verdict or "cancelled"), [verdict])
