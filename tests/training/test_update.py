"""What a mode asks of analysts, and how the next document comes about."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ModelUnavailable, Usage
from skillopt_ci.progress import Observer, silent
from skillopt_ci.prompts.library import NAMES, Prompts
from skillopt_ci.skill.edits import Edit, EditStatus
from skillopt_ci.skill.regions import REGIONS, protected_parts
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS, OptimizerChat
from skillopt_ci.training.replies import SkillCandidate, Suggestion
from skillopt_ci.training.update import Updated, UpdateMode, update
from tests.support.update_modes import FULL_REWRITE, PATCH, REWRITE

Update = Callable[..., Updated]
STAGES = ["analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final"]
EDITS = (Suggestion("add_rule", "Dates", "Write dates\nas ISO.", "seen", "high", "failure", 4),)

PROMPTS = Prompts.load()
MARKERS = [mark for region in REGIONS for mark in (region.start, region.end)]
PIECES = [*MARKERS, "---\n", "name: x\n", "rule", "\n", "\n\n"]
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@pytest.mark.parametrize("mode", [PATCH, REWRITE, FULL_REWRITE])
def test_every_stage_of_a_mode_has_a_prompt(mode):
    assert {f"{stage}{mode.prompt_suffix}" for stage in STAGES} <= set(NAMES)


def test_whole_documents_may_be_as_long_as_configured():
    assert (FULL_REWRITE.reply_tokens, REWRITE.reply_tokens) == (9_000, MAX_OUTPUT_TOKENS)


def test_the_budget_is_a_number_or_none_at_all():
    assert PATCH.assignment(3) == "## Edits Budget\n\nPropose at most L=3 edits."
    unlimited = PATCH.assignment(None)
    assert unlimited.startswith("## Edits Budget\n\nThere is no fixed limit")
    assert not any(character.isdigit() for character in unlimited)


def test_the_budget_speaks_of_suggestions():
    assert "## Suggestions Budget\n\nPropose at most L=2 suggestions." in REWRITE.assignment(2)


def test_who_writes_documents_is_told_the_format_and_no_number():
    assert FULL_REWRITE.assignment(4) == FULL_REWRITE.assignment(None)
    assert FULL_REWRITE.assignment(4).startswith("## Update Format\n")
    assert "4" not in FULL_REWRITE.assignment(4)


def test_a_suggestion_is_listed_on_one_line():
    _, line, _ = REWRITE.pool(EDITS).split("\n")
    assert line.startswith('[0] type="add_rule" title="Dates" motivation="seen" instruction="')
    assert line.endswith('\\nas ISO." priority="high" support=4')


@pytest.fixture
def updated(prompts: Prompts, observer: Observer) -> Update:
    def run(mode: UpdateMode[Any], client: Any, *edits: object) -> Updated:
        chat = OptimizerChat(
            client, prompts, observer, step_buffer="tried", meta_skill="secret memory"
        )
        return asyncio.run(update("# Old\n", edits, mode=mode, chat=chat))

    return run


def test_edits_are_applied_and_nobody_is_asked(scripted, updated):
    client = scripted(lambda request: "never")
    edits = (Edit("append", content="- new"), Edit("delete", target="missing"))
    found = updated(PATCH, client, *edits)
    assert (found.skill, found.outcome) == ("# Old\n\n- new\n", "updated")
    assert [report.status for report in found.reports] == [
        EditStatus.APPENDED,
        EditStatus.DELETE_NOT_FOUND,
    ]
    assert client.requests == []


def test_the_first_candidate_is_the_new_document(scripted, updated):
    client = scripted(lambda request: "never")
    candidates = (SkillCandidate("# A", "t", ("one",)), SkillCandidate("# B"))
    assert updated(FULL_REWRITE, client, *candidates) == Updated("# A\n", change_summary=("one",))
    assert updated(FULL_REWRITE, client) == Updated("# Old\n", "skip_no_rewrite")
    assert client.requests == []


def document(text: str, **more: object) -> str:
    return json.dumps(
        {"reasoning": "so", "change_summary": ["ISO dates"], "new_skill": text, **more}
    )


def test_a_rewrite_is_the_new_document(scripted, updated):
    found = updated(REWRITE, scripted(lambda request: document("\n# New  \n\n\n")), *EDITS)
    assert found == Updated("# New\n", change_summary=("ISO dates",), reasoning="so")


def test_the_rewriter_is_shown_skill_suggestions_and_earlier_steps(scripted, updated, prompts):
    client = scripted(lambda request: document("# New"))
    updated(REWRITE, client, *EDITS)
    (request,) = client.requests
    assert (request.stage, request.max_output_tokens) == ("rewrite", 9_000)
    assert request.messages[0].content == prompts.text("rewrite")
    headings = [line for line in client.prompts[0].splitlines() if line.startswith("## ")]
    assert headings == [
        "## Current Skill",
        "## Previous Steps in This Epoch",
        "## Suggestions to carry out (1 total)",
    ]
    assert '"instruction": "Write dates\\nas ISO."' in client.prompts[0]
    assert "secret memory" not in client.prompts[0]


def test_without_suggestions_nobody_is_asked(scripted, updated):
    client = scripted(lambda request: document("# New"))
    assert updated(REWRITE, client) == Updated("# Old\n")
    assert client.requests == []


@pytest.mark.parametrize(
    "answer", ["no", document(" \n"), '{"new_skill": null}', ModelRefusal("will not")]
)
def test_without_a_usable_document_the_old_one_stays(answer, scripted, updated):
    found = updated(REWRITE, scripted(lambda request: answer), *EDITS)
    assert (found.skill, found.outcome) == ("# Old\n", "skip_no_rewrite")
    assert found.reasoning


def test_one_bad_rewrite_may_be_mended(scripted, updated):
    client = scripted(
        lambda request: document("# New") if len(request.messages) > 2 else document("")
    )
    assert updated(REWRITE, client, *EDITS).skill == "# New\n"


def test_an_outage_is_no_verdict_on_the_suggestions(scripted, updated):
    with pytest.raises(ModelUnavailable):
        updated(REWRITE, scripted(lambda request: ModelUnavailable("down")), *EDITS)


class Rewriter:
    """An optimizer that writes ``document`` whatever it is asked."""

    def __init__(self, document: str) -> None:
        self.document = document

    async def complete(self, request: ChatRequest) -> ChatReply:
        assert request.messages[0] == Message("system", PROMPTS.text("rewrite"))
        return ChatReply(json.dumps({"new_skill": self.document}), "stop", "m", Usage(calls=1))


@given(skill=texts, written=texts, target=texts)
def test_protected_parts_stay_as_they_are_in_every_mode(skill, written, target):
    chat = OptimizerChat(Rewriter(written), PROMPTS, silent)
    changes: list[tuple[UpdateMode[Any], object]] = [
        (PATCH, Edit("replace", target, written)),
        (REWRITE, Suggestion("add_rule", "t", "i")),
        (FULL_REWRITE, SkillCandidate(written)),
    ]
    for mode, edit in changes:
        found = asyncio.run(update(skill, [edit], mode=mode, chat=chat))
        assert protected_parts(found.skill) == protected_parts(skill)


def test_what_is_not_protected_is_new():
    skill = f"---\nname: x\n---\n\n# Old\n\n{MARKERS[0]}\nMind.\n{MARKERS[1]}\n"
    chat = OptimizerChat(Rewriter("# New"), PROMPTS, silent)
    found = asyncio.run(update(skill, EDITS, mode=REWRITE, chat=chat))
    assert found.skill == skill.replace("Old", "New")
