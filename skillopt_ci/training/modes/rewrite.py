"""Rewrite mode: analysts suggest revisions in words, and the optimizer rewrites the document."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.messages import fenced
from skillopt_ci.prompts import library
from skillopt_ci.training import reply_schema
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS, Lost, ask_vital, optimizer_request
from skillopt_ci.training.modes.mode import Desk, ModeName, Updated
from skillopt_ci.training.patch import Suggestion, as_json
from skillopt_ci.training.payload import SUGGESTIONS, Payload
from skillopt_ci.training.wire_json import extract_json
from skillopt_ci.training.wire_shape import RewriteShape, validated


@dataclass(frozen=True, slots=True)
class RewriteMode:
    """Suggestions; the rewritten document has at most ``rewrite_tokens`` tokens."""

    rewrite_tokens: int
    name: ModeName = "rewrite_from_suggestions"
    prompt_suffix: str = "_rewrite"
    noun: str = "suggestion"
    payload: Payload[Suggestion] = SUGGESTIONS
    reply_tokens: int = MAX_OUTPUT_TOKENS

    def assignment(self, limit: int | None) -> str:
        """Return the suggestions' budget."""
        return library.budget("suggestion", limit)

    def pool_line(self, index: int, edit: Suggestion) -> str:
        """Return kind, title, motivation, instruction, priority and support."""
        told = {
            "type": edit.type,
            "title": edit.title,
            "motivation": edit.motivation,
            "instruction": edit.instruction,
            "priority": edit.priority_hint,
        }
        values = " ".join(f"{key}={json.dumps(told[key], ensure_ascii=False)}" for key in told)
        return f"[{index}] {values} support={edit.support_count}"

    async def update(self, skill: str, edits: Sequence[Suggestion], desk: Desk) -> Updated:
        """Let the optimizer rewrite the skill by the suggestions; without any nobody is asked.

        Raises :class:`~skillopt_ci.model.types.ModelUnavailable`: that says nothing about them.
        """
        if not edits:
            return Updated(skill)
        request = optimizer_request(
            desk.prompts,
            "rewrite",
            "rewrite",
            _assignment(skill, edits, desk.step_buffer),
            max_output_tokens=self.rewrite_tokens,
            reply_schema=reply_schema.rewrite(),
        )
        reply = await ask_vital(
            desk.client, request, _parse, what="rewrite", observer=desk.observer
        )
        if isinstance(reply, Lost):
            return Updated(skill, "skip_no_rewrite", reasoning=reply.error.message)
        return Updated(
            f"{reply.new_skill}\n",
            change_summary=reply.change_summary,
            reasoning=reply.reasoning,
        )


def _assignment(skill: str, edits: Sequence[Suggestion], step_buffer: str) -> str:
    listed = json.dumps([as_json(edit) for edit in edits], ensure_ascii=False, indent=2)
    return library.joined(
        library.current_skill(skill),
        library.previous_steps(step_buffer),
        library.section(f"Suggestions to carry out ({len(edits)} total)", fenced(listed, "json")),
    )


def _parse(text: str) -> RewriteShape:
    return validated(RewriteShape, extract_json(text))
