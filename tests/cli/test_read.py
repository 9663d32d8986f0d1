import re
import shutil
import socket

import pytest
from command_line import in_process

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.report.view import RunView, StepPlace, lessons
from tests.conftest import BRANCH, SKILL, Checkout, Workshop


def test_the_configuration_names_the_run_and_the_repository(cli, trained, tmp_path):
    assert "Run quickstart" in cli(tmp_path, "status", "--config", trained / "skillopt.yaml").out


def test_several_runs_without_a_configuration_are_listed(cli, done, git):
    (done / "skillopt.yaml").unlink()
    git(done, "branch", "skillopt/other", "main")
    told = cli(done, "status")
    assert told.code == 2
    assert "these runs are here: other, quickstart" in told.err
    assert cli(done, "status", "--run", "quickstart").code == 0


def test_no_run_at_all_is_said(cli, fresh):
    (fresh / "skillopt.yaml").unlink()
    told = cli(fresh, "log")
    assert told.code == 2
    assert "no run has started here" in told.err


def test_a_merged_run_is_read_from_base(cli, done, git):
    git(done, "merge", "--quiet", "--ff-only", "skillopt/quickstart")
    git(done, "branch", "--delete", "--force", "skillopt/quickstart")
    (done / "skillopt.yaml").unlink()
    assert re.search(r"last step +2 ", cli(done, "status").out)


def seen(checkout: Checkout) -> RunView:
    return view(open_reader(Globals({}, checkout.folder)))


@pytest.fixture
def two_steps(checkout: Checkout) -> Checkout:
    checkout.step()
    checkout.step()
    return checkout


@pytest.mark.parametrize(
    ("number", "refs"), [(1, (f"{BRANCH}~2", f"{BRANCH}~2^2")), (2, (BRANCH, f"{BRANCH}^"))]
)
def test_a_merge_or_a_revert_has_its_candidate(two_steps, number, refs):
    place = seen(two_steps).place(number)
    assert [place.verdict, place.candidate] == two_steps.git("rev-parse", *refs).split()
    assert place.seconds is not None


def test_the_evidence_of_all_steps_is_there_and_base_has_nothing_yet(two_steps):
    run = seen(two_steps)
    assert [record.step for record in run.steps] == [1, 2]
    assert (run.base, run.commit) == ("main", two_steps.ref(BRANCH))
    assert (run.base_events, run.improved) == (0, True)
    # what a pull request proposes is told however long ago it was merged
    newest = view(open_reader(Globals({}, two_steps.folder)), newest=1)
    assert [one.name for one in lessons(newest)] == ["step 1"]


def test_after_a_merge_nothing_is_left_to_propose(two_steps):
    two_steps.git("update-ref", "refs/heads/main", two_steps.ref(BRANCH))
    run = seen(two_steps)
    assert (run.base_events, run.improved) == (3, False)
    assert run.place(1) != StepPlace()


def test_a_rule_that_a_person_removed_is_not_told_as_learned(two_steps):
    assert lessons(seen(two_steps))
    two_steps.commit(SKILL, two_steps.show("main"), branch=BRANCH)
    assert not lessons(seen(two_steps))


def test_a_rule_that_was_removed_and_learned_again_is_told_once(two_steps):
    rule = lessons(seen(two_steps))[0].rules
    two_steps.commit(SKILL, two_steps.show("main"), branch=BRANCH)
    two_steps.step("train.num_epochs=2")
    (lesson,) = lessons(seen(two_steps))
    assert (lesson.name, lesson.rules) == ("step 3", rule)


def test_the_next_pull_request_starts_from_the_skill_that_base_has_by_then(two_steps):
    two_steps.git("merge", "--quiet", "--ff-only", BRANCH)
    two_steps.commit(SKILL, "# Fresh\n")
    two_steps.step("train.num_epochs=2")
    assert two_steps.kinds()[3:] == ["measure", "step"]
    assert seen(two_steps).base_events == 4


def test_after_a_squash_the_steps_are_told_without_their_commits(two_steps):
    tree = two_steps.git("rev-parse", f"{BRANCH}^{{tree}}")
    squashed = two_steps.git("commit-tree", "-p", "main", "-m", "Squashed", tree)
    two_steps.git("update-ref", "refs/heads/main", squashed)
    two_steps.git("branch", "-D", BRANCH)
    run = seen(two_steps)
    assert [record.step for record in run.steps] == [1, 2]
    assert run.place(1) == StepPlace()


def test_a_step_of_another_run_is_not_taken_for_one_of_this(two_steps):
    current = seen(two_steps).state.current.sha256
    text = two_steps.git("log", "-1", "--format=%B", BRANCH).replace(current, "0" * 64)
    forged = two_steps.git("commit-tree", "-p", BRANCH, "-m", text, f"{BRANCH}^{{tree}}")
    two_steps.git("update-ref", f"refs/heads/{BRANCH}", forged)
    assert seen(two_steps).place(2).verdict != forged


def test_ends_of_epochs_have_a_place_of_their_own(checkout):
    for _ in range(2):
        checkout.step()
    ended = checkout.end_epoch()
    run = seen(checkout)
    assert run.place(1, "slow_update").verdict == ended.commit
    assert [record.epoch for record in run.epochs] == [1]


@pytest.fixture
def merged(workshop: Workshop) -> Checkout:
    """A clone of what was merged, with the skills branch gone and origin out of reach."""
    origin = workshop.origin()
    trainer = workshop.clone(origin, "trainer")
    trainer.step("git.remote=origin")
    trainer.git("merge", "--quiet", "skillopt/demo")
    trainer.git("push", "--quiet", "origin", "main", ":skillopt/demo")
    clone = workshop.clone(origin, "clone")
    shutil.rmtree(origin)
    return clone


@pytest.mark.parametrize("default_branch", ["known", "unknown"])
def test_a_run_is_read_without_origin(merged, default_branch):
    if default_branch == "unknown":  # as after `git fetch` without `git clone`
        merged.git("remote", "set-head", "origin", "--delete")
    for words in (("log",), ("status",), ("show", "1"), ("report",)):
        done = in_process(merged.folder, *words)
        assert done.returncode == 0, done.stderr
        assert "origin" in done.stdout + done.stderr, f"{words} does not say that this may be old"


def test_a_run_is_read_though_origin_never_answers(merged, monkeypatch):
    monkeypatch.setattr("skillopt_ci.git.remote.ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/x.git"
        merged.git("remote", "set-url", "origin", url)
        read, trained = in_process(merged.folder, "log"), in_process(merged.folder, "step")
    assert read.returncode == 0, read.stderr
    assert "origin cannot be read: this is from main as of" in read.stderr
    assert trained.returncode == 5
    assert "the network or the server failed\ntimed out after 0.3 seconds" in trained.stderr


def test_report_of_a_shallow_clone_is_written_without_origin(workshop):
    origin = workshop.origin()
    workshop.clone(origin, "trainer").run(
        "train.num_epochs=1", "evaluation.eval_test=false", "git.remote=origin"
    )
    clone = workshop.clone(origin, "clone", "--depth=1", "--no-single-branch")
    shutil.rmtree(origin)
    done = in_process(clone.folder, "report")
    assert done.returncode == 0, done.stderr
    assert "origin cannot be read, and this clone is shallow" in done.stderr
