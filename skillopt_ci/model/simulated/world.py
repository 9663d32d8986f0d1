"""Tasks of the ledger world: distinct notes, each with the line the house would write."""

from dataclasses import dataclass
from datetime import date, timedelta

from skillopt_ci.model.simulated.dice import Dice
from skillopt_ci.model.simulated.ledger import HOUSE_STYLE, ledger_line
from skillopt_ci.model.simulated.note import CATEGORIES, MONTHS, QUARTERS, Note, write_note

_VENDORS = (
    ("Blue", "Green", "Harbour", "Nordwind", "Maple", "Silver", "Oak", "Summit", "Linden", "Delta"),
    ("Heron", "Valley", "Stone", "Bridge", "River", "Field", "Tower", "Lane", "Crest", "Point"),
    ("Press", "Travel", "Supplies", "Systems", "Catering", "Logistics", "& Sons", "Works"),
)
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK")
_TAX_RATES = ("5", "7", "9", "19", "21")

#: How many conventions besides the separator a note exercises: cumulative probability → number.
_DIFFICULTY = ((0.07, 0), (0.25, 1), (0.50, 2), (0.74, 3), (0.90, 4), (1.00, 5))


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """One note with the one line that the house accepts for it."""

    id: str
    task_type: str
    prompt: str
    reference: str


def generate_notes(seed: int, n: int) -> tuple[LedgerTask, ...]:
    """Return ``n`` tasks with distinct notes; a larger ``n`` keeps the earlier tasks."""
    tasks: dict[str, LedgerTask] = {}
    drawn = 0
    while len(tasks) < n:
        dice = Dice(seed, f"note {drawn}")
        drawn += 1
        note = _draw_note(dice)
        text = write_note(note, dice)
        tasks.setdefault(text, _task(f"ledger-{len(tasks) + 1:03}", note, text))
    return tuple(tasks.values())


def _task(task_id: str, note: Note, text: str) -> LedgerTask:
    return LedgerTask(
        id=task_id,
        task_type="refund" if note.refund else "payment",
        prompt=f"Write the ledger line for this note.\n\nNote: {text}",
        reference=ledger_line(note, HOUSE_STYLE),
    )


def _draw_note(dice: Dice) -> Note:
    shown = _draw_conventions(dice)
    words = [dice.pick(f"vendor {i}", part) for i, part in enumerate(_VENDORS)]
    vendor = " ".join(words)
    return Note(
        date=_draw_date(dice, in_words="date" in shown),
        vendor=vendor if "vendor" in shown else vendor.upper(),
        amount=_draw_amount(dice, grouped="grouping" in shown, bare="decimals" in shown),
        currency=dice.pick("currency code", _CURRENCIES),
        currency_first="currency" not in shown,
        refund="refund" in shown,
        category=dice.pick("category word", CATEGORIES) if "category" in shown else "",
        reference=str(1 + int(dice.roll("number") * 9_999)) if "reference" in shown else "",
        tax=dice.pick("rate", _TAX_RATES) if "tax" in shown else "",
        department=str(10 + int(dice.roll("room") * 80)) if "department" in shown else "",
        quarter=dice.pick("season", QUARTERS) if "quarter" in shown else "",
    )


def _draw_conventions(dice: Dice) -> frozenset[str]:
    roll = dice.roll("difficulty")
    size = next(number for limit, number in _DIFFICULTY if roll < limit)
    ranked = sorted(HOUSE_STYLE - {"separator"}, key=dice.roll)
    return frozenset(ranked[:size])


def _draw_date(dice: Dice, *, in_words: bool) -> str:
    day = date(2025, 1, 1) + timedelta(days=int(dice.roll("day") * 640))
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}" if in_words else day.isoformat()


def _draw_amount(dice: Dice, *, grouped: bool, bare: bool) -> str:
    whole = 1_000 + int(dice.roll("whole") * 8_000) if grouped else 12 + int(dice.roll("w") * 900)
    digits = f"{whole:,}" if grouped else str(whole)
    return digits if bare else f"{digits}.{int(dice.roll('cents') * 100):02}"
