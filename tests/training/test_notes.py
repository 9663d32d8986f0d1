import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from skillopt_ci.config.config import Optimizer
from skillopt_ci.ledger.evidence import NotesRecord
from skillopt_ci.model.types import ChatRequest, ModelUnavailable
from skillopt_ci.progress import Event, Observer, StageFinished
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import notes_of, with_notes
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.replies import Patch, Reflection
from skillopt_ci.training.trainer import Outcome
from skillopt_ci.training.update import notes_from, take_notes
from tests.conftest import BRANCH, HARMFUL, Checkout, ModelServer

Step = Callable[..., Outcome]


BODY = "# Skill\n\n- A rule.\n"
Take = Callable[..., NotesRecord]


def silent_model(request: ChatRequest) -> str:
    raise AssertionError(f"nobody is to be asked: {request.stage}")


def refuse_evil(before: str, after: str) -> str | None:
    return "it is evil" if "evil" in after.replace(before, "") else None


@pytest.fixture
def take(scripted: Callable[..., Any], prompts: Prompts, observer: Observer) -> Take:
    def run(
        *notes: Sequence[str],
        before: str = BODY,
        body: str = BODY,
        threshold: int = 0,
        script: Callable[[ChatRequest], Any] = silent_model,
    ) -> NotesRecord | None:
        chat = OptimizerChat(scripted(script), prompts, observer, refuse=refuse_evil)
        found = [Reflection("failure", Patch(), notes=tuple(one)) for one in notes]
        return asyncio.run(take_notes(before, body, found, threshold, chat))

    return run


def condensing(*notes: str) -> Callable[[ChatRequest], str]:
    return lambda request: json.dumps({"appendix_notes": list(notes)})


def test_without_notes_there_is_no_record(take):
    assert take([], []) is None
    skill = with_notes(BODY, ["Look twice."])
    taken = take(["look twice"], before=skill, body=skill, threshold=0)
    assert (taken.added, taken.alone) == ((), False)


def test_notes_of_all_reflections_join_those_of_the_skill(take):
    skill = with_notes(BODY, ["Old one."])
    taken = take(["Look twice."], ["look twice", "OLD one", "Count."], before=skill, body=skill)
    assert taken.appendix == ("Old one.", "Look twice.", "Count.")
    assert (taken.proposed, taken.added) == (4, ("Look twice.", "Count."))
    assert taken.alone
    assert not take(["Look twice."], body="# Skill\n\n- A rule.\n\n- Another.\n").alone


def test_the_guard_judges_each_note(take):
    taken = take(["Be evil.", "Look twice."])
    assert taken.appendix == ("Look twice.",)
    assert [(one.note, one.reason) for one in taken.refused] == [("Be evil.", "it is evil")]


def test_more_notes_than_the_threshold_are_condensed(take):
    taken = take(["One.", "Two.", "Three."], threshold=2, script=condensing("Both.", "Three."))
    assert taken.appendix == ("Both.", "Three.")
    assert (taken.added, taken.consolidated_from) == (("One.", "Two.", "Three."), 3)


def test_the_optimizer_is_shown_the_list_and_the_skill_without_it(take):
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> str:
        asked.append(request)
        return condensing("Both.")(request)

    skill = with_notes(BODY, ["One."])
    take(["Two."], before=skill, body=skill, threshold=1, script=script)
    prompt = asked[0].messages[1].content
    assert "## Reminders (2 total)\n\n```\n- One.\n- Two.\n```" in prompt
    assert prompt.count("One.") == 1
    assert (asked[0].stage, asked[0].max_output_tokens) == ("appendix_consolidate", 4096)


@pytest.mark.parametrize("reply", [("One.", "Two."), ("a", "b", "c"), (), ("evil",)])
def test_a_list_that_is_not_shorter_or_not_allowed_is_not_taken(take, reply):
    taken = take(["One.", "Two."], threshold=1, script=condensing(*reply))
    assert (taken.appendix, taken.consolidated_from) == (("One.", "Two."), 0)


def test_repetitions_do_not_make_a_list_longer(take):
    assert take(["One.", "Two."], threshold=1, script=condensing("x", "X.")).appendix == ("x",)
    assert take(["One.", "Two."], threshold=2).appendix == ("One.", "Two.")


@pytest.mark.parametrize("trouble", ["no JSON", ModelUnavailable("gone")])
def test_without_an_answer_all_notes_stay(take, trouble):
    taken = take(["One.", "Two."], threshold=1, script=lambda request: trouble)
    assert taken.appendix == ("One.", "Two.")


def test_notes_are_wanted_as_configured():
    assert notes_from(Optimizer()) == ()
    both = Optimizer(use_skill_aware_reflection=True)
    assert notes_from(both) == ("failure", "success")
    failures = both.model_copy(update={"skill_aware_appendix_source": "failure_only"})
    assert notes_from(failures) == ("failure",)
    assert notes_from(both.model_copy(update={"skill_update_mode": "full_rewrite_minibatch"})) == ()


# Notes in whole steps: what stays of them, and the commits that say so.

AWARE = "optimizer.use_skill_aware_reflection=true"
FORCED = "optimizer.skill_aware_appendix_gate=forced"
RULE = "Kind a: a number begins with a."
NOTE = "Look at the kind again."


def propose(server: ModelServer, lines: tuple[str, ...], notes: tuple[str, ...]) -> None:
    """Let all analysts and merges propose these lines, and analysts these notes."""
    edits = [{"op": "append", "content": f"- {line}"} for line in lines]
    whole = json.dumps({"patch": {"edits": edits}, "appendix_notes": notes})
    plain = json.dumps({"edits": edits})
    server.let_optimizer(lambda system, _: whole if "appendix_notes" in system else plain)


@pytest.fixture
def step(checkout: Checkout, model_server: ModelServer) -> Step:
    def run(lines: tuple[str, ...], notes: tuple[str, ...], *overrides: str) -> Outcome:
        propose(model_server, lines, notes)
        return checkout.done(AWARE, *overrides)

    return run


def is_consistent(checkout: Checkout) -> bool:
    """Whether state and best skill name the texts that stand in the tree."""
    state, best = checkout.state(), checkout.show(BRANCH, ".skillopt/demo/best_skill.md")
    named = (state.current.sha256, state.best.sha256)
    return named == (sha256(checkout.show(BRANCH)), sha256(best))


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
    before, outcome = checkout.show(BRANCH), step((HARMFUL,), (NOTE,))
    assert outcome.decision.action == "reject"
    assert outcome.decision.kept_notes is outcome.decision.notes
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
    told = [(one.kind, one.step, one.action) for one in entries]
    assert told == [("step", 2, "reject"), ("notes", 2, "accept_notes")]
    assert entries[1].skill_sha256 == sha256(checkout.show(BRANCH))
    alone = checkout.record(2).decision
    assert (alone.notes.score_after, alone.notes.compared) == (0.25, 8)
    # what is kept is not measured again
    outcome = step((HARMFUL,), (NOTE,), "cache.enabled=false")
    assert (outcome.decision.notes, outcome.decision.score_before) == (None, 0.25)


def test_harmful_notes_go_with_their_edits_unless_they_are_forced(checkout, step):
    step((RULE,), ())
    outcome = step((), (HARMFUL,))
    assert outcome.decision.action == "reject"
    outcome = step(("Say nothing.",), (HARMFUL,))
    assert (outcome.decision.action, outcome.decision.kept_notes) == ("reject", None)
    assert notes_of(checkout.show(BRANCH)) == ()
    assert is_consistent(checkout)
    outcome = step(("Say nothing at all.",), (HARMFUL,), FORCED)
    assert outcome.decision.action == "reject"
    assert outcome.decision.kept_notes is not None
    assert checkout.state().current.measurement.score == 0.0
    assert checkout.state().best.measurement.score == 0.25
    assert is_consistent(checkout)


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
    assert (mortal.trees(), mortal.record(1).decision) == (twin.trees(), twin.record(1).decision)
