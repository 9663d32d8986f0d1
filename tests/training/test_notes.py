import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from skillopt_ci.config.config import Optimizer
from skillopt_ci.ledger.records import NotesRecord
from skillopt_ci.model.types import ChatRequest, ModelUnavailable
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.replies import Patch, Reflection
from skillopt_ci.training.update import notes_from, take_notes

BODY = "# Skill\n\n- A rule.\n"
EDITED = "# Skill\n\n- A rule.\n\n- Another.\n"

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
        found = [Reflection("failure", Patch(), ("t",), 1, notes=tuple(one)) for one in notes]
        return asyncio.run(take_notes(before, body, found, threshold, chat))

    return run


def condensing(*notes: str) -> Callable[[ChatRequest], str]:
    return lambda request: json.dumps({"appendix_notes": list(notes)})


def test_without_notes_there_is_no_record(take):
    assert take([], []) is None


def test_notes_of_all_reflections_join_those_of_the_skill(take):
    skill = with_notes(BODY, ["Old one."])
    taken = take(["Look twice."], ["look twice", "OLD one", "Count."], before=skill, body=skill)
    assert taken.appendix == ("Old one.", "Look twice.", "Count.")
    assert (taken.proposed, taken.added) == (4, ("Look twice.", "Count."))
    assert taken.alone


def test_notes_beside_edits_are_not_alone(take):
    assert not take(["Look twice."], body=EDITED).alone


def test_notes_that_are_known_change_nothing(take):
    skill = with_notes(BODY, ["Look twice."])
    taken = take(["look twice"], before=skill, body=skill, threshold=0)
    assert (taken.added, taken.alone) == ((), False)


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


@pytest.mark.parametrize("trouble", ["no JSON", ModelUnavailable("gone")])
def test_without_an_answer_all_notes_stay(take, trouble):
    taken = take(["One.", "Two."], threshold=1, script=lambda request: trouble)
    assert taken.appendix == ("One.", "Two.")


def test_as_many_notes_as_the_threshold_are_left_alone(take):
    assert take(["One.", "Two."], threshold=2).appendix == ("One.", "Two.")


def test_notes_are_wanted_as_configured():
    assert notes_from(Optimizer()) == ()
    both = Optimizer(use_skill_aware_reflection=True)
    assert notes_from(both) == ("failure", "success")
    failures = both.model_copy(update={"skill_aware_appendix_source": "failure_only"})
    assert notes_from(failures) == ("failure",)
    whole = both.model_copy(update={"skill_update_mode": "full_rewrite_minibatch"})
    assert notes_from(whole) == ()
