import json
import re
import shlex

import pytest
from command_line import in_process, overrides
from training_runs import estimated

from skillopt_ci.errors import RepositoryError, SkillError
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Decision, Snapshot
from skillopt_ci.progress import Event, Note
from skillopt_ci.skill.document import sha256
from skillopt_ci.training.prefetcher import look_ahead
from skillopt_ci.training.state import decided_snapshots
from tests.conftest import BRANCH, CANDIDATE, RULES, SKILL, Checkout, tasks

LONG = "# Items\n\nOne.\nTwo.\nThree.\nFour.\nFive.\n\n## Rules\n\nAs follows.\n"


def status(checkout: Checkout, *settings: str) -> str:
    return " ".join(in_process(checkout.folder, "status", *overrides(*settings)).stdout.split())


def test_other_files_of_base_are_left_to_the_merge(checkout):
    checkout.step()
    checkout.commit("README.md", "about\n")
    checkout.step()
    assert checkout.kinds() == ["start", "step", "step"]
    assert "README.md" not in checkout.git("ls-tree", "--name-only", BRANCH).split("\n")


def test_skill_that_changed_on_base_is_taken_in_and_measured(workshop):
    checkout = workshop.checkout(skill=LONG)
    checkout.step()
    checkout.commit(".skillopt/README.md", "Written by another version.\n")
    theirs = checkout.commit(SKILL, LONG.replace("# Items", "# All items"))
    assert "by hand; then step 2" in status(checkout, "prompts=gone")  # which cannot be read
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.contains(theirs)
    merged = checkout.show(BRANCH)
    assert (merged.startswith("# All items"), "Kind a:" in merged) == (True, True)
    assert checkout.record(1).decision.stays
    assert checkout.state().step == 2


@pytest.mark.parametrize("told", [rf"{SKILL}[\s\S]+keep that branch's", rf"unrelated.+If {BRANCH}"])
def test_conflict_with_base_is_told_and_nothing_moves(checkout, told):
    checkout.step()
    before = checkout.ref(BRANCH)
    checkout.commit(SKILL, "# Something else\n")
    if "unrelated" in told:
        rewritten = checkout.git("commit-tree", "main^{tree}", "-m", "One commit for all")
        checkout.git("update-ref", "refs/heads/main", rewritten)
    with pytest.raises(RepositoryError, match=told) as refused:
        checkout.step()
    assert f"no step until you fix this: {refused.value.sentences}" in status(checkout)
    found = in_process(checkout.folder, "status", "--json").stdout
    assert (json.loads(found)["refused"], '"next": null' in found) == (
        refused.value.sentences,
        True,
    )
    assert checkout.ref(BRANCH) == before
    # until a person has merged it
    tree = f"{BRANCH}^{{tree}}"
    merge = checkout.git("commit-tree", tree, "-p", BRANCH, "-p", "main", "-m", "Merge by hand")
    checkout.git("update-ref", f"refs/heads/{BRANCH}", merge)
    assert checkout.done().record.step == 2


def merge_pull_request(checkout: Checkout, *, squash: bool, branch: str = BRANCH) -> str:
    """Merge the skills branch into main as a forge does, without a checkout."""
    parents = ["-p", "main"] if squash else ["-p", "main", "-p", branch]
    tree = checkout.git("rev-parse", f"{branch}^{{tree}}")
    merge = checkout.git("commit-tree", tree, *parents, "-m", "Merge the pull request")
    checkout.git("update-ref", "refs/heads/main", merge)
    return merge


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_merged_pull_request_is_gone_on_from(checkout, squash, deleted):
    checkout.step()
    merge = merge_pull_request(checkout, squash=squash)
    if deleted:
        checkout.git("branch", "-D", BRANCH)
    outcome = checkout.done()
    assert (outcome.record.step, outcome.decision.score_before) == (2, 0.25)
    assert checkout.contains(merge)
    assert checkout.kinds() == ["start", "step", "step"]


@pytest.mark.parametrize("branch", [BRANCH, "main"])
def test_a_git_revert_takes_back_the_skill_and_no_record(checkout, model_server, branch):
    checkout.step()
    if branch == "main":
        merge_pull_request(checkout, squash=False)
    with checkout.worktree(branch) as there:
        there.git("revert", "--mainline", "1", "--no-edit", "HEAD")
    assert "measure the skill again, since it was changed by hand; then step 2" in status(checkout)
    model_server.plan = (RULES["b"],)
    assert look_ahead(checkout.session()).step == 2
    outcome = checkout.done()
    assert (outcome.record.step, checkout.kinds()) == (2, ["start", "step", "measure", "step"])
    assert "Kind b:" in checkout.show(BRANCH)
    assert "Kind a:" not in checkout.show(BRANCH)


def test_a_git_revert_of_a_rejection_takes_back_the_verdict_and_no_record(checkout):
    checkout.step()
    checkout.step()
    with checkout.worktree(BRANCH) as there:
        there.git("revert", "--no-edit", "HEAD")
    checkout.step("train.num_epochs=2")
    assert checkout.kinds() == ["start", "step", "step", "measure", "step"]


def test_a_run_whose_folder_was_removed_from_base_begins_anew(checkout):
    checkout.step()
    merge_pull_request(checkout, squash=False)
    with checkout.worktree("main") as there:
        there.git("rm", "-r", "--quiet", ".skillopt")
        there.git("commit", "--quiet", "-m", "Begin anew")
    assert (checkout.done().record.step, checkout.kinds()) == (1, ["start", "step"])


def test_a_branch_that_lost_its_merges_by_a_rebase_is_not_trained_again(checkout):
    checkout.step()
    tip = checkout.ref(BRANCH)
    checkout.git("update-ref", f"refs/heads/{BRANCH}", f"{BRANCH}^2")
    with pytest.raises(RepositoryError, match=rf"{BRANCH} has step 1, but not that it was merged"):
        checkout.step()
    merge_pull_request(checkout, squash=True)
    checkout.git("branch", "-D", BRANCH)
    with pytest.raises(RepositoryError, match=r"main has step 1, but not that it was merged"):
        checkout.step()
    checkout.git("branch", BRANCH, tip)
    assert checkout.done().record.step == 2


def test_a_stale_copy_of_a_merged_branch_goes_on_from_base(workshop):
    origin = workshop.origin()
    stale, newest = (workshop.clone(origin, name) for name in ("stale", "newest"))
    stale.step()
    newest.step()
    merge_pull_request(newest, squash=True)
    newest.git("push", "--quiet", "origin", "main", f":{BRANCH}")
    stale.git("fetch", "--quiet", "--prune", "origin")
    assert "next step 3 of 4, by" in status(stale)
    assert "2 steps done, now at" in in_process(stale.folder, "check").stdout
    assert stale.done().record.step == 3
    assert stale.kinds() == ["start", "step", "step", "step"]


def test_a_squash_with_all_messages_is_no_step_to_take_back(checkout, model_server):
    model_server.plan = (RULES["a"], RULES["b"], RULES["c"])
    checkout.step()
    checkout.step()
    messages = checkout.git("log", "--reverse", "--format=* %B", f"main..{BRANCH}")
    tree = checkout.git("rev-parse", f"{BRANCH}^{{tree}}")
    squash = checkout.git("commit-tree", tree, "-p", "main", "-m", f"Train\n\n{messages}")
    checkout.git("update-ref", "refs/heads/main", squash)
    checkout.git("branch", "-D", BRANCH)
    checkout.step()
    done = in_process(checkout.folder, "revert", "2")
    assert (done.returncode, "squashed" in done.stderr, ", on main;" in done.stderr) == (2, 1, 1)
    told = in_process(checkout.folder, "replay", "--json").stdout
    assert [told.count(word) for word in ("the commits are gone", "the same")] == [2, 1]


def test_steps_are_found_behind_many_commits_of_others(workshop):
    checkout = workshop.checkout(skill=LONG)
    checkout.step()
    others = "for i in $(seq 150); do c=$(git commit-tree -p $c -m x $c^{tree}); done; echo $c"
    many = checkout.git("-c", f"alias.many=!c=main; {others}", "many")
    checkout.git("update-ref", "refs/heads/main", many)
    checkout.commit(SKILL, LONG.replace("# Items", "# All items"))
    checkout.step()
    assert in_process(checkout.folder, "replay", "--json").stdout.count("the same") == 2


def test_step_that_landed_while_the_pull_request_was_squashed_is_kept(checkout):
    checkout.step()
    squashed = checkout.ref(BRANCH)
    checkout.step()
    checkout.step()
    checkout.step()
    merge_pull_request(checkout, squash=True, branch=squashed)
    checkout.done("train.num_epochs=3")
    assert "Kind b:" in checkout.show(BRANCH)
    assert checkout.state().step == 5


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("text", ["# Fresh\n", ""])
def test_skill_that_was_edited_after_the_merge_is_measured(checkout, squash, text):
    text = text or checkout.show("main")
    checkout.step()
    merge_pull_request(checkout, squash=squash)
    checkout.commit(SKILL, text)
    assert "measure the skill again, since it was changed by hand; then step 2" in status(checkout)
    checkout.step()
    assert checkout.kinds() == ["start", "step", "measure", "step"]
    assert checkout.history()[2].skill_sha256 == sha256(text)


def test_run_that_trains_another_skill_is_refused(checkout):
    checkout.step()
    with checkout.worktree(BRANCH) as there:
        (there.folder / "other.md").symlink_to(SKILL)
        there.git("add", "other.md")
        there.git("commit", "--quiet", "-m", "Link")
    checkout.commit("other.md", "# Other\n")
    with pytest.raises(RepositoryError, match=r"Change `run`.+merge skillopt/"):
        checkout.step("skill=other.md")


def test_a_clean_filter_that_is_missing_stops_no_training(checkout):
    checkout.git("config", "filter.x.clean", "false")
    checkout.git("config", "filter.x.required", "true")
    checkout.write(".gitattributes", "* filter=x\n")
    checkout.write("tasks/train.jsonl", (checkout.folder / "tasks/train.jsonl").read_text("utf-8"))
    done = in_process(checkout.folder, "step", "-q")
    assert (done.returncode, checkout.kinds()) == (0, ["start", "step"]), done.stderr
    everywhere = ("-c", "core.attributesFile=.gitattributes")  # but records pass no filter
    checkout.git(*everywhere, "archive", "--output=records.tar", BRANCH, ".skillopt/demo")


def test_skill_that_is_not_committed_is_refused(checkout):
    checkout.write("a's draft.md", "# Draft\n")
    quoted = re.escape(shlex.quote("a's draft.md"))
    with pytest.raises(SkillError, match=rf"\(main \w{{10}}\)(?s:.*)git add {quoted} &&"):
        checkout.step("skill=a's draft.md", "run=draft")
    checkout.step()
    without = checkout.git("commit-tree", f"{BRANCH}:tasks", "-p", BRANCH, "-m", "Delete the skill")
    checkout.git("update-ref", f"refs/heads/{BRANCH}", without)
    with pytest.raises(SkillError, match=rf"\({BRANCH} \w{{10}}\)") as refused:
        checkout.step()
    assert refused.value.sentences in status(checkout)


@pytest.mark.parametrize(
    "options", [("--depth=1",), ("--single-branch",), ("--depth=1", "--no-single-branch")]
)
def test_partial_clones_go_on_with_a_run(workshop, options):
    origin = workshop.origin()
    workshop.clone(origin, "first").step()
    clone = workshop.clone(origin, "second", *options)
    outcome = clone.done()
    assert outcome.record.step == 2
    assert clone.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(outcome.commit)


@pytest.fixture
def in_flight(checkout: Checkout) -> str:
    """The second step's candidate, which nobody has judged."""
    checkout.step()
    checkout.stop()
    return checkout.ref(CANDIDATE)


def test_step_in_flight_is_judged_without_proposing_again(checkout, in_flight, model_server):
    model_server.prompts.clear()
    outcome = checkout.done("cache.enabled=false")
    assert outcome.record.step == 2
    assert checkout.git("rev-parse", f"{outcome.commit}^") == in_flight
    assert model_server.optimizer_prompts == []
    assert all("Item 10" in prompt for prompt in model_server.prompts)


def test_reviewers_commit_sets_the_candidate_aside(checkout, in_flight):
    cost = checkout.record(2, in_flight).usage
    checkout.commit("skills/SKILL.md", "# Other\n", branch=BRANCH)
    outcome = checkout.done()
    assert checkout.kinds() == ["start", "step", "measure", "set_aside", "step"]
    assert outcome.record.step == 2
    assert checkout.ref(CANDIDATE) == ""
    aside = checkout.git("log", "--format=%H", "--grep=Set aside.*: the run moved on", BRANCH)
    assert checkout.show(aside) == "# Other\n"
    assert checkout.git("rev-parse", f"{aside}^2") == in_flight
    assert checkout.history()[3].usage == cost
    assert checkout.state().usage.calls == sum(one.usage.calls for one in checkout.history())


def test_a_candidate_is_set_aside_once_scores_no_longer_compare(checkout, in_flight):
    soft = "evaluation.gate_metric=soft"
    told = status(checkout, soft)
    assert f"its candidate {in_flight[:10]} will be set aside" in told
    assert "again, since the selection tasks or the way of measuring changed with this conf" in told
    assert estimated(checkout.session(soft), "step")["rollout"].low == 4
    checkout.step(soft)
    assert checkout.kinds() == ["start", "step", "measure", "set_aside", "step"]


def test_candidate_that_is_part_of_the_branch_is_only_tidied_away(checkout):
    checkout.step()
    checkout.git("update-ref", f"refs/heads/{CANDIDATE}", checkout.git("rev-parse", f"{BRANCH}^2"))
    checkout.step()
    assert (checkout.kinds(), checkout.ref(CANDIDATE)) == (["start", "step", "step"], "")


def test_candidate_left_after_the_last_step_is_set_aside(checkout, in_flight):
    checkout.commit("README.md", "about\n", branch=BRANCH)
    assert checkout.step("budget.run.calls=1") is None
    assert checkout.kinds() == ["start", "step", "set_aside"]
    assert checkout.contains(in_flight)


def test_a_candidate_beyond_an_end_that_was_moved_is_decided(checkout):
    checkout.step()
    checkout.step()
    checkout.stop()
    assert checkout.done("train.num_epochs=1").record.step == 3


@pytest.mark.parametrize("before", [(), ("evaluation.use_gate=false",)])
def test_a_verdict_of_another_configuration_than_is_on_record_is_not_called_false(checkout, before):
    checkout.step()
    checkout.stop(*before)
    checkout.write("tasks/train.jsonl", tasks(0, 7))  # so that the proposal's is not kept
    checkout.step("evaluation.use_gate=false")
    done = in_process(checkout.folder, "replay", "--json")
    assert (done.returncode, done.stdout.count("the configuration had changed")) == (0, 1)


PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
ONE = (*PLAIN, "train.num_epochs=1")


def test_a_changed_key_is_noted_recorded_and_committed(checkout):
    checkout.run(*ONE)
    events: list[Event] = []
    checkout.run(*PLAIN, "optimizer.learning_rate=5", observer=events.append)
    told = ("optimizer.learning_rate (6 → 5)", "train.num_epochs (1 → 2)")
    assert [checkout.record(step).changes for step in (1, 2, 3, 4)] == [(), (), told, ()]
    assert "measure" not in checkout.kinds()
    notes = [event.text for event in events if isinstance(event, Note)]
    assert f"Changed since the last step: {', '.join(told)}." in notes
    log = checkout.git("log", "--format=%B", BRANCH)
    assert "optimizer.learning_rate (6 → 5)" in " ".join(log.split())


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda text: "\n".join(text.splitlines()[:6]), "the training tasks (8 → 6)"),
        (lambda text: text.replace("}", ', "reference_text": "why"}', 1), "the training tasks"),
    ],
)
def test_a_changed_task_file_is_named(checkout, edit, named):
    checkout.run(*ONE)
    text = (checkout.folder / "tasks/train.jsonl").read_text(encoding="utf-8")
    checkout.write("tasks/train.jsonl", edit(text))
    checkout.run(*PLAIN)
    assert named in checkout.record(3).changes


def test_a_change_that_asks_for_a_new_measurement_is_named_there(checkout):
    checkout.run(*ONE)
    checkout.run(*PLAIN, "evaluation.gate_metric=soft")
    measured = checkout.git("log", "--format=%H", "--grep=^Measure again", BRANCH)
    body = checkout.git("show", "-s", "--format=%B", measured)
    assert "evaluation.gate_metric (hard → soft)" in " ".join(body.split())


def test_a_change_under_a_candidate_is_named_by_the_step_after_it(checkout):
    checkout.stop(*PLAIN)
    checkout.run(*PLAIN, "optimizer.learning_rate=5")
    assert checkout.record(1).changes == ()
    assert checkout.record(2).changes == ("optimizer.learning_rate (6 → 5)",)


def test_what_may_hold_a_secret_is_kept_as_a_hash(checkout):
    checkout.run(*ONE, "model.target.extra_body={secret: sk-hidden}")
    basis = checkout.state().basis
    assert basis.train_size == 8
    assert "sk-hidden" not in checkout.show(BRANCH, ".skillopt/demo/state.json")


MEASURED = Measurement(hard=0.5, soft=0.5, score=0.5)
AFTER_TEXT = "# B\n"
AFTER = Snapshot(sha256=sha256(AFTER_TEXT), step=2, origin="step 2", measurement=MEASURED)
SCORES = {"score_before": 0.25, "score_after": 0.5}
DECISION = Decision(action="accept", reason="", metric="hard", measurement=MEASURED, **SCORES)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"action": "accept"}, {"current": AFTER}),
        ({"action": "force_accept"}, {"current": AFTER}),
        ({"action": "accept_new_best", "beats_best": True}, {"current": AFTER, "best": AFTER}),
        ({"action": "force_accept", "beats_best": True}, {"current": AFTER, "best": AFTER}),
        ({"action": "reject"}, {}),
        ({"measurement": None}, {}),
        (None, {}),
    ],
)
def test_what_stays_becomes_the_current_skill(changes, kept):
    decision = None if changes is None else DECISION.model_copy(update=changes)
    assert decided_snapshots(decision, AFTER_TEXT, 2, "step 2") == kept
