"""The ledger line of a note, under any subset of the house's conventions."""

from collections.abc import Set as AbstractSet
from itertools import combinations

from skillopt_ci.model.simulated.house_style import LEDGER_CONVENTIONS
from skillopt_ci.model.simulated.note import MONTHS, QUARTERS, Note

HOUSE_STYLE = frozenset(convention.name for convention in LEDGER_CONVENTIONS)


def exercised(note: Note) -> tuple[str, ...]:
    """Return the names of the conventions that show in this note's line, in house order."""
    return tuple(convention.name for convention in LEDGER_CONVENTIONS if convention.applies(note))


def ledger_line(note: Note, followed: AbstractSet[str]) -> str:
    """Return the line that someone writes who follows just these conventions."""
    fields = (
        _iso(note.date) if "date" in followed else note.date,
        note.vendor.upper() if "vendor" in followed else note.vendor,
        _money(note, followed),
        note.category[:3].upper() if "category" in followed else note.category,
        note.reference.zfill(6) if "reference" in followed and note.reference else note.reference,
        _either(note.tax, "VAT{}" if "tax" in followed else "{}% VAT"),
        _either(note.department, "CC-{}" if "department" in followed else "department {}"),
        _quarter(note.quarter, tagged="quarter" in followed),
    )
    return (" | " if "separator" in followed else ", ").join(field for field in fields if field)


def conventions_followed(note: Note, line: str) -> frozenset[str] | None:
    """Return the conventions, of those exercised, that explain ``line``; None if none do."""
    names = exercised(note)
    for size in range(len(names), -1, -1):
        for followed in map(frozenset, combinations(names, size)):
            if ledger_line(note, followed) == line:
                return followed
    return None


def _iso(date: str) -> str:
    if "-" in date:
        return date
    day, month, year = date.split()
    return f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}"


def _money(note: Note, followed: AbstractSet[str]) -> str:
    amount = note.amount.replace(",", "") if "grouping" in followed else note.amount
    if "decimals" in followed:
        whole, _, cents = amount.partition(".")
        amount = f"{whole}.{cents[:2]:0<2}"
    if note.refund and "refund" in followed:
        amount = f"-{amount}"
    first = note.currency_first or "currency" in followed
    return f"{note.currency} {amount}" if first else f"{amount} {note.currency}"


def _either(value: str, template: str) -> str:
    return template.format(value) if value else ""


def _quarter(name: str, *, tagged: bool) -> str:
    if not name:
        return ""
    return f"Q{QUARTERS.index(name) + 1}" if tagged else f"{name} quarter"
