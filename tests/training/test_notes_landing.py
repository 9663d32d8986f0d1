"""Notes in whole steps: what stays of them, and the commits that say so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import Event, StageFinished
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import notes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillopt_ci.training.trainer import StepOutcome
    from tests.conftest import Checkout, ModelServer

    Step = Callable[..., StepOutcome]

BRANCH = "skillopt/demo"
AWARE = "optimizer.use_skill_aware_reflection=true"
FORCED = "optimizer.skill_aware_appendix_gate=forced"
RULE = "Kind a: a number begins with a."
HARMFUL = "Leave out every answer."
NOTE = "Look at the kind again."


def propose(server: ModelServer, lines: tuple[str, ...], notes: tuple[str, ...]) -> None:
    """Let all analysts and merges propose these lines, and analysts these notes."""
    edits = [{"op": "append", "content": f"- {line}"} for line in lines]
    reply = json.dumps({"patch": {"edits": edits}, "appendix_notes": notes})

    def answer(system: str, prompt: str) -> str:
        if "Stage:" in system:
            return reply if "appendix_notes" in system else json.dumps({"edits": edits})
        return type(server).answer(server, system, prompt)

    server.answer = answer


@pytest.fixture
def step(checkout: Checkout, model_server: ModelServer) -> Step:
    def run(lines: tuple[str, ...], notes: tuple[str, ...], *overrides: str) -> StepOutcome:
        propose(model_server, lines, notes)
        return checkout.done(AWARE, *overrides)

    return run


def is_consistent(checkout: Checkout) -> bool:
    """Whether state and best skill name the texts that stand in the tree."""
    state = checkout.state()
    best = checkout.show(BRANCH, ".skillopt/demo/best_skill.md")
    return (state.current.sha256, state.best.sha256) == (
        sha256(checkout.show(BRANCH)),
        sha256(best),
    )


def test_edits_and_notes_are_measured_and_merged_together(checkout, step):
    outcome = step((RULE,), (NOTE,))
    assert (outcome.decision.action, outcome.decision.notes) == ("accept_new_best", None)
    assert RULE in checkout.show(BRANCH)
    assert notes_of(checkout.show(BRANCH)) == (NOTE,)
    assert is_consistent(checkout)


def test_a_step_of_notes_alone_is_merged_when_they_do_no_harm(checkout, step):
    outcome = step((), (NOTE,))
    assert (outcome.decision.action, outcome.decision.beats_best) == ("accept_notes", False)
    assert checkout.subjects()[-1] == f"Merge step 1 (0.000 → 0.000): note “{NOTE[:-1]}”"
    assert notes_of(checkout.show(BRANCH)) == (NOTE,)
    assert checkout.state().best.step == 0
    assert is_consistent(checkout)


def test_notes_that_raise_the_score_are_the_new_best(checkout, step):
    outcome = step((), (RULE,))
    assert (outcome.decision.action, outcome.decision.beats_best) == ("accept_notes", True)
    assert (outcome.state.best.step, outcome.state.best.measurement.score) == (1, 0.25)
    assert is_consistent(checkout)


def test_notes_survive_the_rejection_of_their_edits(checkout, step):
    step((RULE,), ())
    before = checkout.show(BRANCH)
    outcome = step((HARMFUL,), (NOTE,))
    assert outcome.decision.action == "reject"
    assert outcome.decision.keeps_notes
    assert notes_of(checkout.show(BRANCH)) == (NOTE,)
    assert HARMFUL not in checkout.show(BRANCH)
    assert checkout.state().current.origin == "notes of step 2"
    assert is_consistent(checkout)
    # they stand on top of a true revert
    assert outcome.commit == checkout.ref(BRANCH)
    proposed, reverted, noted = checkout.subjects()[-3:]
    assert proposed == f"Step 2: {HARMFUL[:-1]}; note “{NOTE[:-1]}”"
    assert reverted.startswith("Revert step 2 (0.250 → 0.000): Leave out every answer; note")
    assert noted == f"Step 2 (0.250 → 0.250): note “{NOTE[:-1]}”"
    assert checkout.show(f"{BRANCH}~1") == before
    assert checkout.state(f"{BRANCH}~1").current.sha256 == sha256(before)
    assert checkout.ref("skillopt-candidate/demo") == ""
    # the history tells both, the record has both verdicts
    entries = checkout.history()[-2:]
    assert [(one.kind, one.step, one.action) for one in entries] == [
        ("step", 2, "reject"),
        ("notes", 2, "accept_notes"),
    ]
    assert entries[1].skill_sha256 == sha256(checkout.show(BRANCH))
    alone = checkout.record(2).decision
    assert alone is not None
    assert alone.notes is not None
    assert (alone.notes.score_after, alone.notes.compared) == (0.25, 8)


def test_harmful_notes_go_with_their_edits(checkout, step):
    step((RULE,), ())
    outcome = step((), (HARMFUL,))
    assert outcome.decision.action == "reject"
    outcome = step(("Say nothing.",), (HARMFUL,))
    assert (outcome.decision.action, outcome.decision.keeps_notes) == ("reject", False)
    assert notes_of(checkout.show(BRANCH)) == ()
    assert is_consistent(checkout)


def test_forced_notes_stay_and_the_score_is_theirs(checkout, step):
    step((RULE,), ())
    outcome = step(("Say nothing.",), (HARMFUL,), FORCED)
    assert (outcome.decision.action, outcome.decision.keeps_notes) == ("reject", True)
    assert checkout.state().current.measurement.score == 0.0
    assert checkout.state().best.measurement.score == 0.25
    assert is_consistent(checkout)


def test_kept_notes_are_not_measured_again(checkout, step):
    step((RULE,), ())
    step((HARMFUL,), (NOTE,))
    outcome = step((HARMFUL,), (NOTE,), "cache.enabled=false")
    assert outcome.decision.notes is None
    assert outcome.decision.score_before == 0.25


def test_a_dropped_text_that_comes_back_is_not_measured_again(checkout, step):
    step((RULE,), ())
    step((HARMFUL,), (NOTE,))
    noted = checkout.show(BRANCH)
    checkout.commit("skills/SKILL.md", checkout.show(f"{BRANCH}~1"), branch=BRANCH)
    outcome = step((), (NOTE,))
    assert checkout.show(BRANCH) == noted
    assert outcome.decision.reused_from == 2


def test_without_the_option_nothing_is_asked_or_kept(checkout, model_server):
    checkout.step()
    assert not any("appendix_notes" in prompt for prompt in model_server.prompts)
    assert checkout.record(1).proposal.notes is None


class Killed(BaseException):
    """The process died here."""


@pytest.mark.parametrize("moment", ["notes", "candidate", "gate", "decide"])
def test_a_step_that_died_ends_with_the_same_trees(workshop, model_server, moment):
    propose(model_server, (HARMFUL,), (RULE,))
    twin, mortal = workshop.checkout("twin"), workshop.checkout("mortal")
    twin.step(AWARE)

    def die(event: Event) -> None:
        if isinstance(event, StageFinished) and event.stage == moment:
            raise Killed

    with pytest.raises(Killed):
        mortal.step(AWARE, observer=die)
    if moment != "decide":
        mortal.step(AWARE)
    assert mortal.trees() == twin.trees()
    assert mortal.record(1).decision == twin.record(1).decision
