"""What reviewers say on GitHub: handed to the next step, and answered there."""

import asyncio
import io
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from action_world import make_job
from github_server.scene import Scene
from github_server.state import Hub
from programs import write_program
from training_runs import train_once

from skillopt_ci.action.event import Evaluate, Nothing, Perform, Request
from skillopt_ci.action.inputs import Command, Inputs
from skillopt_ci.action.job import Job, JobOutcome
from skillopt_ci.action.main import run
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.action.perform import _notes, leave_notes, perform
from skillopt_ci.cli.comment import Published, publish_run
from skillopt_ci.cli.init import make_repository
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import ExitCode, InfrastructureError, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.github.client import Client, Refused
from skillopt_ci.redaction import HIDDEN
from skillopt_ci.training.review_comments import read_notes
from tests.conftest import SKILL, Checkout

pytestmark = pytest.mark.integration

SMALL = (
    "git.author_name=Ada",
    "git.author_email=ada@localhost",
    "train.batch_size=16",
    "train.num_epochs=1",
    "evaluation.sel_env_num=8",
    "evaluation.test_env_num=4",
)


@dataclass
class Desk:
    """Publishes and reviews by keeping what it was asked for."""

    shown: JobOutcome = field(default_factory=JobOutcome)
    trouble: Exception | None = None
    then: Callable[[], None] = lambda: None
    published: list[str] = field(default_factory=list)
    evaluated: list[Evaluate] = field(default_factory=list)

    def publish(self, settings: Globals, client: Client, inconclusive: str) -> Any:
        self.published.append(inconclusive)
        self.then()
        if self.trouble is not None:
            raise self.trouble
        return Published("# Report", 7)

    def review(self, job: Job, client: Client, pull: Evaluate) -> JobOutcome:
        self.evaluated.append(pull)
        print("::error::what a model said")  # noqa: T201
        return self.shown


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr("skillopt_ci.action.perform.publish_run", made.publish)
    monkeypatch.setattr("skillopt_ci.action.perform.review_pull_request", made.review)
    monkeypatch.setattr("skillopt_ci.action.perform.leave_notes", lambda *given: 0)
    return made


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def job(tmp_path: Path, desk: Desk, log: io.StringIO, github_hub: Hub) -> Job:
    make_repository(tmp_path)
    inputs, client = Inputs(overrides=SMALL), Scene(github_hub).client()
    return make_job(tmp_path, log, inputs=inputs, client=client)


def test_a_step_is_done_and_published(job, desk):
    outcome = perform(job, Perform(Command.STEP))
    assert (outcome.exit_code, outcome.report) == (0, "# Report")
    assert (outcome.outputs.result, outcome.outputs.action) == ("done", "accept_new_best")
    assert (outcome.outputs.pull_request, desk.published) == ("7", [""])
    # commands that read publish nothing
    assert perform(job, Perform(Command.STATUS)).outputs.step == "1"
    assert perform(job, Perform(Command.EVAL)).outputs.improved in ("true", "false")
    assert desk.published == [""]


def test_the_run_is_left_as_a_page(job):
    page = perform(job, Perform(Command.STEP)).outputs.page
    assert page == ".git/skillopt-ci/skillopt-report.html"
    assert 'id="step-1"' in (job.folder / page).read_text(encoding="utf-8")
    (job.folder / page).unlink()
    named = replace(job, inputs=replace(job.inputs, run="quickstart"))
    outputs = perform(named, Perform(Command.REPORT)).outputs
    assert outputs.page == ".git/skillopt-ci/skillopt-report-quickstart.html"
    assert (outputs.result, outputs.step, outputs.cost_usd) == ("done", "", "")
    assert (job.folder / outputs.page).is_file()
    assert perform(job, Perform(Command.STATUS)).outputs.page == ""
    (job.folder / "skillopt.yaml").rename(job.folder / "b.yaml")
    other = replace(job, inputs=replace(job.inputs, config="b.yaml"))
    assert other.page.name == "skillopt-report-quickstart.html"


def test_a_proposal_leaves_a_candidate_that_the_next_plan_shares_out(job, desk):
    assert perform(job, Perform(Command.PROPOSE)).outputs.result == "done"
    assert desk.published == [""]
    assert perform(job, Perform(Command.PLAN)).outputs.phase == "evaluation"
    assert perform(job, Perform(Command.STEP)).outputs.step == "1"


def test_a_run_publishes_after_every_step_and_once_more_when_nothing_is_left(job, desk):
    assert perform(job, Perform(Command.RUN)).outputs.step == "3"
    assert desk.published == [""] * 5  # three steps, the end of the epoch and that of the run
    outcome = perform(job, Perform(Command.STEP))
    assert (outcome.outputs.result, outcome.exit_code) == ("nothing-to-do", 0)
    told = "**Nothing left to do: all epochs are trained.**"
    assert (outcome.ending, desk.published) == (told, [""] * 6)
    planned = perform(job, Perform(Command.PLAN))
    assert planned.report.startswith(told)
    assert (planned.outputs.matrix, planned.outputs.phase) == ('{"shard":[]}', "")


def test_a_budget_is_inconclusive_and_no_failure(job, desk, log):
    tight = replace(job.inputs, overrides=(*job.inputs.overrides, "budget.step.calls=5"))
    outcome = perform(replace(job, inputs=tight), Perform(Command.STEP))
    assert (outcome.outputs.result, outcome.exit_code) == ("inconclusive", 0)
    (published,) = desk.published
    assert "a budget was reached: budget.step.calls is used up" in published
    assert "5 of 5. Every paid answer is kept. Raise budget.step.calls" in published
    assert "::warning title=Inconclusive%3A a budget was reached::" in log.getvalue()


def test_a_crash_report_stays_in_the_log(job, desk, monkeypatch):
    monkeypatch.setattr("skillopt_ci.cli.build.open_run", lambda *given: 1 / 0)
    assert perform(job, Perform(Command.STEP)).exit_code == 1
    assert "Traceback" not in desk.published[0]


def test_who_lost_a_race_shows_nothing_of_what_they_do_not_know(job, desk, tmp_path_factory):
    bare = tmp_path_factory.mktemp("origin")
    git = Git(job.folder)
    git.run("clone", "--quiet", "--bare", ".", str(bare))
    move = "env -u GIT_QUARANTINE_PATH git update-ref refs/heads/skillopt/quickstart main"
    write_program(bare / "hooks" / "pre-receive", move)
    git.run("remote", "add", "origin", str(bare))
    outcome = perform(job, Perform(Command.STEP))
    assert (outcome.outputs.result, outcome.exit_code) == ("superseded", 0)
    assert desk.published == []


def test_a_mistake_fails_the_job_where_it_is(job, log):
    (job.folder / "tasks" / "train.jsonl").write_text("{\n", encoding="utf-8")
    outcome = perform(job, Perform(Command.CHECK))
    assert (outcome.outputs.result, outcome.exit_code) == ("failed", 2)
    assert ("::error title=tasks::" in log.getvalue(), outcome.outputs.cost_usd) == (True, "")
    assert "\n- tasks: " in outcome.report
    assert perform(job, Perform(Command.STEP)).exit_code == 2
    assert ",file=tasks/train.jsonl,line=1::" in log.getvalue()
    shutil.copy(job.folder / "skillopt.yaml", job.folder / "b.skillopt.yaml")
    assert perform(job, Perform(Command.DISCOVER)).exit_code == 2
    assert "::error title=configuration::several runs" in log.getvalue()


@pytest.mark.parametrize("trouble", [InfrastructureError("sk_one_1 is down"), KeyError("sk_one_1")])
def test_what_was_paid_for_does_not_fail_for_want_of_a_comment(job, desk, log, trouble):
    desk.trouble = trouble
    job.redact.learn(["sk_one_1"])  # escaped for Markdown, it would no longer be found
    outcome = perform(job, Perform(Command.STEP))
    assert (outcome.exit_code, outcome.outputs.result) == (0, "done")
    assert HIDDEN in outcome.notes[0]
    assert "| action | <code>accept&#95;new&#95;best</code> |" in outcome.report
    assert log.getvalue().count("::warning title=Not everything could be published::") == 1


def test_a_step_begins_with_what_other_jobs_answered(job, desk):
    planned = perform(job, Perform(Command.PLAN)).outputs
    assert planned.phase == "measure"
    shards = json.loads(planned.matrix)["shard"]
    for number, shard in enumerate(shards):
        rollout = replace(job, inputs=replace(job.inputs, shard=shard))
        assert perform(rollout, Perform(Command.ROLLOUT)).outputs.result == "done"
        (job.keep / "answers.jsonl").rename(job.keep / f"{number}.jsonl")
    given = replace(job.inputs, rollouts=(".git/skillopt-ci/*.jsonl",))
    assert perform(replace(job, inputs=given), Perform(Command.STEP)).outputs.step == "1"
    assert desk.published == [""]


@pytest.mark.parametrize("command", [Command.STEP, Command.PROPOSE, Command.CHECK])
def test_rollouts_that_no_file_has_are_told_before_anything_is_paid(job, log, command):
    there = job.folder / "there.jsonl"
    there.write_text('{"format":"skillopt-ci answers","version":1}\n', encoding="utf-8")
    inputs = replace(job.inputs, rollouts=("there*.jsonl", "gone/*.jsonl"))
    perform(replace(job, inputs=inputs), Perform(command))
    told = f"::warning title=input rollouts::gone/*.jsonl matches no file in {job.folder}: the step"
    assert log.getvalue().startswith(told)


def test_comment_only_publishes(job, desk, log):
    outcome = perform(job, Perform(Command.COMMENT))
    assert (outcome.outputs.pull_request, desk.published) == ("7", [""])
    # the run has not started
    assert (outcome.exit_code, outcome.outputs.page) == (0, "")
    assert log.getvalue().count("::group::") == log.getvalue().count("::group::skillopt-ci report")
    assert "::warning" not in log.getvalue()
    assert perform(job, Perform(Command.REPORT)).exit_code == 2


def test_without_a_token_a_step_is_done_all_the_same_but_no_evaluation(job):
    alone = replace(job, client=None)
    outcome = perform(alone, Perform(Command.STEP))
    assert (outcome.exit_code, outcome.outputs.pull_request) == (0, "")
    assert outcome.report.startswith("**Done.**")
    with pytest.raises(UsageError, match="token"):
        perform(alone, Evaluate(7, "head"))


def test_an_evaluation_shows_what_it_found(job, desk, log):
    desk.shown = JobOutcome(Outputs(improved="false", pull_request="7"), "# Base against head")
    outcome = perform(job, Evaluate(7, "head"))
    assert (outcome.report, outcome.outputs.improved) == ("# Base against head", "false")
    assert desk.evaluated == [Evaluate(7, "head")]
    assert log.getvalue().index("stop-commands") < log.getvalue().index("::error::what a model")


@pytest.mark.parametrize("merged", [False, True])
def test_a_checkout_of_the_head_does_not_judge_itself(job, desk, merged):
    git = Git(job.folder)
    git.run("checkout", "--quiet", "-b", "better")
    git.run("commit", "--quiet", "--allow-empty", "--message", "Better")
    head = git.run("rev-parse", "HEAD").text
    if merged:
        git.run("checkout", "--quiet", "main")
        git.run("merge", "--quiet", "--no-ff", "--message", "Merge", "better")
    for refused in ("evaluate it from base", "rev-parse failed"):
        with pytest.raises(UsageError, match=refused):
            perform(job, Evaluate(7, head))
        git.run("symbolic-ref", "HEAD", "refs/heads/lost")
    assert desk.evaluated == []


def test_nothing_is_told_with_its_reason_and_acts_on_nobody(job, log):
    outcome = perform(job, Nothing("@everyone #1 ![x](https://evil.example)\n::error::forged"))
    assert (outcome.outputs, outcome.exit_code) == (Outputs(result="skipped"), 0)
    assert log.getvalue().count("\n") == 1
    assert "@everyone" not in outcome.report
    assert "https://evil" not in outcome.report


@pytest.mark.parametrize(("trouble", "again"), [("", []), ("damage", [True]), ("budget", [False])])
def test_a_comment_sees_its_command_begin_and_end(job, github_hub, trouble, again):
    if trouble == "damage":
        (job.folder / "skillopt.yaml").write_text("run: 1\n", encoding="utf-8")
    elif trouble:
        tight = (*job.inputs.overrides, "budget.step.calls=5")
        job = replace(job, inputs=replace(job.inputs, overrides=tight))
    perform(job, Perform(Command.STEP, posted(github_hub)))
    last = "confused" if trouble else "rocket"
    assert [content for _, _, content in github_hub.reactions] == ["eyes", last]
    answers = [body for body in github_hub.own_comments() if "key=" in body]
    assert ["re-run its job" in one for one in answers] == again


@pytest.mark.parametrize("reaction", ["eyes", "-1"])
def test_notes_and_refusals_are_answered_by_a_reaction(job, github_hub, reaction):
    perform(job, Nothing("why", posted(github_hub), reaction))
    assert [each[-1] for each in github_hub.reactions] == [reaction]
    # one that fails fails nothing
    assert perform(job, Nothing("seen", Request(404, 1, "step"), "eyes")).exit_code == 0


@pytest.mark.parametrize(
    ("failing", "what", "reactions"),
    [
        ("GET /collaborators/{username}/permission", "say what ada may do", ["confused"]),
        ("GET /pulls", "list pull requests", ["eyes", "confused"]),  # whether a person paused it
    ],
)
def test_a_comment_is_told_that_github_failed(job, github_hub, failing, what, reactions):
    said = {"id": posted(github_hub).id, "body": "/skillopt step"}
    issue = {"number": 1, "pull_request": {}}
    given = {"action": "created", "issue": issue, "comment": said, "sender": {"login": "ada"}}
    payload = job.keep.parent / "event.json"
    payload.write_text(json.dumps(given), encoding="utf-8")
    github_hub.fail(failing, 503, times=6)
    environ = {"GITHUB_EVENT_NAME": "issue_comment", "GITHUB_EVENT_PATH": str(payload)}
    job = replace(job, environ=job.environ | environ)
    with pytest.raises(InfrastructureError, match=f"could not {what}"):
        run(job)
    assert [content for _, _, content in github_hub.reactions] == reactions
    (answer,) = github_hub.own_comments()
    assert f"could not {what}: GitHub answered 503" in answer
    assert "write the command in a new comment or re-run its job" in answer
    assert not Git(job.folder).run("branch", "--list", "skillopt/*").text
    assert run(job) == 0  # re-run, it takes the failure back
    assert [body.endswith("\n\n**Done.**") for body in github_hub.own_comments()] == [True]


@pytest.mark.parametrize(
    ("status", "trains"), [(301, False), (404, False), (401, True), (403, True)]
)
def test_only_a_token_that_may_not_ask_trains_unasked(job, github_hub, status, trains):
    github_hub.fail("GET /pulls", status, headers={"Location": "/repositories/1"}, times=99)
    with nullcontext() if trains else pytest.raises(Refused, match="not list pull requests"):
        perform(job, Perform(Command.STEP))
    assert bool(Git(job.folder).run("branch", "--list", "skillopt/*").text) == trains


@pytest.mark.parametrize(("status", "told"), [(404, "GitHub would not"), (503, "could not")])
def test_a_run_ends_after_the_step_without_an_answer(job, desk, log, github_hub, status, told):
    desk.then = lambda: github_hub.fail("GET /pulls", status, times=6)
    outputs = perform(job, Perform(Command.RUN)).outputs
    assert (outputs.result, outputs.step) == ("done", "1")
    assert f"::notice title=Training waits::{told} list pull requests" in log.getvalue()


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_signal_that_ends_git_interrupts_after_a_step_too(job, desk, tmp_path, monkeypatch, name):
    Git(job.folder).run("clone", "--bare", ".", "bare")
    Git(job.folder).run("remote", "add", "origin", f"{tmp_path}/bare")
    dies = f'case "$*" in *ls-remote*) read -r x; kill -INT $PPID; kill -{name} $$;; esac'
    dying = write_program(tmp_path / "bin" / "git", f'{dies}; exec {shutil.which("git")} "$@"')
    desk.then = lambda: monkeypatch.setenv("PATH", str(dying.parent), prepend=":")
    assert perform(job, Perform(Command.STEP)).exit_code == ExitCode.INTERRUPTED
    assert desk.published[-1].startswith("Stopped: interrupted. What was done is saved")


def posted(hub: Hub) -> Request:
    hub.bare.save("main", "skills/SKILL.md", "# Skill\n")
    Scene(hub).pull()
    return Request(hub.say("ada", "/skillopt"), 1, "step")


class Trained:
    """A checkout whose remote is the repository on GitHub, and the action at work in it."""

    def __init__(self, checkout: Checkout, hub: Hub) -> None:
        self.checkout = checkout
        self.hub = hub
        self._client = Scene(hub).client()
        self._job = make_job(checkout.folder)

    def step(self) -> int:
        """Fetch notes, do a step with them, publish; return how many notes there were."""
        file = self.checkout.folder / ".git" / "notes.json"
        count = leave_notes(self._job, self._client, file)
        session = replace(self.checkout.session(), reviewer_notes=read_notes(file))
        asyncio.run(train_once(session, lambda outcome: None))
        self.publish()
        return count

    def publish(self) -> None:
        assert publish_run(self._job.settings, self._client).notes == ()

    def answers(self) -> list[str]:
        """What the bot said, the pinned comment apart."""
        said = self.hub.own_comments()
        threads = [each["body"] for each in self.hub.reviews.values() if "[bot]" in each["login"]]
        return [body for body in [*said, *threads] if "/note%20" in body]


@pytest.fixture
def trained(pushed: Checkout, github_hub: Hub) -> Trained:
    return Trained(pushed, github_hub)


def test_a_secret_in_a_note_is_left_out_of_the_file(trained, tmp_path):
    trained.step()
    number, secret = next(iter(trained.hub.pulls)), "sk-reviewers-4711-secret"
    trained.hub.say("ada", f"/skillopt note Ask with {secret} instead", number)
    file = tmp_path / "notes.json"
    job = make_job(trained.checkout.folder)
    job.redact.learn([secret])
    assert leave_notes(job, Scene(trained.hub).client(), file) == 1
    assert secret not in file.read_text("utf-8")
    assert HIDDEN in read_notes(file)[0].text
    job = replace(job, client=Scene(trained.hub).client())
    assert all(_notes(job, one) for one in (Command.PROPOSE, Command.PLAN, Command.ROLLOUT))


def test_a_note_is_heard_after_its_pull_request_was_merged(trained):
    trained.step()
    number = next(iter(trained.hub.pulls))
    trained.hub.say("ada", "/skillopt note Name kind b.", number)
    trained.hub.pulls[number] |= {"state": "closed", "merged_at": trained.hub.moment()}
    assert trained.step() == 1


def test_notes_of_reviewers_reach_the_next_step_and_are_answered_once(trained, model_server):
    assert (trained.step(), trained.answers()) == (0, [])  # there was no pull request
    number = next(iter(trained.hub.pulls))
    spoken = trained.hub.say("ada", "/skillopt note Name kind b. Thanks @bob", number)
    # the comment that began its thread was deleted, so GitHub takes no answer
    orphan = trained.hub.review("ada", "Kindly", SKILL, 1, pull=number, reply_to=9_999)
    written = trained.hub.review("ada", "Shorter, please", SKILL, 1, pull=number)
    edit = {"op": "append", "note_ids": [f"issue-{spoken}"]}
    model_server.edit = lambda line: {**edit, "content": f"- {line}"}
    assert trained.step() == 3
    heard = trained.checkout.record(2).proposal.reviewer_notes
    assert {note.id for note in heard} == {
        f"issue-{spoken}", f"review-{orphan}", f"review-{written}"
    }  # fmt: skip
    reverted, idle = trained.answers()
    assert "**Reverted.** Step 2 tried what this note asks for: 0.250 → 0.000" in reverted
    assert "add “Leave out every answer”" in reverted
    assert "**Not taken up.**" in idle
    assert trained.step() == 3
    assert trained.checkout.record(3).proposal.reviewer_notes == ()
    trained.hub.requests.clear()
    del trained.hub.reviews[orphan]
    trained.publish()
    assert trained.answers() == [reverted, idle]
    assert not any(request.startswith("POST") for request in trained.hub.requests)
