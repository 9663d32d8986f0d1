"""Full rewrite mode: each analyst writes a whole document, and merges make one of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.prompts import library
from skillopt_ci.training.modes.mode import Desk, ModeName, Updated
from skillopt_ci.training.patch import SkillCandidate
from skillopt_ci.training.payload import CANDIDATES, Payload


@dataclass(frozen=True, slots=True)
class FullRewriteMode:
    """Whole documents, each in a reply of at most ``reply_tokens`` tokens."""

    reply_tokens: int
    name: ModeName = "full_rewrite_minibatch"
    prompt_suffix: str = "_full_rewrite"
    noun: str = "candidate"
    payload: Payload[SkillCandidate] = CANDIDATES

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
