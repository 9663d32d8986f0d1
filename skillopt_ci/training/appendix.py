"""Notes: reminders of rules that the skill has and that were not followed, for its appendix.

After "skill-aware reflection" of SkillOpt (reference 1.13), with one difference: notes pass the
gate as well, together with the step's edits and, where those are rejected, by themselves.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from skillopt_ci.config.config import Optimizer
from skillopt_ci.ledger.records import NotesRecord, RefusedNote
from skillopt_ci.messages import fenced
from skillopt_ci.progress import StageFinished
from skillopt_ci.prompts import library
from skillopt_ci.skill.edits import Source
from skillopt_ci.skill.regions import merge_notes, notes_of, with_notes
from skillopt_ci.text import plural
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.replies import REMINDERS, Reflection, RemindersShape, parse_as


def notes_from(optimizer: Optimizer) -> Collection[Source]:
    """Whose notes are wanted; nobody's where whole documents are written."""
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
    """Return what the analysts' notes add to the appendix; None if they wrote none.

    ``body`` is the skill ``before`` after its update. More notes than ``threshold`` (0: any number)
    are condensed by the optimizer.
    """
    proposed = [note for reflection in reflections for note in reflection.notes]
    if not proposed:
        return None
    existing = notes_of(body)
    appendix, refused = _admitted(body, existing, proposed, chat)
    added = tuple(note for note in appendix if note not in existing)
    chat.observer(StageFinished("notes", f"{plural(len(added), 'new note')}"))
    condensed: tuple[str, ...] = ()
    if added and 0 < threshold < len(appendix):
        condensed = await _condensed(body, appendix, chat)
    kept = condensed or appendix
    return NotesRecord(
        proposed=len(proposed),
        added=added,
        refused=refused,
        appendix=kept,
        consolidated_from=len(appendix) if condensed else 0,
        alone=body == before and kept != existing,
    )


def _admitted(
    body: str, existing: tuple[str, ...], proposed: Iterable[str], chat: OptimizerChat
) -> tuple[tuple[str, ...], tuple[RefusedNote, ...]]:
    """The appendix with those notes that the guard has nothing against, and the others."""
    appendix, refused = merge_notes(existing), []
    for note in merge_notes(proposed):
        longer = merge_notes(appendix, (note,))
        reason = chat.refuse(with_notes(body, appendix), with_notes(body, longer))
        if reason is None:
            appendix = longer
        else:
            refused.append(RefusedNote(note=note, reason=reason))
    return appendix, tuple(refused)


async def _condensed(body: str, appendix: Sequence[str], chat: OptimizerChat) -> tuple[str, ...]:
    """A shorter list that says the same; empty if there is none that may stand in the skill."""
    listed = "\n".join(f"- {note}" for note in appendix)
    user = library.joined(
        library.current_skill(with_notes(body, ())),
        library.section(f"Reminders ({len(appendix)} total)", fenced(listed)),
    )
    reply = await chat.ask(
        "condensing the notes",
        user,
        partial(parse_as, RemindersShape),
        REMINDERS,
        prompt="appendix_consolidate",
        tokens=4_096,
    )
    shorter = () if isinstance(reply, Lost) else merge_notes(reply.appendix_notes)
    if not shorter or len(shorter) >= len(appendix):
        return ()
    refused = chat.refuse(with_notes(body, appendix), with_notes(body, shorter))
    return () if refused else shorter
