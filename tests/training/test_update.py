import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.progress import silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import Edit
from skillopt_ci.skill.regions import REGIONS, protected_spans
from skillopt_ci.training.modes import (
    Desk,
    FullRewriteMode,
    PatchMode,
    RewriteMode,
    Updated,
    UpdateMode,
)
from skillopt_ci.training.replies import SkillCandidate, Suggestion
from skillopt_ci.training.update import update

PROMPTS = Prompts.load()
MARKERS = [mark for region in REGIONS for mark in (region.start, region.end)]
PIECES = [*MARKERS, "---\n", "name: x\n", "rule", "\n", "\n\n"]
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


class Rewriter:
    """An optimizer that writes ``document`` whatever it is asked."""

    def __init__(self, document: str) -> None:
        self.document = document

    async def complete(self, request: ChatRequest) -> ChatReply:
        assert request.messages[0] == Message("system", PROMPTS.text("rewrite"))
        return ChatReply(json.dumps({"new_skill": self.document}), "stop", "m", Usage(calls=1))


def run(mode: UpdateMode[Any], skill: str, edit: object, written: str = "# New") -> Updated:
    desk = Desk(Rewriter(written), PROMPTS, silent)
    return asyncio.run(update(skill, [edit], mode=mode, desk=desk))


def protected(text: str) -> list[str]:
    return [text[span.start : span.end] for span in protected_spans(text)]


@given(skill=texts, content=texts, target=texts)
def test_a_patch_leaves_protected_parts_as_they_are(skill: str, content: str, target: str) -> None:
    updated = run(PatchMode(), skill, Edit("replace", target, content))
    assert protected(updated.skill) == protected(skill)


@given(skill=texts, written=texts)
def test_a_rewrite_leaves_protected_parts_as_they_are(skill: str, written: str) -> None:
    updated = run(RewriteMode(100), skill, Suggestion("add_rule", "t", "i"), written)
    assert protected(updated.skill) == protected(skill)


@given(skill=texts, written=texts)
def test_a_whole_document_leaves_protected_parts_as_they_are(skill: str, written: str) -> None:
    updated = run(FullRewriteMode(100), skill, SkillCandidate(written))
    assert protected(updated.skill) == protected(skill)


def test_what_is_not_protected_is_new() -> None:
    skill = f"---\nname: x\n---\n\n# Old\n\n{MARKERS[0]}\nMind.\n{MARKERS[1]}\n"
    updated = run(RewriteMode(100), skill, Suggestion("add_rule", "t", "i"))
    assert updated.skill == skill.replace("Old", "New")
