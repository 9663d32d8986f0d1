"""Update modes: what analysts propose, and how the next skill is made of it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal

from skillopt_ci.config.config import Optimizer
from skillopt_ci.messages import fenced
from skillopt_ci.model.types import ChatClient
from skillopt_ci.progress import Observer
from skillopt_ci.prompts import library
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.edits import Edit, EditReport, Refuse, apply_edits, permit
from skillopt_ci.training import replies
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS, Lost, ask_vital, optimizer_request
from skillopt_ci.training.replies import (
    CANDIDATES,
    EDITS,
    SUGGESTIONS,
    Item,
    Payload,
    RewriteShape,
    SkillCandidate,
    Suggestion,
    as_json,
    parse_as,
)

ModeName = Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]


@dataclass(frozen=True, slots=True)
class Desk:
    """The optimizer at work in one step, and what it is told of earlier steps and epochs.

    ``guidance`` is what reviewers ask for, as a section of a prompt.
    ``refuse`` is the guard: why a document may not follow another.
    """

    client: ChatClient
    prompts: Prompts
    observer: Observer
    step_buffer: str = ""
    meta_skill: str = ""
    guidance: str = ""
    refuse: Refuse = permit


@dataclass(frozen=True, slots=True)
class Updated:
    """The document after an update, and how it came about.

    ``reports`` tell the fate of single edits, ``change_summary`` what a rewrite says of itself.
    ``skip_no_rewrite`` means that nobody wrote a usable document: the old one stays. So it does
    where ``refused`` says what the guard has against the new one.
    """

    skill: str
    outcome: Literal["updated", "skip_no_rewrite"] = "updated"
    reports: tuple[EditReport, ...] = ()
    change_summary: tuple[str, ...] = ()
    reasoning: str = ""
    refused: str = ""


class UpdateMode(ABC, Generic[Item]):
    """One way to propose changes and to carry them out, in all that the stages need of it.

    Prompts' names end in ``prompt_suffix``; ``noun`` is what one proposed change is called. Replies
    of analysts and merges have at most ``reply_tokens`` tokens.
    """

    name: ModeName
    prompt_suffix: str
    noun: str
    payload: Payload[Item]
    reply_tokens: int = MAX_OUTPUT_TOKENS

    def assignment(self, limit: int | None) -> str:
        """Return the prompt section that says how much to propose; None is no limit."""
        return library.budget(self.noun, limit)

    @abstractmethod
    def pool_line(self, index: int, edit: Item) -> str:
        """Return one proposed change as a line of a numbered list, nothing left out."""

    @abstractmethod
    async def update(self, skill: str, edits: Sequence[Item], desk: Desk) -> Updated:
        """Make the next document of ``skill``; protected parts are not its business."""


class FullRewriteMode(UpdateMode[SkillCandidate]):
    """Each analyst writes a whole document, and merges make one of them."""

    name = "full_rewrite_minibatch"
    prompt_suffix = "_full_rewrite"
    noun = "candidate"
    payload = CANDIDATES

    def __init__(self, reply_tokens: int) -> None:
        self.reply_tokens = reply_tokens

    def assignment(self, limit: int | None) -> str:
        """Return the format of the update, which is the same for any limit."""
        del limit
        return library.section(
            "Update Format",
            "Write exactly one complete document that replaces the current skill. No edits, no "
            "suggestions, no excerpt.",
        )

    def pool_line(self, index: int, edit: SkillCandidate) -> str:
        """Return what the candidate says of itself; candidates are never ranked."""
        return f"[{index}] {edit.title} support={edit.support_count}"

    async def update(self, skill: str, edits: Sequence[SkillCandidate], desk: Desk) -> Updated:
        """Take the first candidate; no model is asked."""
        del desk
        if not edits:
            return Updated(skill, "skip_no_rewrite")
        return Updated(f"{edits[0].new_skill}\n", change_summary=edits[0].change_summary)


class PatchMode(UpdateMode[Edit]):
    """Analysts propose changes of single places, which are applied one after the other."""

    name = "patch"
    prompt_suffix = ""
    noun = "edit"
    payload = EDITS

    def pool_line(self, index: int, edit: Edit) -> str:
        """Return operation, target, content and support."""
        told = _quoted(op=edit.op, target=edit.target, content=edit.content)
        return f"[{index}] {told} support={edit.support_count}"

    async def update(self, skill: str, edits: Sequence[Edit], desk: Desk) -> Updated:
        """Apply the edits; no model is asked."""
        text, reports = apply_edits(skill, edits, desk.refuse)
        return Updated(text, reports=reports)


class RewriteMode(UpdateMode[Suggestion]):
    """Analysts suggest revisions in words, and the optimizer rewrites the document."""

    name = "rewrite_from_suggestions"
    prompt_suffix = "_rewrite"
    noun = "suggestion"
    payload = SUGGESTIONS

    def __init__(self, rewrite_tokens: int) -> None:
        self._rewrite_tokens = rewrite_tokens

    def pool_line(self, index: int, edit: Suggestion) -> str:
        """Return kind, title, motivation, instruction, priority and support."""
        told = _quoted(
            type=edit.type,
            title=edit.title,
            motivation=edit.motivation,
            instruction=edit.instruction,
            priority=edit.priority_hint,
        )
        return f"[{index}] {told} support={edit.support_count}"

    async def update(self, skill: str, edits: Sequence[Suggestion], desk: Desk) -> Updated:
        """Let the optimizer rewrite the skill by the suggestions; without any nobody is asked.

        Raises :class:`~skillopt_ci.model.types.ModelUnavailable`: that says nothing about them.
        """
        if not edits:
            return Updated(skill)
        listed = json.dumps([as_json(edit) for edit in edits], ensure_ascii=False, indent=2)
        user = library.joined(
            library.current_skill(skill),
            library.previous_steps(desk.step_buffer),
            library.section(
                f"Suggestions to carry out ({len(edits)} total)", fenced(listed, "json")
            ),
        )
        request = optimizer_request(
            desk.prompts,
            "rewrite",
            "rewrite",
            user,
            max_output_tokens=self._rewrite_tokens,
            reply_schema=replies.rewrite(),
        )
        parse = partial(parse_as, RewriteShape)
        reply = await ask_vital(desk.client, request, parse, what="rewrite", observer=desk.observer)
        if isinstance(reply, Lost):
            return Updated(skill, "skip_no_rewrite", reasoning=reply.error.message)
        return Updated(
            f"{reply.new_skill}\n",
            change_summary=reply.change_summary,
            reasoning=reply.reasoning,
        )


def _quoted(**values: str) -> str:
    return " ".join(f"{key}={json.dumps(text, ensure_ascii=False)}" for key, text in values.items())


def update_mode(optimizer: Optimizer) -> UpdateMode[Any]:
    """Return the mode of a run; what its patches consist of is known only now, hence ``Any``."""
    match optimizer.skill_update_mode:
        case "patch":
            return PatchMode()
        case "rewrite_from_suggestions":
            return RewriteMode(optimizer.rewrite_max_completion_tokens)
        case "full_rewrite_minibatch":
            return FullRewriteMode(optimizer.rewrite_max_completion_tokens)
