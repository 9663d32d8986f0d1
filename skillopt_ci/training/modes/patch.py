"""Patch mode: analysts propose changes of single places, which are applied one after the other."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.prompts import library
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS
from skillopt_ci.training.modes.mode import Desk, ModeName, Updated
from skillopt_ci.training.payload import EDITS, Payload


@dataclass(frozen=True, slots=True)
class PatchMode:
    """Edits of the document."""

    name: ModeName = "patch"
    prompt_suffix: str = ""
    noun: str = "edit"
    payload: Payload[Edit] = EDITS
    reply_tokens: int = MAX_OUTPUT_TOKENS

    def assignment(self, limit: int | None) -> str:
        """Return the edits' budget."""
        return library.budget("edit", limit)

    def pool_line(self, index: int, edit: Edit) -> str:
        """Return operation, target, content and support."""
        op, target, content = (
            json.dumps(value, ensure_ascii=False) for value in (edit.op, edit.target, edit.content)
        )
        return f"[{index}] op={op} target={target} content={content} support={edit.support_count}"

    async def update(self, skill: str, edits: Sequence[Edit], desk: Desk) -> Updated:
        """Apply the edits; no model is asked."""
        text, reports = apply_edits(skill, edits, desk.refuse)
        return Updated(text, reports=reports)
