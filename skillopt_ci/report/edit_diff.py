"""What a step changed in the document, as diffs, each with the evidence that it stands on."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import EditRecord, ProposalRecord
from skillopt_ci.report.commit import applied_edits
from skillopt_ci.report.figures import plural
from skillopt_ci.report.markdown import block, inline
from skillopt_ci.report.note_outcome import follows
from skillopt_ci.report.reminders import refusal_lines, reminders
from skillopt_ci.report.rewriting import rewriting, suggestion_rows

_MOST = 10
_DIFF_LINES = 30


def edit_parts(proposal: ProposalRecord) -> Iterator[str]:
    """Each edit with its diff, or a rewritten document with its own; then what was left out."""
    applied = applied_edits(proposal)
    for number, edit in enumerate(applied[:_MOST], start=1):
        wishes = inline(follows(edit, proposal), 500)
        title = " · ".join(filter(None, (f"**Edit {number}**", evidence(edit), wishes)))
        yield f"{title}\n\n{_diff(edit)}"
    if len(applied) > _MOST:
        yield f"And {plural(len(applied) - _MOST, 'more edit')}."
    if not applied:
        yield from _rewritten(proposal)
    yield from _list("Reminders", tuple(reminders(proposal)))
    yield from _list("Not applied", tuple(_left_out(proposal)))
    yield from _list("Refused by the guard", tuple(refusal_lines(proposal)))


def evidence(edit: EditRecord) -> str:
    """How many attempts an edit stands on, or that attribution put the rule up for removal."""
    if edit.source_type == "attribution":
        return "did harm, by all that was measured"
    kind = "failed" if edit.source_type == "failure" else "successful"
    return f"seen in {plural(edit.support_count, f'{kind} attempt')}"


def _diff(edit: EditRecord) -> str:
    kept = _prefixed(" ", edit.target) if edit.op == "insert_after" else ""
    removed = _prefixed("-", edit.target) if edit.op in ("replace", "delete") else ""
    added = "" if edit.op == "delete" else _prefixed("+", edit.content)
    return block("\n".join(filter(None, (kept, removed, added))), "diff", lines=_DIFF_LINES)


def _prefixed(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.strip("\n").split("\n"))


def _rewritten(proposal: ProposalRecord) -> Iterator[str]:
    suggestions = tuple(f"{kind}: {words}" for kind, words in suggestion_rows(proposal))
    yield from _list("Suggestions to the writer", suggestions)
    yield from _list("What changed", rewriting(proposal))
    if proposal.body_changed and proposal.diff:
        yield block(proposal.diff, "diff", lines=2 * _DIFF_LINES)


def _left_out(proposal: ProposalRecord) -> Iterator[str]:
    for edit in proposal.edits:
        if not edit.applied and not edit.reason:
            yield f"{edit.op} “{(edit.content or edit.target)[:80]}”: {edit.status}"


def _list(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        shown = [f"- {inline(line, 300)}" for line in lines[:_MOST]]
        if len(lines) > _MOST:
            shown.append(f"- and {len(lines) - _MOST:,} more")
        yield "\n".join((f"**{title}**\n", *shown))
