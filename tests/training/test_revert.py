"""A person takes back a merged step: one commit, scored and remembered by what comes next."""

from collections.abc import Callable

import pytest

from skillopt_ci.cli.main import main
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.report.view import lessons
from skillopt_ci.skill.regions import SLOW_UPDATE
from tests.conftest import BRANCH, HARMFUL, RULES, SKILL, Checkout, ModelServer

A, B, C = (RULES[kind] for kind in "abc")
OPEN_BLOCK, REGION = "\n```\nx\n", f"\n{SLOW_UPDATE.start}\n{SLOW_UPDATE.end}\n"
Revert = Callable[..., tuple[int, str]]


@pytest.fixture
def revert(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Revert:
    def run(checkout: Checkout, what: str) -> tuple[int, str]:
        monkeypatch.chdir(checkout.folder)
        monkeypatch.setenv("DEMO_KEY", "sk-demo-key")
        monkeypatch.setenv("GITHUB_ACTOR", "wen")
        capfd.readouterr()
        return main(["revert", *what.split(" ")]), capfd.readouterr().err

    return run


@pytest.fixture
def two_rules(checkout: Checkout, model_server: ModelServer) -> Checkout:
    model_server.plan = (A, B, C)
    checkout.step()
    checkout.step()
    return checkout


def test_a_step_is_taken_back_and_what_others_wrote_stays(two_rules, model_server, revert):
    skill = two_rules.show(BRANCH)
    two_rules.commit(SKILL, skill.replace("# Items", "# All items"), branch=BRANCH)
    before = two_rules.ref(BRANCH)
    merge = two_rules.git("log", "--format=%H", "--grep=^Merge step 1", BRANCH)
    assert revert(two_rules, "KIND a:  a number") == (0, "")
    assert two_rules.show(BRANCH) == skill.replace("# Items", "# All items").replace(
        f"- {A}\n\n", ""
    )
    assert two_rules.git("rev-parse", f"{BRANCH}^@") == before
    assert f"This reverts commit {merge}." in two_rules.git("log", "-1", "--format=%B", BRANCH)
    changed = two_rules.git("diff", "--name-only", before, BRANCH).split("\n")
    # badge and card wait for a score
    names = ("badge.json", "card.json", "history.jsonl")
    assert changed == [*(f".skillopt/demo/{name}" for name in names), SKILL]
    assert not view(open_reader(Globals({}, two_rules.folder))).improved
    last = two_rules.history()[-1]
    assert (last.kind, last.step, last.reason) == ("revert", 1, "step 1, by wen")
    model_server.prompts.clear()
    outcome = two_rules.done()
    assert two_rules.kinds() == ["start", "step", "step", "revert", "measure", "step"]
    assert two_rules.history()[-2].reason == "step 1 taken back"
    told = [one for one in model_server.optimizer_prompts if "Stage: analyst" in one]
    assert told
    order = f'Do not propose them again in any words:\n1. [append] "- {A}"'
    assert all(order in one for one in told)
    assert A not in two_rules.show(BRANCH)
    assert outcome.decision.stays
    # it was the best, with what was taken back
    assert A not in two_rules.show(BRANCH, ".skillopt/demo/best_skill.md")
    assert outcome.state.best.step == 3


def test_a_text_that_was_measured_before_is_not_measured_again(two_rules, model_server, revert):
    score = two_rules.history()[1].score_after
    assert revert(two_rules, "Step 2") == (0, "")
    model_server.answered.clear()
    two_rules.step("cache.path=another.sqlite", "train.num_epochs=1")
    assert two_rules.history()[-1].kind == "measure"
    state = two_rules.state()
    assert state.current.measurement.score == score == state.best.measurement.score
    assert not model_server.answered


def test_twice_is_once_and_what_cannot_be_done_moves_nothing(two_rules, model_server, revert):
    model_server.plan = (HARMFUL,)
    assert not two_rules.done().decision.stays
    revert(two_rules, "1")
    tip = two_rules.ref(BRANCH)
    assert revert(two_rules, "1") == (3, "Nothing to do: the skill has nothing left of step 1.\n")
    none = "no merged step or rule matches"
    for what, why in (("3", none), (HARMFUL, none), ("number begins", "several"), ("", none)):
        code, said = revert(two_rules, what)
        assert (code, why in said) == (2, True)
        assert "(merged steps: 2)" in said
    assert two_rules.ref(BRANCH) == tip
    edited = two_rules.show(BRANCH).replace(B, "Something else.")
    tip = two_rules.commit(SKILL, edited, branch=BRANCH)
    code, said = revert(two_rules, "2")
    assert (code, "was changed since" in said, two_rules.ref(BRANCH)) == (2, True, tip)


def test_one_push_does_it_and_a_candidate_in_flight_is_set_aside(workshop, revert):
    workshop.server.plan = (A, B, C)
    origin = workshop.origin()
    checkout = workshop.clone(origin, "clone")
    checkout.step()
    checkout.stop()
    assert revert(checkout, A) == (0, "")
    assert checkout.git("ls-remote", "origin", BRANCH).split()[0] == checkout.ref(BRANCH)
    other = workshop.clone(origin, "other")
    other.step()
    assert other.kinds() == ["start", "step", "revert", "measure", "set_aside", "step"]
    assert A not in other.show(BRANCH)


@pytest.fixture
def one_step(checkout: Checkout, model_server: ModelServer) -> Checkout:
    plain = model_server._edits
    edits = ", ".join(f'{{"op": "append", "content": "- {line}"}}' for line in (A, B))
    model_server._edits = lambda line: f'{{"patch": {{"edits": [{edits if line else ""}]}}}}'
    checkout.step()
    model_server._edits = plain
    return checkout


def test_one_of_several_rules_does_not_take_the_others_along(one_step, model_server, revert):
    skill = one_step.show(BRANCH)
    one_step.commit(SKILL, skill.replace("# Items", "# All items"), branch=BRANCH)
    assert revert(one_step, "KIND a:  a number") == (0, "")
    left = skill.replace("# Items", "# All items").replace(f"- {A}\n\n", "")
    assert one_step.show(BRANCH) == left
    assert B in left
    subject, _, body = one_step.git("log", "-1", "--format=%B", BRANCH).partition("\n")
    assert subject == f"Take back a rule of step 1, by wen: {A.rstrip('.')}"
    merge = one_step.git("log", "--format=%H", "--grep=^Merge step 1", BRANCH)
    assert f"This reverts edit 1 of commit {merge}." in body
    last = one_step.history()[-1]
    assert (last.kind, last.step, last.edit) == ("revert", 1, 1)
    # the pull request still tells of the other one
    (lesson,) = lessons(view(open_reader(Globals({}, one_step.folder))))
    assert [B.rstrip(".") in rule for rule in lesson.rules] == [True]
    assert "taken back" in lesson.name
    model_server.plan = (C,)
    one_step.done("train.num_epochs=2")
    assert "a rule of step 1 taken back" in [one.reason for one in one_step.history()]
    asked = [one for one in model_server.optimizer_prompts if "Stage: analyst" in one]
    told = [one.partition("again in any words:\n")[2].partition("```")[0] for one in asked]
    assert all(one.startswith(f'1. [append] "- {A}"') and B not in one for one in told[-2:])


#: Each order, block and region meets each other one.
ORDERS = [("ab", "", ""), ("ab", OPEN_BLOCK, REGION), ("bac", "", REGION)]
ORDERS += [("bac", OPEN_BLOCK, ""), ("cba", "", ""), ("cba", OPEN_BLOCK, REGION)]


@pytest.mark.parametrize(("kinds", "block", "region"), ORDERS)
def test_the_rules_of_a_step_go_in_any_order(checkout, model_server, revert, kinds, block, region):
    checkout.commit(SKILL, f"# All items\n{block}{region}")
    edits = ", ".join(f'{{"op": "append", "content": "- {line}"}}' for line in (A, B, C))
    model_server._edits = lambda line: f'{{"patch": {{"edits": [{edits if line else ""}]}}}}'
    checkout.step("train.batch_size=8", "gradient.minibatch_size=8")
    for kind in kinds:
        assert revert(checkout, f"KIND {kind}:")[0] == 0
        assert "the skill has nothing left of that rule" in revert(checkout, f"KIND {kind}:")[1]
    before, left = f"# All items\n{block}{block and '```'}\n", {*"abc"} - {*kinds}
    kept = "".join(f"- {RULES[kind]}\n" for kind in sorted(left))
    found = (checkout.show(BRANCH).split(), revert(checkout, "1")[0])
    assert found == (f"{before}{kept}{region}".split(), 0 if left else 3)
    assert checkout.show(BRANCH).split() == f"{before}{region}".split()
    assert revert(checkout, "KIND c:")[0] == 3


def test_a_rule_that_closes_a_code_block_stays_when_the_next_one_goes(
    checkout, model_server, revert
):
    checkout.commit(SKILL, "# All items\n\n```\nx\n")
    edits = '{"op": "replace", "target": "x", "content": "y\\n```"}'
    marked = B.replace("b:", "**`b`**:")  # pages show it without the marks
    edits += "".join(f', {{"op": "append", "content": "- {line}"}}' for line in (marked, C))
    model_server._edits = lambda line: f'{{"patch": {{"edits": [{edits if line else ""}]}}}}'
    checkout.step("train.batch_size=8", "gradient.minibatch_size=8")
    assert checkout.show(BRANCH) == f"# All items\n\n```\ny\n```\n\n- {marked}\n\n- {C}\n"
    assert revert(checkout, "KIND b:…")[0] == 0  # as titles cut it
    assert checkout.show(BRANCH) == f"# All items\n\n```\ny\n```\n\n- {C}\n"


def test_a_code_block_that_a_step_closed_stays_closed(checkout, model_server, revert):
    checkout.commit(SKILL, "# All items\n\n```\nx\n")
    model_server.plan = (A, B)
    checkout.step()
    checkout.step()
    assert revert(checkout, "1")[0] == 0
    assert checkout.show(BRANCH) == f"# All items\n\n```\nx\n```\n\n- {B}\n"


def test_a_rule_that_was_changed_since_is_a_conflict(one_step, revert):
    tip = one_step.commit(SKILL, one_step.show(BRANCH).replace(B, "Something else."), branch=BRANCH)
    code, said = revert(one_step, "KIND b:")
    assert (code, "That rule of step 1 cannot be taken back" in said) == (2, True)
    assert "was changed since, or inserted by an earlier version." in said
    assert one_step.ref(BRANCH) == tip
    assert revert(one_step, "KIND a:") == (0, "")
