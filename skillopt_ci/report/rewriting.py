"""What became of the document in the modes that write it anew, in the optimizer's own words."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import ProposalRecord, SuggestionRecord
from skillopt_ci.sanitize import one_line


def rewriting(proposal: ProposalRecord) -> tuple[str, ...]:
    """Each change of a rewritten document in a few words; none where it stayed as it was."""
    if not proposal.body_changed:
        return ()
    told = proposal.change_summary or tuple(map(_name, proposal.suggestions))
    words = tuple(filter(None, (_words(text, 80) for text in told)))
    return words or ("the document, written anew",)


def suggestion_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    """The suggestions that the optimizer was given, label and value."""
    for number, one in enumerate(proposal.suggestions, start=1):
        kind = one_line(one.type, 20) or "change"
        name, instruction = _words(_name(one), 80), _words(one.instruction, 200)
        yield f"suggestion {number}", f"{kind}, {name}: {instruction}"


def _words(text: str, limit: int) -> str:
    return one_line(text.lstrip("#-*> \n"), limit).rstrip(" .")


def _name(suggestion: SuggestionRecord) -> str:
    return suggestion.title or suggestion.instruction
