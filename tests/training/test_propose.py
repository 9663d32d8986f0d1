"""The costly half of a step when something runs out: a budget, or the server's good health."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from update_modes import PATCH

from skillopt_ci.errors import BudgetExhausted, TooManyErrors
from skillopt_ci.ledger.evidence import LearningRateRecord, RolloutRecord
from skillopt_ci.model.types import ModelUnavailable, total
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training import state
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.guard import guard_context
from skillopt_ci.training.propose import coerced, decide_learning_rate
from skillopt_ci.training.trainer import Outcome, prepare
from tests.conftest import BRANCH, CANDIDATE, SKILL, Checkout, ModelServer

#: A step's calls: 8 for the baseline, then 4 rollouts, 2 analysts, 1 merge, 8 for the candidate.
IN_BASELINE, IN_ROLLOUT, IN_REFLECT, IN_SELECTION = 5, 10, 13, 20


@pytest.mark.parametrize("calls", [IN_BASELINE, IN_ROLLOUT, IN_REFLECT, IN_SELECTION])
def test_raised_budget_goes_on_without_paying_again(checkout, model_server, calls):
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.calls"):
        checkout.step(f"budget.run.calls={calls}")
    assert model_server.answered.total() == calls
    kept = checkout.ref(CANDIDATE)
    assert (kept != "") == (calls == IN_SELECTION)
    checkout.done()
    assert kept in ("", checkout.git("rev-parse", f"{BRANCH}^2"))
    assert model_server.most_answers == 1
    assert checkout.state().usage.calls == model_server.answered.total() == 23


@pytest.mark.parametrize(
    "change", ["model.optimizer.temperature=1", "model.target.max_output_tokens=9"]
)
def test_a_used_up_budget_stays_so_and_is_counted_whatever_changes(checkout, model_server, change):
    for overrides in ((), (), (change,)):
        with pytest.raises(BudgetExhausted, match=r"budget\.run\.calls"):
            checkout.step(f"budget.run.calls={IN_ROLLOUT}", *overrides)
        assert model_server.answered.total() == IN_ROLLOUT
        checkout.commit("notes.md", f"{overrides}\n{checkout.ref(BRANCH)}\n", branch=BRANCH)
    checkout.done(change)
    assert checkout.state().usage.calls == model_server.answered.total()
    assert checkout.state().usage == total(checkout.state().accounts.values())


@pytest.mark.parametrize("deleted", [True, False])
def test_what_was_stopped_is_counted_after_base_and_branch_were_merged(
    checkout, model_server, monkeypatch, deleted
):
    monkeypatch.setattr(state, "_PEOPLES_COMMITS", 4)
    with pytest.raises(BudgetExhausted):
        checkout.step(f"budget.run.calls={IN_ROLLOUT}")
    if deleted:
        tree = checkout.git("rev-parse", f"{BRANCH}^{{tree}}")
        merge = checkout.git("commit-tree", tree, "-p", "main", "-p", BRANCH, "-m", "Merge")
        checkout.git("update-ref", "refs/heads/main", merge)
        checkout.git("branch", "-D", BRANCH)
    else:
        for text in "123456":  # base has more new commits than are looked through
            checkout.commit("notes.md", text)
        checkout.commit(SKILL, f"{checkout.show('main')}\nBe brief.\n")
    checkout.done("model.optimizer.temperature=1", "rollout.attempts=2")
    assert checkout.state().usage.calls == model_server.answered.total()


def test_used_up_budget_stays_used_up(checkout, model_server):
    for _ in range(2):
        with pytest.raises(BudgetExhausted, match=r"budget\.step\.calls"):
            checkout.step("budget.step.calls=10")
    assert model_server.answered.total() == 8 + 10


def test_each_analyst_is_paid_for_once_and_a_merge_of_several_is_not_ranked(checkout, model_server):
    three = "gradient.analysts=3"
    with pytest.raises(BudgetExhausted):
        checkout.step("budget.run.calls=14", three)  # after two analysts of six
    one = ("optimizer.learning_rate=1", "optimizer.min_learning_rate=1")
    record = checkout.done(three, *one).record
    optimizer = {one.stage: used.calls for one, used in record.accounts.items()}
    assert (optimizer["analyst"], optimizer["merge"]) == (6, 1)
    assert "ranking" not in optimizer
    assert model_server.most_answers == 3  # of the three that ask the same


def test_budget_of_tokens_ends_a_step(checkout):
    with pytest.raises(BudgetExhausted, match=r"budget\.step\.tokens"):
        checkout.step("budget.step.tokens=160")
    assert checkout.kinds() == ["start"]


def test_too_many_failing_rollouts_stop_the_step(checkout, model_server):
    checkout.step()
    before = checkout.ref(BRANCH)
    model_server.trouble = lambda prompt: (500, "out of order") if "Item " in prompt else None
    with pytest.raises(TooManyErrors, match=r"4 of 4 training attempts.*out of order"):
        checkout.step()
    assert (checkout.ref(BRANCH), checkout.ref(CANDIDATE)) == (before, "")


def test_too_many_failing_measurements_keep_the_candidate(checkout, model_server):
    checkout.step()
    model_server.trouble = lambda prompt: (500, "out of order") if "Item 10" in prompt else None
    with pytest.raises(TooManyErrors, match="8 of 8 selection attempts"):
        checkout.step()
    assert checkout.ref(CANDIDATE)
    model_server.trouble = lambda prompt: None
    assert checkout.done().record.step == 2
    assert model_server.most_answers == 1


def test_failing_rollout_is_no_failure_of_the_model(checkout, model_server):
    item = "Item 4 of kind a"
    model_server.trouble = lambda prompt: (500, "no") if prompt.endswith(item) else None
    outcome = checkout.done("evaluation.max_error_rate=0.5", "train.batch_size=8")
    rollout = outcome.record.proposal.rollout
    assert (rollout.n, rollout.errors) == (7, 1)
    assert "Item 4 of kind a" not in "".join(model_server.optimizer_prompts)


def test_unreachable_optimizer_ends_the_step(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "away") if "Stage:" in prompt else None
    with pytest.raises(ModelUnavailable, match="away"):
        checkout.step()
    assert checkout.kinds() == ["start"]


# The guard in whole steps.

RULE = "Kind a: a number begins with a."
LINK = "See https://evil.example/rules for more."
KEY = "sk-demo-key"


@pytest.fixture
def step(checkout: Checkout, model_server: ModelServer) -> Callable[..., Outcome]:
    """Do a step in which the lines are proposed, or the document that is given."""

    def run(*lines: str, document: str = "", overrides: tuple[str, ...] = ()) -> Outcome:
        edits = [{"op": "append", "content": f"- {line}"} for line in lines]
        whole = [{"new_skill": document}]
        payload = {"edits": edits, "skill_candidates": whole, "reasoning": "; ".join(lines)}
        model_server.let_optimizer(lambda *_: json.dumps({"patch": payload, **payload}))
        return checkout.done(*overrides)

    return run


def test_a_refused_edit_is_recorded_with_its_reason_and_the_others_applied(checkout, step):
    outcome = step(LINK, RULE)
    refused, applied = outcome.record.proposal.edits
    assert (refused.status, applied.status) == ("skipped_guard", "applied_append")
    assert "evil.example" in refused.reason
    assert outcome.decision.action == "accept_new_best"
    assert LINK not in checkout.show(BRANCH)
    body = " ".join(checkout.git("log", "-1", "--format=%b", f"{BRANCH}^2").split())
    assert "Refused by the guard: - edit 1: it brings in a web address" in body


def test_a_step_whose_edits_are_all_refused_changes_nothing(checkout, step):
    outcome = step(LINK)
    assert (outcome.decision.action, outcome.decision.score_after) == ("reject", None)
    assert "Refused by the guard" in checkout.git("log", "-1", "--format=%b", BRANCH)


def test_a_secret_enters_neither_the_skill_nor_git_at_all(checkout, step):
    outcome = step(f"Log in with {KEY}.", RULE)
    assert outcome.record.proposal.edits[0].reason == "it holds a key of this run"
    assert checkout.git("log", "--all", "-S", KEY, "--format=%h") == ""
    assert KEY not in checkout.git("log", "--all", "--format=%B")


def test_documents_of_analysts_are_refused_before_they_are_merged(checkout, step):
    mode = "optimizer.skill_update_mode=full_rewrite_minibatch"
    outcome = step(document=f"# New\n\n{LINK}\n", overrides=(mode,))
    assert outcome.decision.action == "skip_no_patches"
    assert outcome.decision.reason == "the guard refused every proposal"
    assert len(outcome.record.proposal.screened) == 2
    assert checkout.show(BRANCH) == "# Items\n"


def test_a_rewritten_document_that_is_refused_is_given_up(checkout, model_server):
    payload = {"revise_suggestions": [{"title": "t", "instruction": RULE}], "reasoning": "so"}

    def say(system: str, prompt: str) -> str:
        if "Stage: rewrite" in system:
            return json.dumps({"new_skill": f"# New\n\n{LINK}\n"})
        return json.dumps({"patch": payload, **payload})

    model_server.let_optimizer(say)
    outcome = checkout.done("optimizer.skill_update_mode=rewrite_from_suggestions")
    assert outcome.decision.action == "reject"
    assert outcome.decision.reason.startswith("the guard refused the document: it brings in")
    assert checkout.show(BRANCH) == "# Items\n"


def test_the_size_budget_takes_what_fits(checkout, step):
    outcome = step(RULE, "One line too many.", overrides=("guard.max_words=12",))
    assert [edit.applied for edit in outcome.record.proposal.edits] == [True, False]
    assert "more than the 12 allowed" in outcome.record.proposal.edits[1].reason


def test_the_context_knows_the_skills_the_keys_and_all_splits(checkout, step):
    step(RULE)
    checkout.commit("skills/SKILL.md", "# Anew\n", branch=BRANCH)
    file = {"optimizer.api_key_env": "null", "optimizer.api_key_file": ".key"}
    session = checkout.session(*(f"model.{key}={value}" for key, value in file.items()))
    (checkout.folder / ".key").write_text("sk-in-a-file\n")
    standing, _ = asyncio.run(prepare(session))
    context = guard_context(session, standing)
    assert all(text in context.known for text in ("# Items", RULE, "# Anew"))
    assert context.keys == (KEY, "sk-in-a-file")
    assert {"a0", "a100", "a200"} <= {task.id for task in context.tasks}


# The learning rate, where the optimizer chooses it.

POOL = tuple(Edit("append", content=text, support_count=3) for text in "abcd")

MEASURED = RolloutRecord(hard=1 / 3, soft=0.5, n=12, errors=0)


@pytest.fixture
def decided(prompts: Prompts, observer: Observer) -> Callable[..., LearningRateRecord]:
    def run(client: Any, rollout: RolloutRecord = MEASURED) -> LearningRateRecord:
        chat = OptimizerChat(client, prompts, observer, "tried before", "be brief")
        return asyncio.run(decide_learning_rate("# Skill", POOL, rollout, mode=PATCH, chat=chat))[0]

    return run


def choosing(number: object, **more: object) -> Callable[..., str]:
    return lambda request: json.dumps({"learning_rate": number, **more})


def test_the_choice_is_recorded_with_its_reasons(scripted, decided):
    said = {"reasoning": "few causes", "confidence": "high", "risk_notes": ["none known"]}
    assert decided(scripted(choosing(2, **said))) == LearningRateRecord(
        learning_rate=2,
        raw=2,
        available=4,
        reasoning="few causes",
        confidence="high",
        risk_notes=("none known",),
    )


@pytest.mark.parametrize(("number", "taken"), [(9, 4), (0, 0)])
def test_more_than_there_are_is_clamped(scripted, decided, number, taken):
    record = decided(scripted(choosing(number)))
    assert (record.learning_rate, record.raw, record.fallback) == (taken, number, False)
    assert record.clamped == (number != taken)


@pytest.mark.parametrize("number", [True, None, [2], "many"])
def test_without_a_usable_answer_nothing_is_applied(number, scripted, decided):
    record = decided(scripted(choosing(number)))
    assert (record.learning_rate, record.raw, record.fallback) == (0, None, True)
    assert "`learning_rate`: expected a whole number" in record.reasoning


def test_an_outage_is_no_choice(scripted, decided):
    with pytest.raises(ModelUnavailable):
        decided(scripted(lambda request: ModelUnavailable("down")))


def test_the_optimizer_is_shown_evidence_items_and_memory(scripted, decided, prompts):
    client = scripted(choosing(2))
    decided(client)
    assert client.requests[0].stage == "lr_autonomous"
    assert client.requests[0].messages[0].content == prompts.texts["lr_autonomous"]
    headings = [line[3:] for line in client.prompts[0].splitlines() if line.startswith("## ")]
    assert headings == [
        "Optimizer Meta Skill",
        "Current Skill",
        "Evidence",
        "Proposed items (4 total)",
        "Previous Steps in This Epoch",
    ]
    for fact in ("rollout_n: 12", "rollout_hard: 0.333333", "rollout_soft: 0.500000"):
        assert f"- {fact}\n" in client.prompts[0]
    assert "- proposed_update_items: 4\n- update_item_type: edit\n" in client.prompts[0]
    assert '[3] op="append" target="" content="d" support=3' in client.prompts[0]


def test_the_optimizer_is_told_the_pessimistic_number_and_the_other(scripted, decided, prompts):
    client = scripted(choosing(2))
    decided(client, rollout=RolloutRecord(hard=0.5, soft=0.75, n=6, errors=2))
    assert "- rollout_n: 8\n- rollout_hard: 0.375000\n- rollout_soft: 0.562500" in client.prompts[0]
    said = "- rollout_errors: 2 of 8 attempts could not be measured; they count as failed here."
    assert f"{said} Without them: hard 0.500000, soft 0.750000\n" in client.prompts[0]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (3, 3),
        (-2, 0),
        (4.0, 4),
        (2.5, 2),
        ("7", 7),
        ("about 3 of 5", 3),
        ("-4", 0),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("none", None),
        ([1], None),
    ],
)
def test_a_number_is_read_however_it_is_written(written, read):
    assert coerced(written) == read
