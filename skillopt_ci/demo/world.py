"""The made-up offices that the simulated models work for: what they write and by which conventions.

Bookkeepers make ledger lines of notes about payments; engineers make job scripts of orders.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import yaml

from skillopt_ci.messages import Message

T = TypeVar("T")
Stance = Literal["for", "against"]


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws that depend on ``seed``, on ``key`` and on the name of the draw alone."""

    seed: int
    key: str

    def roll(self, name: str) -> float:
        """Return a number from 0 up to, but not including, 1."""
        digest = hashlib.sha256(f"{self.seed}\0{self.key}\0{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64

    def chance(self, name: str, probability: float) -> bool:
        return self.roll(name) < probability

    def pick(self, name: str, options: Sequence[T]) -> T:
        """Return one of ``options``, which must not be empty."""
        return options[int(self.roll(name) * len(options))]


def content_key(messages: Sequence[Message], attempt: int = 0) -> str:
    """Return the SHA-256 of a request's content, in hex."""
    content = []
    for one in messages:
        called = [part for call in one.tool_calls for part in (call.id, call.name, call.arguments)]
        answered = [one.tool_call_id] if one.tool_call_id else []
        content.append([one.role, one.content, *called, *answered])
    return hashlib.sha256(json.dumps([content, attempt]).encode()).hexdigest()


# Conventions, and what a skill's text says about them.

_AS_GIVEN = r"as (?:it is |they are )?(?:written|given|worded)|(?:the way|just as|like) the note"
_CONTRAST = re.compile(
    r",\s*(?:and )?(?:not|never|no)\b[^.;]*"
    r"|\b(?:instead of|rather than)\b[^,.;]*"
    r"|\bnot\b[^,.;]*\bbut\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:never|not|don['’]t|avoid|stop)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Convention:
    """One independent convention of an office; ``conventions.yaml`` describes the fields."""

    name: str
    failure: str
    rules: tuple[str, ...]
    harmful: str
    patterns: Mapping[Stance, tuple[re.Pattern[str], ...]]

    def stance(self, statement: str) -> Stance | None:
        """Return what one sentence says on this convention, None if nothing."""
        text = _CONTRAST.sub(" ", statement)
        negated = _NEGATION.search(text) is not None
        if all(pattern.search(text) for pattern in self.patterns["against"]):
            return "for" if negated else "against"
        if all(pattern.search(text) for pattern in self.patterns["for"]):
            return "against" if negated else "for"
        return None


def _read_conventions() -> dict[str, tuple[Convention, ...]]:
    def compiled(patterns: list[str]) -> tuple[re.Pattern[str], ...]:
        spelt = (pattern.replace("AS_GIVEN", _AS_GIVEN) for pattern in patterns)
        return tuple(re.compile(pattern, re.IGNORECASE) for pattern in spelt)

    text = resources.files(__package__).joinpath("conventions.yaml").read_text(encoding="utf-8")
    return {
        office: tuple(
            Convention(
                name,
                one["failure"],
                tuple(one["rules"]),
                one["harmful"],
                {"for": compiled(one["for"]), "against": compiled(one["against"])},
            )
            for name, one in listed.items()
        )
        for office, listed in yaml.safe_load(text).items()
    }


LEDGER, SHELL = _read_conventions().values()
CONVENTIONS: Mapping[str, Convention] = MappingProxyType({c.name: c for c in (*LEDGER, *SHELL)})


def statements(text: str) -> tuple[str, ...]:
    """Return the sentences of ``text``, each on one line, without list markers."""
    pieces = (piece.strip().lstrip("-*+>#0123456789. ") for piece in _SENTENCE_END.split(text))
    return tuple(piece for piece in pieces if piece)


@lru_cache(maxsize=4096)  # a run asks the same few sentences for every rollout and edit
def _said(sentence: str) -> Mapping[str, Stance]:
    taken = {name: convention.stance(sentence) for name, convention in CONVENTIONS.items()}
    return MappingProxyType({name: stance for name, stance in taken.items() if stance is not None})


def stances(text: str) -> dict[str, frozenset[Stance]]:
    """Return for each convention what the sentences of ``text`` say on it."""
    said = [_said(sentence) for sentence in statements(text)]
    return {name: frozenset(one[name] for one in said if name in one) for name in CONVENTIONS}


def subject(text: str) -> tuple[str, Stance] | None:
    """Return the first convention that ``text`` takes a stance on, with that stance."""
    taken = ((name, said) for name, said in stances(text).items() if said)
    return next(((name, "against" if "against" in said else "for") for name, said in taken), None)


def conflicting_line(skill: str, name: str) -> str | None:
    """Return the first line of ``skill`` that goes against the named convention."""
    against = (
        line
        for line in skill.splitlines()
        if any(_said(sentence).get(name) == "against" for sentence in statements(line))
    )
    return next(against, None)


# Notes and their ledger lines.

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
QUARTERS = ("first", "second", "third", "fourth")
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(rf"\b(\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}})\b")
_MONEY = re.compile(rf"\b(?:([A-Z]{{3}}) ({_NUMBER})|({_NUMBER}) ([A-Z]{{3}}))\b")
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

    def exercised(self) -> tuple[str, ...]:
        """Return the names of the conventions that show in this note's line, in office order."""
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
    """Return the facts in ``text``; None unless it has a date, a vendor and an amount."""
    date, money, vendor = _DATE.search(text), _MONEY.search(text), _VENDOR.search(text)
    if not (date and money and vendor):
        return None
    before, amount_after, amount_before, after = money.groups()
    return Note(
        date=date[1],
        vendor=vendor[1],
        amount=amount_after or amount_before,
        currency=before or after,
        currency_first=bool(before),
        refund=re.search(r"\brefund", text, re.IGNORECASE) is not None,
        **{name: _first(pattern, text) for name, pattern in _NOTE_DETAILS.items()},
    )


def ledger_line(note: Note, followed: AbstractSet[str]) -> str:
    """Return the line that someone writes who follows just these conventions."""

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
    """Return the conventions, of those exercised, that explain ``line``; None if none do."""
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


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


# Orders and their job scripts.

#: What a job does with its input, as orders word it, and the command that does it.
ACTIONS = MappingProxyType(
    {
        "counts the lines of": "grep -c ''",
        "lists the distinct lines of": "sort -u",
        "shows the last line of": "tail -n 1",
    }
)
_JOB = re.compile(
    rf"\bjob `([a-z]+(?: [a-z]+)*)` (?:that )?({'|'.join(ACTIONS)}) `([\w./-]+)`", re.IGNORECASE
)
_ORDER_DETAILS = {
    "folder": re.compile(r"\bfolder `([\w-]+)`"),
    "owner": re.compile(r"\b(?:belongs to|ordered by) ([A-Z]\w+ [A-Z]\w+)"),
    "message": re.compile(r"\b(?:announces|it says) `([\w ]+)`"),
}
_ORDER_WISHES = {
    "careful": re.compile(r"end at the first error"),
    "kept": re.compile(r"result is kept|keep its result"),
    "needed": re.compile(r"must fail|has to fail"),
    "direct": re.compile(r"calls it directly|is called directly"),
}


@dataclass(frozen=True, slots=True)
class Order:
    """The facts of one job; what the order does not mention is empty or false."""

    job: str
    action: str
    source: str
    folder: str = ""
    owner: str = ""
    message: str = ""
    careful: bool = False
    kept: bool = False
    needed: bool = False
    direct: bool = False

    @property
    def command(self) -> str:
        """The command that does the work."""
        return f"{ACTIONS[self.action]} {self.source}"

    def exercised(self) -> tuple[str, ...]:
        """Return the names of the conventions that show in this order's script, in office order."""
        shown = {
            "shebang": True,
            "place": not self.folder,
            "dashes": " " in self.job,
            "strict": self.careful,
            "owner": self.owner,
            "locale": "distinct" in self.action,
            "progress": self.message,
            "result": self.kept,
            "missing": self.needed,
            "executable": self.direct,
        }
        return tuple(name for name, shows in shown.items() if shows)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as a file; ``path`` is relative to the workspace."""

    path: str
    content: str
    executable: bool


def read_order(text: str) -> Order | None:
    """Return the facts in ``text``; None unless it orders a job script."""
    job = _JOB.search(text)
    if job is None:
        return None
    facts: dict[str, Any] = {
        **{name: _first(pattern, text) for name, pattern in _ORDER_DETAILS.items()},
        **{name: bool(pattern.search(text)) for name, pattern in _ORDER_WISHES.items()},
    }
    return Order(job=job[1], action=job[2], source=job[3], **facts)


def script_for(order: Order, followed: AbstractSet[str]) -> Script:
    """Return the script that someone writes who follows just these conventions."""
    name = order.job.replace(" ", "-" if "dashes" in followed else "_")
    folder = order.folder or ("jobs" if "place" in followed else "")
    lines = ["#!/bin/sh" if "shebang" in followed else "#!/usr/bin/env bash"]
    if order.careful and "strict" in followed:
        lines.append("set -eu")
    if order.owner:
        told = f"# Owner: {order.owner}" if "owner" in followed else "# A job of the office."
        lines.append(told)
    if "locale" in followed and "distinct" in order.action:
        lines.append("export LC_ALL=C")
    if order.needed:
        lines.append(f"[ -f {order.source} ] || exit {3 if 'missing' in followed else 1}")
    if order.message:
        lines.append(f"echo '{order.message}'" + (" >&2" if "progress" in followed else ""))
    if order.kept and "result" in followed:
        lines += ["mkdir -p out", f"{order.command} > out/{name}.txt"]
    else:
        lines.append(order.command)
    return Script(
        path=f"{folder}/{name}.sh" if folder else f"{name}.sh",
        content="".join(f"{line}\n" for line in lines),
        executable=order.direct and "executable" in followed,
    )


def conventions_of(prompts: Iterable[str]) -> tuple[Convention, ...]:
    """Return the conventions of the office that ``prompts`` come from, the ledger's if in doubt."""
    return SHELL if any(read_order(prompt) for prompt in prompts) else LEDGER
