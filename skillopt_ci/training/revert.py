"""Take back a merged step, or one of its edits, on a person's request."""

from collections.abc import Sequence

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git.history import parents
from skillopt_ci.ledger.evidence import EditRecord
from skillopt_ci.skill.diff import undone
from skillopt_ci.skill.document import fence_closed, line_ending
from skillopt_ci.skill.edits import Edit, apply_edits, split_at_region
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Checkout, RunEvent, history_entry, record_events


def take_back(
    run: Run, checkout: Checkout, step: int, merge: str, by: str, edit: int = 0
) -> str | None:
    """Revert the merged ``step`` on a person's request in one commit; None if nothing is left.

    ``merge`` is its commit; ``edit`` reverts only that edit. Later changes and the state stay, so
    the next command finds a skill without a score. Raises RepositoryError for a conflict.
    """
    gone = {one.edit for one in checkout.history if one.kind == "revert" and one.step == step}
    if gone & {0, edit}:
        return None
    record = run.ledger.at(checkout.commit).read_step(step)
    before, after = (
        run.ledger.read(one, run.skill_path) or ""
        for one in (parents(run.ledger.git, merge)[0], merge)
    )
    edits = () if record is None else record.proposal.applied_edits
    if edit:  # leave out edits already taken back
        kept = [one for number, one in enumerate(edits[:edit], start=1) if number not in gone]
        before, after = around(before, kept, len(kept))
    else:
        for number in sorted(gone, reverse=True):  # the last first, so that it finds those before
            without = _without(*around(before, edits, number), after)
            after = after if without is None else without
    skill, state = _without(before, after, checkout.skill), checkout.state
    if skill is None or state is None:
        what = f"That rule of step {step}" if edit else f"Step {step}"
        raise RepositoryError(
            f"{what} cannot be taken back by itself: what it wrote into {run.skill_path} was "
            f"changed since{', or inserted by an earlier version' if edit else ''}.",
            hint=f"Edit the skill on skillopt/{run.config.run} by hand; the next step measures it.",
        )
    if skill == checkout.skill:
        return None
    entry = history_entry(run, "revert", state, skill, action="revert", step=step, edit=edit)
    entry = entry.model_copy(update={"reason": f"{entry.taken}, by {by}"})
    files = {run.skill_path: skill, run.folder.badge: None, run.folder.card: None}  # no score yet
    event = RunEvent(entry, state, skill, files, record, work=merge)
    return record_events(run, checkout, event).commit


def around(text: str, edits: Sequence[EditRecord], number: int) -> tuple[str, str]:
    """The document before and after edit number ``number`` of ``edits``, applied to ``text``."""
    made = [Edit(one.op, one.target, one.content) for one in edits[:number]]
    return apply_edits(text, made[:-1])[0], apply_edits(text, made)[0]


def _without(before: str, after: str, now: str) -> str | None:
    """``now`` without that change, but with the fence that closed a block: other rules need it."""
    text, rest = split_at_region(before)
    if (closed := fence_closed(text)) != text and fence_closed(after) == after:
        before = line_ending(before).join(filter(None, (closed, rest)))
    return undone(before, after, now)
