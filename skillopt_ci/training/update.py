"""Update: turn the analysts' proposals into the next document and its reminders."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal

from skillopt_ci.config.config import Optimizer
from skillopt_ci.ledger.evidence import NotesRecord, RefusedNote
from skillopt_ci.messages import fenced
from skillopt_ci.progress import StageFinished
from skillopt_ci.prompts import library
from skillopt_ci.skill.edits import Edit, EditReport, Source, apply_edits
from skillopt_ci.skill.regions import merge_notes, notes_of, restore_regions, with_notes
from skillopt_ci.text import plural
from skillopt_ci.training import replies
from skillopt_ci.training.ask import MAX_OUTPUT_TOKENS, Lost, OptimizerChat
from skillopt_ci.training.replies import Item, Payload, Reflection, SkillCandidate, Suggestion


@dataclass(frozen=True, slots=True)
class Updated:
    """The document after an update; the old one if no new one was usable or the guard refused."""

    skill: str
    outcome: Literal["updated", "skip_no_rewrite"] = "updated"
    reports: tuple[EditReport, ...] = ()
    change_summary: tuple[str, ...] = ()
    reasoning: str = ""
    refused: str = ""
    lost: Lost | None = None


@dataclass(frozen=True, slots=True)
class UpdateMode(Generic[Item]):
    """One way to propose changes and carry them out, with all that the stages need to know."""

    name: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]
    prompt_suffix: str
    noun: str
    payload: Payload[Item]
    carry_out: Callable[[str, Sequence[Item], OptimizerChat], Awaitable[Updated]]
    reply_tokens: int = MAX_OUTPUT_TOKENS

    def assignment(self, limit: int | None) -> str:
        """Return the prompt section that says how much to propose; None means no limit."""
        if self.name == "full_rewrite_minibatch":
            return library.section(
                "Update Format",
                "Write exactly one complete document that replaces the current skill. No edits, no "
                "suggestions, no excerpt.",
            )
        free = f"There is no fixed limit: propose every {self.noun} that is worth it."
        told = free if limit is None else f"Propose at most L={limit} {self.noun}s."
        return library.section(f"{self.noun.capitalize()}s Budget", told)

    def pool(self, edits: Sequence[Item]) -> str:
        lines = []
        for index, edit in enumerate(edits):
            told = (
                f"{key.removesuffix('_hint')}={json.dumps(getattr(edit, key), ensure_ascii=False)}"
                for key in self.payload.schema
            )
            lines.append(f"[{index}] {' '.join(told)} support={edit.support_count}")
        return fenced("\n".join(lines))


async def _applied(skill: str, edits: Sequence[Edit], chat: OptimizerChat) -> Updated:
    def refuse(before: str, after: str) -> str | None:
        if reason := chat.refuse(before, after):
            return reason
        had, has = _lines(before), _lines(after)
        added, removed = has - had, had - has
        repeats = added and not removed and added.keys() <= had.keys()
        return "the skill says that already" if repeats else None

    text, reports = apply_edits(skill, edits, refuse)
    return Updated(text, reports=reports)


def _lines(text: str) -> Counter[str]:
    """How often each line stands in ``text``, list markers and blank lines aside."""
    return Counter(bare for line in text.split("\n") if (bare := line.strip(" \t-*+")))


async def _taken_over(skill: str, edits: Sequence[SkillCandidate], _: OptimizerChat) -> Updated:
    if not edits:
        return Updated(skill, "skip_no_rewrite")
    return Updated(f"{edits[0].new_skill}\n", change_summary=edits[0].change_summary)


async def _rewritten(
    tokens: int, skill: str, edits: Sequence[Suggestion], chat: OptimizerChat
) -> Updated:
    """Let the optimizer rewrite the skill according to suggestions; raises an outage."""
    if not edits:
        return Updated(skill)
    listed = json.dumps([replies.as_json(edit) for edit in edits], ensure_ascii=False, indent=2)
    user = library.joined(
        library.current_skill(skill),
        library.previous_steps(chat.step_buffer),
        library.section(f"Suggestions to carry out ({len(edits)} total)", fenced(listed, "json")),
    )
    parse = partial(replies.parse_as, replies.RewriteShape)
    reply = await chat.ask(
        "rewrite", user, parse, replies.REWRITE, prompt="rewrite", tokens=tokens, vital=True
    )
    if isinstance(reply, Lost):
        return Updated(skill, "skip_no_rewrite", reasoning=reply.error.message, lost=reply)
    return Updated(
        f"{reply.new_skill}\n", change_summary=reply.change_summary, reasoning=reply.reasoning
    )


def update_mode(optimizer: Optimizer) -> UpdateMode[Any]:
    """Return a run's mode; the type of its items is known only at run time, hence ``Any``."""
    mode, tokens = optimizer.skill_update_mode, optimizer.rewrite_max_completion_tokens
    match mode:
        case "patch":
            return UpdateMode(mode, "", "edit", replies.EDITS, _applied)
        case "rewrite_from_suggestions":
            return UpdateMode(
                mode, "_rewrite", "suggestion", replies.SUGGESTIONS, partial(_rewritten, tokens)
            )
        case "full_rewrite_minibatch":
            return UpdateMode(
                mode, "_full_rewrite", "candidate", replies.CANDIDATES, _taken_over, tokens
            )


async def update(
    skill: str, edits: Sequence[Any], *, mode: UpdateMode[Any], chat: OptimizerChat
) -> Updated:
    """Carry out ``edits`` on ``skill``, keeping its protected parts byte for byte."""
    updated = await mode.carry_out(skill, edits, chat)
    document = restore_regions(skill, updated.skill)
    reason = chat.refuse(skill, document)
    updated = replace(updated, skill=document if reason is None else skill, refused=reason or "")
    told = "nothing to apply"
    if updated.refused:
        told = f"refused: {updated.refused}"
    elif updated.outcome == "skip_no_rewrite":
        told = "no usable document"
    elif updated.reports:
        applied = sum(report.status.applied for report in updated.reports)
        told = f"{applied} of {plural(len(updated.reports), 'edit')} applied"
    elif updated.change_summary:
        told = f"{plural(len(updated.change_summary), 'change')} by a rewrite"
    chat.observer(StageFinished("update", told))
    return updated


# Notes: reminders, for the appendix, of rules that the skill has but the target did not follow.
# They come from SkillOpt's "skill-aware reflection" (reference 1.13), except that notes must pass
# the gate too: together with the step's edits or, if those are rejected, by themselves.


def notes_from(optimizer: Optimizer) -> Collection[Source]:
    """The kinds of minibatch that yield notes; none if analysts write whole documents."""
    whole = optimizer.skill_update_mode == "full_rewrite_minibatch"
    if whole or not optimizer.use_skill_aware_reflection:
        return ()
    both: tuple[Source, ...] = ("failure", "success")
    return both if optimizer.skill_aware_appendix_source == "both" else ("failure",)


async def take_notes(
    before: str,
    body: str,
    reflections: Iterable[Reflection[Any]],
    threshold: int,
    chat: OptimizerChat,
) -> NotesRecord | None:
    """Add the analysts' notes to the appendix of ``body``, the updated skill; None without notes.

    The optimizer condenses an appendix of more than ``threshold`` notes (0: no limit).
    """
    proposed = [note for reflection in reflections for note in reflection.notes]
    if not proposed:
        return None
    existing = notes_of(body)
    appendix, refused = merge_notes(existing), list[RefusedNote]()
    for note in merge_notes(proposed):
        longer = merge_notes(appendix, (note,))
        reason = chat.refuse(with_notes(body, appendix), with_notes(body, longer))
        if reason is None:
            appendix = longer
        else:
            refused.append(RefusedNote(note=note, reason=reason))
    added = tuple(note for note in appendix if note not in existing)
    chat.observer(StageFinished("notes", f"{plural(len(added), 'new note')}"))
    condensed: tuple[str, ...] = ()
    if added and 0 < threshold < len(appendix):
        condensed = await _condensed(body, appendix, chat)
    kept = condensed or appendix
    return NotesRecord(
        proposed=len(proposed),
        added=added,
        refused=tuple(refused),
        appendix=kept,
        consolidated_from=len(appendix) if condensed else 0,
        alone=body == before and kept != existing,
    )


async def _condensed(body: str, appendix: Sequence[str], chat: OptimizerChat) -> tuple[str, ...]:
    listed = "\n".join(f"- {note}" for note in appendix)
    user = library.joined(
        library.current_skill(with_notes(body, ())),
        library.section(f"Reminders ({len(appendix)} total)", fenced(listed)),
    )
    reply = await chat.ask(
        "condensing the notes",
        user,
        partial(replies.parse_as, replies.RemindersShape),
        replies.REMINDERS,
        prompt="appendix_consolidate",
        tokens=4_096,
    )
    shorter = () if isinstance(reply, Lost) else merge_notes(reply.appendix_notes)
    if not shorter or len(shorter) >= len(appendix):
        return ()
    return () if chat.refuse(with_notes(body, appendix), with_notes(body, shorter)) else shorter
