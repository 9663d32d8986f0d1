"""A note about a payment: its facts as it words them, written and read."""

import re
from dataclasses import dataclass

from skillopt_ci.model.simulated.dice import Dice

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
QUARTERS = ("first", "second", "third", "fourth")
CATEGORIES = ("travel", "stationery", "meals", "software", "postage", "cleaning", "repairs")


@dataclass(frozen=True, slots=True)
class Note:
    """The facts of one payment, in the note's own wording; what it does not mention is empty."""

    date: str
    vendor: str
    amount: str
    currency: str
    currency_first: bool = False
    refund: bool = False
    category: str = ""
    reference: str = ""
    tax: str = ""
    department: str = ""
    quarter: str = ""

    @property
    def money(self) -> str:
        """Amount and currency in the note's order."""
        pair = (self.currency, self.amount) if self.currency_first else (self.amount, self.currency)
        return " ".join(pair)


_PAYMENTS = (
    "Paid {money} to {vendor} on {date}.",
    "On {date} we paid {money} to {vendor}.",
    "Invoice from {vendor} dated {date}: {money}, paid.",
    "A transfer of {money} went to {vendor} on {date}.",
)
_REFUNDS = (
    "Refund of {money} from {vendor} on {date}.",
    "On {date} we got {money} back from {vendor} as a refund.",
    "A refund from {vendor} arrived on {date}: {money}.",
)
_DETAILS = {
    "category": ("Category: {}.", "It counts as {}.", "Booked under {}."),
    "reference": ("Reference {}.", "Our reference is {}.", "Ref. no. {}."),
    "tax": ("Includes {}% VAT.", "That is with {}% VAT.", "VAT at {}% included."),
    "department": ("For department {}.", "Charge department {}.", "Ordered by department {}."),
    "quarter": ("Belongs to the {} quarter.", "Counts for the {} quarter."),
}


def write_note(note: Note, dice: Dice) -> str:
    """Return the note as prose; ``dice`` choose the wording and the order of details."""
    opening = dice.pick("opening", _REFUNDS if note.refund else _PAYMENTS)
    first = opening.format(money=note.money, vendor=note.vendor, date=note.date)
    named = sorted((name for name in _DETAILS if getattr(note, name)), key=dice.roll)
    details = [dice.pick(f"wording {n}", _DETAILS[n]).format(getattr(note, n)) for n in named]
    return " ".join([first, *details])


_MONTH = "|".join(MONTHS)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(rf"\b(\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{_MONTH}) \d{{4}})\b")
_MONEY = re.compile(rf"\b(?:([A-Z]{{3}}) ({_NUMBER})|({_NUMBER}) ([A-Z]{{3}}))\b")
_VENDOR = re.compile(r"\b(?:to|from) ([A-Z][\w&'’-]*(?: (?:[A-Z][\w&'’-]*|&))*)")
_FOUND = {
    "category": re.compile(r"\b(?:Category:|counts as|Booked under) ([a-z]+)"),
    "reference": re.compile(r"\bref(?:erence|\.)?(?: no\.| is)? (\d{1,6})\b", re.IGNORECASE),
    "tax": re.compile(r"\b(?:VAT at )?(\d{1,2})% (?:VAT|included)"),
    "department": re.compile(r"\bdepartment (\d+)\b"),
    "quarter": re.compile(rf"\b({'|'.join(QUARTERS)}) quarter\b"),
}


def read_note(text: str) -> Note | None:
    """Return the facts in ``text``; None unless it has a date, a vendor and an amount."""
    date, money, vendor = _DATE.search(text), _MONEY.search(text), _VENDOR.search(text)
    if not (date and money and vendor):
        return None
    before, amount_after, amount_before, after = money.groups()
    details = {name: _first(pattern, text) for name, pattern in _FOUND.items()}
    return Note(
        date=date[1],
        vendor=vendor[1],
        amount=amount_after or amount_before,
        currency=before or after,
        currency_first=bool(before),
        refund=re.search(r"\brefund", text, re.IGNORECASE) is not None,
        **details,
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
