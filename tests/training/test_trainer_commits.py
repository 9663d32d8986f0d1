import pytest

from skillopt_ci.skill.document import sha256
from tests.conftest import BRANCH, CANDIDATE, Checkout, opened


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A repository after a merged and a reverted step, to be read only."""
    with opened(tmp_path_factory.mktemp("trained")) as workshop:
        checkout = workshop.checkout()
        checkout.run("train.num_epochs=1")
    return checkout


def trailers(checkout: Checkout, commit: str) -> dict[str, str]:
    pipe = f"git show -s --format=%B {commit} | git interpret-trailers --parse"
    lines = checkout.git("-c", f"alias.facts=!{pipe}", "facts").split("\n")
    return dict(line.split(": ", 1) for line in lines)


def test_first_parents_read_as_a_training_log(trained):
    subjects = trained.subjects()
    assert [subject.partition(":")[0] for subject in subjects] == [
        "Begin",
        "Start training skills/SKILL.md",
        "Merge step 1 (0.000 → 0.250)",
        "Step 2",
        "Revert step 2 (0.250 → 0.000)",
    ]
    # and say in words what changed
    assert "Kind a: a number begins with a" in subjects[2]
    assert "Leave out every answer" in subjects[4]
    assert trained.ref(CANDIDATE) == ""


def test_a_merge_joins_tip_and_candidate_and_a_revert_restores_the_skill(trained):
    previous, candidate = trained.parents(f"{BRANCH}~2")
    assert trained.parents(candidate) == [previous]
    assert trained.show(candidate) == trained.show(f"{BRANCH}~2")
    assert trained.parents(BRANCH) == [trained.git("rev-parse", f"{BRANCH}~1")]
    assert trained.show(f"{BRANCH}~1") != trained.show(BRANCH) == trained.show(f"{BRANCH}~2")


def test_trailers_carry_the_facts(trained):
    facts = trailers(trained, f"{BRANCH}~2")
    assert facts["Skillopt-Step"] == facts["Skillopt-Epoch"] == "1"
    assert facts["Skillopt-Action"] == "accept_new_best"
    assert (facts["Skillopt-Score-Before"], facts["Skillopt-Score-After"]) == ("0", "0.25")
    assert (facts["Skillopt-Tasks"], facts["Skillopt-Edits"]) == ("8", "1")
    assert facts["Skillopt-Tokens"] == str(trained.record(1).usage.tokens)
    assert facts["Skillopt-Skill-Sha256"] == sha256(trained.show(f"{BRANCH}~2"))
    assert facts["Skillopt-Config-Sha256"] == trained.record(1).proposal.config_sha256
    facts = trailers(trained, f"{BRANCH}~1")
    assert facts["Skillopt-Action"] == "proposed"
    assert facts["Skillopt-Skill-Sha256"] == sha256(trained.show(f"{BRANCH}~1"))


@pytest.mark.parametrize(("commit", "step"), [("~3", 0), ("~2", 1), ("", 2)])
def test_memory_agrees_with_the_skill_of_its_commit(trained, commit, step):
    state, last = trained.state(BRANCH + commit), trained.history(BRANCH + commit)[-1]
    assert state.step == last.step == step
    assert state.current.sha256 == last.skill_sha256 == sha256(trained.show(BRANCH + commit))
    best = trained.show(BRANCH + commit, ".skillopt/demo/best_skill.md")
    assert state.best.sha256 == sha256(best)


@pytest.mark.parametrize(
    ("measure", "reused"), [((), 2), (("model.target.temperature=0.5",), None)]
)
def test_text_is_measured_again_only_under_another_measure(checkout, model_server, measure, reused):
    # A new epoch forgets what the last one tried, and the cache is gone with the runner.
    checkout.run("train.num_epochs=1")
    model_server.prompts.clear()
    outcome = checkout.done("cache.path=another.sqlite", *measure)
    assert outcome.record.proposal.skill_after == checkout.record(2).proposal.skill_after
    assert (outcome.decision.action, outcome.decision.reused_from) == ("reject", reused)
    assert any("Item 10" in prompt for prompt in model_server.prompts) == (reused is None)


def test_without_proposals_the_step_is_one_plain_commit(checkout, model_server):
    model_server.plan = ()
    assert checkout.done().decision.action == "skip_no_patches"
    assert checkout.parents(BRANCH) == [checkout.git("rev-parse", f"{BRANCH}~1")]
    assert checkout.subjects()[-1] == "Step 1: no edit was proposed"


def test_edits_that_all_miss_are_rejected_without_a_measurement(checkout, model_server):
    model_server.edit = lambda line: {"op": "replace", "target": "nowhere", "content": line}
    outcome = checkout.done()
    assert (outcome.decision.action, outcome.decision.measurement) == ("reject", None)
    assert (len(checkout.subjects()), checkout.history()[-1].planned) == (3, 0)
    assert checkout.show(BRANCH) == "# Items\n"


def test_only_references_of_training_tasks_reach_the_optimizer(checkout, model_server):
    checkout.run()
    shown = "\n".join(model_server.optimizer_prompts)
    held_out = [f"{kind}{number}" for kind in "abcd" for number in range(100, 300)]
    assert not [reference for reference in held_out if reference in shown]
    assert all(f"- {'abcd'[number % 4]}{number}\n" in shown for number in range(8))
