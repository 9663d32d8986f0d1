"""The fictional office that the simulated models work for: notes, ledger lines, conventions."""

import hashlib
import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import combinations
from typing import Literal, TypeVar

import yaml

from skillopt_ci.messages import Message

T = TypeVar("T")
Stance = Literal["for", "against"]


@dataclass(frozen=True, slots=True)
class Dice:
    """Random draws that depend only on ``seed``, ``key`` and the name of the draw."""

    seed: int
    key: str

    def roll(self, name: str) -> float:
        """A number from 0 to 1, excluding 1."""
        digest = hashlib.sha256(f"{self.seed}\0{self.key}\0{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    def chance(self, name: str, probability: float) -> bool:
        return self.roll(name) < probability

    def pick(self, name: str, options: Sequence[T]) -> T:
        return options[int(self.roll(name) * len(options))]


def content_key(messages: Sequence[Message], attempt: int = 0) -> str:
    content = []
    for one in messages:
        called = [part for call in one.tool_calls for part in (call.id, call.name, call.arguments)]
        answered = [one.tool_call_id] if one.tool_call_id else []
        content.append([one.role, one.content, *called, *answered])
    return hashlib.sha256(json.dumps([content, attempt]).encode()).hexdigest()


# Conventions, and how a skill's text refers to them.


@dataclass(frozen=True, slots=True)
class Convention:
    """A convention of the office, independent of others; ``conventions.yaml`` has the fields."""

    failure: str
    rules: tuple[str, ...]
    harmful: str

    def stances(self, text: str) -> frozenset[Stance]:
        said = text.casefold()
        found: set[Stance] = {"for"} if any(one.casefold() in said for one in self.rules) else set()
        return frozenset(found | ({"against"} if self.harmful.casefold() in said else set()))


_FILE = resources.files(__package__).joinpath("conventions.yaml")
CONVENTIONS: Mapping[str, Convention] = {
    name: Convention(one["failure"], tuple(one["rules"]), one["harmful"])
    for name, one in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items()
}


def stances(text: str) -> dict[str, frozenset[Stance]]:
    return {name: convention.stances(text) for name, convention in CONVENTIONS.items()}


def subject(text: str) -> tuple[str, Stance] | None:
    taken = ((name, said) for name, said in stances(text).items() if said)
    return next(((name, "against" if "against" in said else "for") for name, said in taken), None)


def conflicting_line(skill: str, name: str) -> str | None:
    lines = skill.splitlines()
    return next((one for one in lines if "against" in CONVENTIONS[name].stances(one)), None)


MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
QUARTERS = ("first", "second", "third", "fourth")
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(rf"\b(\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}})\b")
_MONEY = re.compile(rf"\b(?:([A-Z]{{3}}) ({_NUMBER})|(?<!\d,)({_NUMBER}) ([A-Z]{{3}}))\b")
_VENDOR = re.compile(r"\b(?:to|from) ([A-Z][\w&'’-]*(?: (?:[A-Z][\w&'’-]*|&))*)")
_NOTE_DETAILS = {
    "category": re.compile(r"\b(?:Category:|counts as|Booked under) ([a-z]+)"),
    "reference": re.compile(r"\bref(?:erence|\.)?(?: no\.| is)? (\d{1,6})\b", re.IGNORECASE),
    "tax": re.compile(r"\b(?:VAT at )?(\d{1,2})% (?:VAT|included)"),
    "department": re.compile(r"\bdepartment (\d+)\b"),
    "quarter": re.compile(rf"\b({'|'.join(QUARTERS)}) quarter\b"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """The facts of one payment in the note's own words; facts that it omits are empty."""

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

    def exercised(self) -> tuple[str, ...]:
        shown = {
            "separator": True,
            "date": "-" not in self.date,
            "vendor": self.vendor != self.vendor.upper(),
            "currency": not self.currency_first,
            "decimals": re.search(r"\.\d\d$", self.amount) is None,
            "grouping": "," in self.amount,
            "refund": self.refund,
            **{name: getattr(self, name) for name in _NOTE_DETAILS},
        }
        return tuple(name for name, shows in shown.items() if shows)


def read_note(text: str) -> Note | None:
    date, money, vendor = _DATE.search(text), _MONEY.search(text), _VENDOR.search(text)
    if not (date and money and vendor):
        return None
    before, amount_after, amount_before, after = money.groups()
    details = {name: pattern.search(text) for name, pattern in _NOTE_DETAILS.items()}
    return Note(
        date=date[1],
        vendor=vendor[1],
        amount=amount_after or amount_before,
        currency=before or after,
        currency_first=bool(before),
        refund=re.search(r"\brefund", text, re.IGNORECASE) is not None,
        **{name: found[1] for name, found in details.items() if found},
    )


def ledger_line(note: Note, followed: Container[str]) -> str:

    def written(name: str, value: str, by_rule: Callable[[str], str], otherwise: str = "{}") -> str:
        if not value:
            return ""
        return by_rule(value) if name in followed else otherwise.format(value)

    amount = note.amount.replace(",", "") if "grouping" in followed else note.amount
    if "decimals" in followed:
        whole, _, cents = amount.partition(".")
        amount = f"{whole}.{cents[:2]:0<2}"
    if note.refund and "refund" in followed:
        amount = f"-{amount}"
    first = note.currency_first or "currency" in followed
    fields = (
        written("date", note.date, _iso),
        written("vendor", note.vendor, str.upper),
        f"{note.currency} {amount}" if first else f"{amount} {note.currency}",
        written("category", note.category, lambda word: word[:3].upper()),
        written("reference", note.reference, lambda number: number.zfill(6)),
        written("tax", note.tax, "VAT{}".format, "{}% VAT"),
        written("department", note.department, "CC-{}".format, "department {}"),
        written("quarter", note.quarter, lambda q: f"Q{QUARTERS.index(q) + 1}", "{} quarter"),
    )
    return (" | " if "separator" in followed else ", ").join(field for field in fields if field)


def conventions_followed(note: Note, line: str) -> frozenset[str] | None:
    """The largest set of exercised conventions that explains ``line``; None if no set does."""
    names = note.exercised()
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
