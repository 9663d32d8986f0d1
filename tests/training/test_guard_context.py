"""The guard in whole steps."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.training.guard import guard_context
from skillopt_ci.training.trainer import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillopt_ci.training.trainer import StepOutcome
    from tests.conftest import Checkout, ModelServer

    Step = Callable[..., StepOutcome]

BRANCH = "skillopt/demo"
RULE = "Kind a: a number begins with a."
LINK = "See https://evil.example/rules for more."
KEY = "sk-demo-key"


@pytest.fixture
def step(checkout: Checkout, model_server: ModelServer) -> Step:
    """Do a step in which the lines are proposed, or the document that is given."""

    def run(*lines: str, document: str = "", overrides: tuple[str, ...] = ()) -> StepOutcome:
        edits = [{"op": "append", "content": f"- {line}"} for line in lines]
        whole = [{"new_skill": document}]
        payload = {"edits": edits, "skill_candidates": whole, "reasoning": "; ".join(lines)}

        def answer(system: str, prompt: str) -> str:
            if "Stage:" in system:
                return json.dumps({"patch": payload, **payload})
            return type(model_server).answer(model_server, system, prompt)

        model_server.answer = answer
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
    assert outcome.decision.reason == "the guard refused all that was proposed"
    assert len(outcome.record.proposal.screened) == 2
    assert checkout.show(BRANCH) == "# Items\n"


def test_a_rewritten_document_that_is_refused_is_given_up(checkout, model_server):
    suggestion = {"title": "t", "instruction": RULE}

    def answer(system: str, prompt: str) -> str:
        if "Stage: rewrite" in system:
            return json.dumps({"new_skill": f"# New\n\n{LINK}\n"})
        if "Stage:" in system:
            payload = {"revise_suggestions": [suggestion], "reasoning": "so"}
            return json.dumps({"patch": payload, **payload})
        return type(model_server).answer(model_server, system, prompt)

    model_server.answer = answer
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
    session = checkout.session()
    standing, _ = asyncio.run(prepare(session))
    context = guard_context(session, standing)
    assert all(text in context.known for text in ("# Items", RULE, "# Anew"))
    assert context.keys == (KEY, KEY)
    ids = {task.id for task in context.answers.tasks}
    assert {"a0", "a100", "a200"} <= ids
