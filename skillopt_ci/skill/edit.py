"""An edit of the skill, and what became of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Source = Literal["failure", "success"]
#: Where an edit comes from: an analyst, or what was measured of the rule that it takes out.
Origin = Literal["failure", "success", "attribution"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One proposed change of the document.

    ``op`` is ``append``, ``insert_after``, ``replace`` or ``delete`` (kept as the model wrote it,
    so that an unknown one can be reported). ``support_count`` is the number of trajectories that
    the model says back the edit; it informs ranking and people, nothing is weighted by it.
    """

    op: str
    target: str = ""
    content: str = ""
    source_type: Origin = "failure"
    support_count: int = 1
    merge_level: int = 0
    note_ids: tuple[str, ...] = ()
    """The reviewers' notes that it follows, as the model says."""


class EditStatus(StrEnum):
    """The fate of an edit, under SkillOpt's names."""

    APPENDED = "applied_append"
    APPENDED_BEFORE_REGION = "applied_append_before_protected_region"
    INSERTED = "applied_insert_after"
    INSERTED_AT_END = "applied_insert_after_fallback_append"
    INSERTED_BEFORE_REGION = "applied_insert_after_fallback_before_protected_region"
    REPLACED = "applied_replace"
    DELETED = "applied_delete"
    PROTECTED = "skipped_protected_region"
    REPLACE_NO_TARGET = "skipped_replace_missing_target"
    REPLACE_NOT_FOUND = "skipped_replace_target_not_found"
    DELETE_NO_TARGET = "skipped_delete_missing_target"
    DELETE_NOT_FOUND = "skipped_delete_target_not_found"
    EMPTY = "skipped_empty_content"
    UNKNOWN_OP = "skipped_unknown_op"
    REFUSED = "skipped_guard"
    RACED_OUT = "skipped_race"

    @property
    def applied(self) -> bool:
        """Whether the edit changed the document."""
        return self.value.startswith("applied")


@dataclass(frozen=True, slots=True)
class EditReport:
    """An edit with its status; ``index`` counts from 1 in application order.

    ``reason`` says why the guard refused it.
    """

    index: int
    edit: Edit
    status: EditStatus
    reason: str = ""
