"""The simulated analysts: what goes wrong, judged by references or by what a checker said."""

import argparse
import hashlib
import json
import re
import select
import shlex
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from difflib import get_close_matches
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from itertools import combinations, groupby, pairwise
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import ChatRole, Message, ToolCall
from skillopt_ci.model.providers import as_sent
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Tool, Usage
from skillopt_ci.skill.regions import REGIONS, region_text

# Markdown prompts taken apart: headings, and the fenced data below them.

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{2,6}) +(.*\S)")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it up to the next heading of any level.

    ``data`` is the text inside fences, or all text where there is no fence; ``blocks`` has each
    fence's text with the line that introduces it.
    """

    level: int
    title: str
    text: str
    data: str
    blocks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    fenced: bool
    marker: bool = False


def sections(prompt: str) -> tuple[Section, ...]:
    """Return the sections in order; headings inside fences are data, not structure."""
    found: list[tuple[int, str, list[_Line]]] = []
    for line in _sections_lines(prompt):
        heading = None if line.fenced else _HEADING.fullmatch(line.text.strip())
        if heading:
            found.append((len(heading[1]), heading[2], []))
        elif found:
            found[-1][2].append(line)
    return tuple(
        Section(level, title, *_texts(lines), tuple(_blocks(lines)))
        for level, title, lines in found
    )


def _texts(lines: Iterable[_Line]) -> tuple[str, str]:
    kept = [line for line in lines if not line.marker]
    everything = "\n".join(line.text for line in kept).strip()
    fenced = "\n".join(line.text for line in kept if line.fenced)
    return everything, fenced.strip("\n") or everything


def _blocks(lines: Iterable[_Line]) -> Iterator[tuple[str, str]]:
    introduction = ""
    for fenced, group in groupby(lines, key=lambda line: line.fenced):
        texts = [line.text for line in group if not line.marker]
        if fenced:
            yield introduction, "\n".join(texts)
        else:
            introduction = next((text for text in reversed(texts) if text.strip()), "")


def _sections_lines(prompt: str) -> Iterator[_Line]:
    """Tell fenced lines from others by CommonMark's rule for code fences."""
    fence = ""
    for text in prompt.split("\n"):
        marker = _FENCE.match(text)
        if fence and _closes(text, fence):
            fence = ""
            yield _Line(text, fenced=True, marker=True)
        elif not fence and marker:
            fence = marker[1]
            yield _Line(text, fenced=True, marker=True)
        else:
            yield _Line(text, fenced=bool(fence))


def _closes(text: str, fence: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


# What the optimizer is asked: its prompts read back into values.

#: More edits than anybody proposes.
UNLIMITED = 1_000

_STAGE = re.compile(r"^\W*Stage:\W*(\w+)", re.MULTILINE)
_LIMIT = re.compile(r"at most (?:L\s*=\s*)?(\d+)", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_TURN = re.compile(r"^\[(system|user|assistant|agent|tool)\][ \t]*", re.MULTILINE)
_REASON = re.compile(r"^(?:current )?failure reason: (.*)", re.MULTILINE | re.IGNORECASE)
_POOL_LINE = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_NOTE = re.compile(r"Note `([^`]+)` by ")
_LISTS = ("Patches to merge", "Group ", "Suggestions to carry out")
_SUPPORT = re.compile(r"\bsupport=(\d+)\W*$")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One conversation as an analyst is shown it; ``reason`` says why it failed."""

    references: tuple[str, ...]
    prompt: str
    answer: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AnalystBrief:
    """An analyst's assignment; ``limit`` is the most edits it may propose.

    ``wishes`` are reviewers' notes by their ids.
    """

    skill: str
    limit: int
    previous: str
    trajectories: tuple[Trajectory, ...]
    wishes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonBrief:
    """The assignment at an epoch's end: what the current skill fails at, regressions first.

    ``guidance`` has the lines of the last epoch's.
    """

    skill: str
    guidance: tuple[str, ...]
    failures: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True)
class PatchEdit:
    """An edit as it stands in a merge prompt."""

    op: str
    target: str
    content: str
    support: int
    source: str
    note_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list in a prompt; ``group`` is the source that its section names."""

    value: dict[str, object]
    group: str

    def text(self, key: str) -> str:
        """Return a text of the entry, empty if it is missing."""
        return str(self.value.get(key) or "")

    @property
    def support(self) -> int:
        """How many trajectories back it."""
        support = self.value.get("support_count", 1)
        return support if isinstance(support, int) else 1

    @property
    def note_ids(self) -> tuple[str, ...]:
        """The reviewers' notes that it follows."""
        found = self.value.get("note_ids")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def source(self) -> str:
        """Where it comes from."""
        return self.text("source_type") or self.group


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A line of the ranking prompt's edit pool; ``wished`` if reviewers asked for it."""

    index: int
    description: str
    support: int
    wished: bool = False


def stage_of(messages: Sequence[Message]) -> str:
    """Return the stage that the system prompt names, empty if none."""
    system = "\n".join(m.content for m in messages if m.role == "system")
    found = _STAGE.search(system)
    return found[1] if found else ""


def first_prompt(messages: Sequence[Message]) -> str:
    """Return the first user message: on a retry, later ones only complain."""
    return next((m.content for m in messages if m.role == "user"), "")


def read_analyst_brief(prompt: str) -> AnalystBrief:
    """Read an analyst's user message, leniently: what is missing is empty."""
    parts = sections(prompt)
    assignment = _titled(parts, ("Edits Budget", "Suggestions Budget", "Update Format")).text
    limit = _LIMIT.search(assignment)
    return AnalystBrief(
        skill=_titled(parts, "Current Skill").data,
        limit=int(limit[1]) if limit else UNLIMITED if assignment else 4,
        previous=_titled(parts, "Previous Steps").text,
        trajectories=tuple(_trajectories(parts)),
        wishes=dict(_wishes(_titled(parts, "Reviewer Guidance"))),
    )


def read_comparison_brief(prompt: str) -> ComparisonBrief:
    """Read the user message of an epoch's end."""
    parts = sections(prompt)
    starts = [i for i, part in enumerate(parts) if part.title.startswith("Task ")]
    blocks = [parts[start:end] for start, end in pairwise((*starts, len(parts)))]
    told = (_trajectory(block, "Conversation under the current") for block in blocks)
    failures = tuple(one for one in told if _failed(one))
    guidance = _titled(parts, "Previous Guidance").data.splitlines()
    rules = tuple(line for line in guidance if line.startswith("- "))
    return ComparisonBrief(_titled(parts, "Current Skill").data, rules, failures)


def read_merge_brief(prompt: str) -> tuple[PatchEdit, ...]:
    """Read a merge's user message: all edits in the order given."""
    return tuple(
        PatchEdit(
            item.text("op"),
            item.text("target"),
            item.text("content"),
            item.support,
            item.source,
            item.note_ids,
        )
        for item in read_items(prompt, "op")
    )


def read_items(prompt: str, key: str) -> tuple[Item, ...]:
    """Read the lists of a merge's or a rewrite's user message: all entries that have ``key``."""
    listed = [part for part in sections(prompt) if part.title.startswith(_LISTS)]
    return tuple(
        Item(value, _source(part.title))
        for part in listed
        for value in _entries(_parsed(part.data), key)
    )


def read_skill(prompt: str) -> str:
    """Read the current skill out of any stage's user message."""
    return _titled(sections(prompt), "Current Skill").data


def read_ranking_brief(prompt: str) -> tuple[tuple[PoolEntry, ...], int]:
    """Read a ranking's user message: the pool and how many edits to select."""
    limits = re.findall(r"[Ss]elect at most (\d+)", prompt)
    wishes = _titled(sections(prompt), "Reviewers' Wishes").text
    wished = set(map(int, re.findall(r"\[(\d+)\]", wishes)))
    pool = read_pool(prompt, ("Edit pool", "Suggestion pool"))
    entries = tuple(replace(entry, wished=entry.index in wished) for entry in pool)
    return entries, int(limits[-1]) if limits else len(entries)


def read_pool(prompt: str, title: str | tuple[str, ...]) -> tuple[PoolEntry, ...]:
    """Read the numbered list in the section of this title."""
    pool = _titled(sections(prompt), title).data
    return tuple(
        PoolEntry(int(index), text, int(support[1]) if (support := _SUPPORT.search(text)) else 1)
        for index, text in _POOL_LINE.findall(pool)
    )


def _titled(parts: Sequence[Section], title: str | tuple[str, ...]) -> Section:
    empty = Section(2, "", "", "")
    return next((part for part in parts if part.title.startswith(title)), empty)


def _trajectories(parts: Sequence[Section]) -> Iterator[Trajectory]:
    starts = [i for i, part in enumerate(parts) if part.title.startswith("Trajectory ")]
    for start, end in pairwise((*starts, len(parts))):
        block = parts[start:end]
        yield _trajectory(block, "Conversation")


def _trajectory(block: Sequence[Section], conversation: str) -> Trajectory:
    hidden = _titled(block, "Hidden Reference").text
    turns = _brief_turns(_titled(block, conversation).text)
    answers = [found for role, text in turns if role != "system" for found in _ANSWER.findall(text)]
    return Trajectory(
        references=tuple(re.findall(r"^- (.*\S)", hidden, re.MULTILINE)),
        prompt=next((text for role, text in turns if role == "user"), ""),
        answer=answers[-1].strip() if answers else "",
        reason=(_REASON.findall(block[0].text) or [""])[-1],
    )


def _failed(one: Trajectory) -> bool:
    return one.answer not in one.references if one.answer else bool(one.reason)


def _wishes(guidance: Section) -> Iterator[tuple[str, str]]:
    for introduction, text in guidance.blocks:
        name = _NOTE.match(introduction)
        if name:
            yield name[1], text


def _brief_turns(conversation: str) -> list[tuple[str, str]]:
    pieces = _TURN.split(conversation)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return []


def _entries(value: object, key: str) -> Iterator[dict[str, object]]:
    """Find every object with ``key`` in ``value``, however deep."""
    if isinstance(value, dict) and key in value:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _entries(item, key)


def _source(title: str) -> str:
    return "success" if "success" in title else "failure"


# Chance without a generator's state: every draw is a hash of what it is drawn for.

T = TypeVar("T")

_SPAN = 2**64


def content_key(messages: Sequence[Message], attempt: int = 0) -> str:
    """Return the SHA-256 of a request's content, in hex."""
    content = [[message.role, message.content, *_tool_use(message)] for message in messages]
    return hashlib.sha256(json.dumps([content, attempt]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws that depend on ``seed``, on ``key`` and on the name of the draw alone."""

    seed: int
    key: str

    def roll(self, name: str) -> float:
        """Return a number from 0 up to, but not including, 1."""
        digest = hashlib.sha256(f"{self.seed}\0{self.key}\0{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / _SPAN

    def chance(self, name: str, probability: float) -> bool:
        """Return whether an event of this probability happens."""
        return self.roll(name) < probability

    def pick(self, name: str, options: Sequence[T]) -> T:
        """Return one of ``options``, which must not be empty."""
        return options[int(self.roll(name) * len(options))]


def _tool_use(message: Message) -> list[str]:
    called = [part for call in message.tool_calls for part in (call.id, call.name, call.arguments)]
    return [*called, message.tool_call_id] if message.tool_call_id else called


# A convention of a house, and how a sentence about it is understood.

Stance = Literal["for", "against"]


Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class Convention(Generic[Case]):
    """One independent convention of a house.

    ``applies`` says whether it shows at all in what is made of a case (a note, an order).
    ``failure`` is how a person words that it was not followed.
    """

    name: str
    failure: str
    applies: Callable[[Case], bool]
    rules: tuple[str, ...]
    harmful: str
    in_favour: tuple[re.Pattern[str], ...]
    in_conflict: tuple[re.Pattern[str], ...]

    def stance(self, statement: str) -> Stance | None:
        """Return what one sentence says on this convention, None if nothing."""
        text = _CONTRAST.sub(" ", statement)
        negated = _NEGATION.search(text) is not None
        if _all_found(self.in_conflict, text):
            return "for" if negated else "against"
        if _all_found(self.in_favour, text):
            return "against" if negated else "for"
        return None


_CONTRAST = re.compile(
    r",\s*(?:and )?(?:not|never|no)\b[^.;]*"
    r"|\b(?:instead of|rather than)\b[^,.;]*"
    r"|\bnot\b[^,.;]*\bbut\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:never|not|don['’]t|avoid|stop)\b", re.IGNORECASE)


def _all_found(patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
    return all(pattern.search(text) for pattern in patterns)


# A note about a payment: its facts as it words them, written and read.

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
_NOTE_DETAILS = {
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
    named = sorted((name for name in _NOTE_DETAILS if getattr(note, name)), key=dice.roll)
    details = [dice.pick(f"wording {n}", _NOTE_DETAILS[n]).format(getattr(note, n)) for n in named]
    return " ".join([first, *details])


_MONTH = "|".join(MONTHS)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(rf"\b(\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{_MONTH}) \d{{4}})\b")
_MONEY = re.compile(rf"\b(?:([A-Z]{{3}}) ({_NUMBER})|({_NUMBER}) ([A-Z]{{3}}))\b")
_VENDOR = re.compile(r"\b(?:to|from) ([A-Z][\w&'’-]*(?: (?:[A-Z][\w&'’-]*|&))*)")
_NOTE_FOUND = {
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
    details = {name: _first(pattern, text) for name, pattern in _NOTE_FOUND.items()}
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


# The house style of a made-up bookkeeping office: its conventions, in the order of a line.

_AS_GIVEN = r"as (?:it is |they are )?(?:written|given|worded)|(?:the way|just as|like) the note"


def _says(*parts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(part, re.IGNORECASE) for part in parts)


LEDGER_CONVENTIONS: tuple[Convention[Note], ...] = (
    Convention(
        name="separator",
        failure="the fields of the line are not separated by a vertical bar",
        applies=lambda _: True,
        rules=(
            "Separate the fields with ` | ` (a vertical bar with a space on each side).",
            "Put a vertical bar with a space on each side between the fields.",
        ),
        harmful="Separate the fields with a comma and a space so that the line reads well.",
        in_favour=_says(r"separat|delimit|divid|between|join", r"\||\bpipe|vertical bar"),
        in_conflict=_says(
            r"separat|delimit|divid|between|join", r"\bfield|\bcolumn", r"comma|semicolon|\btab"
        ),
    ),
    Convention(
        name="date",
        failure="the date is not in ISO form",
        applies=lambda note: "-" not in note.date,
        rules=(
            "Write the date in ISO form, YYYY-MM-DD.",
            "Dates are written year first: YYYY-MM-DD.",
        ),
        harmful="Keep the date as it is written in the note, with the month in words.",
        in_favour=_says(r"\bISO\b|YYYY-MM-DD|year[ ,-]+month|year first"),
        in_conflict=_says(
            r"\bdates?\b", rf"{_AS_GIVEN}|DD[/.]MM|MM/DD|in words|long form|day first"
        ),
    ),
    Convention(
        name="vendor",
        failure="the vendor is not in capitals",
        applies=lambda note: note.vendor != note.vendor.upper(),
        rules=(
            "Write the vendor in capital letters.",
            "Vendor names are in upper case throughout.",
        ),
        harmful="Write the vendor in title case: it looks friendlier.",
        in_favour=_says(r"vendor|supplier|payee|merchant", r"capital|upper[ -]?case|all caps"),
        in_conflict=_says(
            r"vendor|supplier|payee|merchant",
            rf"{_AS_GIVEN}|title[ -]case|lower[ -]?case|without capitals|no capitals",
        ),
    ),
    Convention(
        name="currency",
        failure="the currency code does not stand before the amount",
        applies=lambda note: not note.currency_first,
        rules=(
            "Put the three-letter currency code before the amount.",
            "The currency code comes first, then a space, then the amount.",
        ),
        harmful="Put the currency code after the amount, where people expect it.",
        in_favour=_says(r"currency", r"before|in front|preced|first|prefix|ahead"),
        in_conflict=_says(r"currency", r"\bafter|behind|follows the amount|last|suffix"),
    ),
    Convention(
        name="decimals",
        failure="the amount does not have two decimals",
        applies=lambda note: re.search(r"\.\d\d$", note.amount) is None,
        rules=(
            "Give every amount exactly two decimals.",
            "Amounts always show cents: two decimals, even for round sums.",
        ),
        harmful="Leave whole amounts whole: 480 stays 480.",
        in_favour=_says(r"(?:two|2)[ -](?:decimal|digits after|places)"),
        in_conflict=_says(
            r"amount|decimal|\bcents\b",
            r"whole|(?:no|without|drop|leave out|omit) (?:decimals|cents)|round(?:ed)? to",
        ),
    ),
    Convention(
        name="grouping",
        failure="the amount has a thousands separator",
        applies=lambda note: "," in note.amount,
        rules=(
            "Write amounts without thousands separators.",
            "Drop the comma that groups thousands in an amount.",
        ),
        harmful="Keep thousands separators: they make large amounts easier to read.",
        in_favour=_says(
            r"thousand|grouping|digit group",
            r"without|\bno\b|\bnone\b|omit|drop|remov|strip|leave out",
        ),
        in_conflict=_says(
            r"\b(?:use|keep|add|insert|with|write|put)\s+(?:(?!without|no\b)\w+\s+){0,2}(?:thousands|grouping)",
        ),
    ),
    Convention(
        name="refund",
        failure="a refund has no minus sign",
        applies=lambda note: note.refund,
        rules=(
            "Give a refund's amount a minus sign, directly before the digits.",
            "Refunds are negative: a minus sign stands directly before the number.",
        ),
        harmful="Write refunds as positive amounts; the note explains the direction.",
        in_favour=_says(r"refund|money back|came back", r"minus|negative"),
        in_conflict=_says(
            r"refund|money back|came back",
            r"positive|unsigned|(?:no|without)(?: a| any)?(?: minus)? sign",
        ),
    ),
    Convention(
        name="category",
        failure="the category is not a three-letter code",
        applies=lambda note: bool(note.category),
        rules=(
            "Shorten the category to its first three letters, in capitals.",
            "The category is a code: the first three letters of the word, in capitals.",
        ),
        harmful="Write the category in full so that nobody has to guess.",
        in_favour=_says(r"categor", r"(?:three|3)[ -](?:letter|character)|abbreviat"),
        in_conflict=_says(r"categor", rf"{_AS_GIVEN}|in full|full (?:word|name)|spell"),
    ),
    Convention(
        name="reference",
        failure="the reference number is not padded to six digits",
        applies=lambda note: bool(note.reference),
        rules=(
            "Pad the reference number with leading zeros to six digits.",
            "Reference numbers have six digits, with zeros in front as needed.",
        ),
        harmful="Copy the reference number as it is written in the note.",
        in_favour=_says(r"\bref", r"(?:six|6)[ -]digit|\bpad|leading zero|zero-fill"),
        in_conflict=_says(r"\bref", rf"{_AS_GIVEN}|unpadded|(?:no|without|drop) (?:leading|padd)"),
    ),
    Convention(
        name="tax",
        failure="the tax rate is not written as VAT and the number",
        applies=lambda note: bool(note.tax),
        rules=(
            "Write the tax rate as VAT directly followed by the number, such as VAT7.",
            "A tax rate becomes `VAT` plus the number and nothing else: 7 percent is `VAT7`.",
        ),
        harmful="Write the tax rate with a percent sign and the word VAT after it.",
        in_favour=_says(
            r"\btax|\bVAT",
            r"\bVAT\d|VAT\W+(?:directly |plus |followed |and )|without (?:a|the) percent",
        ),
        in_conflict=_says(r"\btax|\bVAT", rf"{_AS_GIVEN}|(?:with|keep) (?:a|the|its) percent"),
    ),
    Convention(
        name="department",
        failure="the department is not written as a cost centre",
        applies=lambda note: bool(note.department),
        rules=(
            "Write the department as a cost centre: CC- and the number.",
            "Departments appear as cost centres, with the prefix `CC-` before the number.",
        ),
        harmful="Write the word department in full before its number.",
        in_favour=_says(r"\bCC-|\bCC\b"),
        in_conflict=_says(r"department|cost cent", rf"{_AS_GIVEN}|in full|bare number"),
    ),
    Convention(
        name="quarter",
        failure="the quarter is not a tag such as Q3",
        applies=lambda note: bool(note.quarter),
        rules=(
            "Write the quarter as a tag: Q and its number, such as Q3.",
            "A quarter becomes a tag of two characters, for example Q3.",
        ),
        harmful="Write the quarter in words, as people say it.",
        in_favour=_says(r"\bQ\d?\b"),
        in_conflict=_says(r"quarter", rf"{_AS_GIVEN}|in words|in full|spell"),
    ),
)

HOUSE_STYLE_BY_NAME = {convention.name: convention for convention in LEDGER_CONVENTIONS}


# An order for a job script: its facts as it words them, written and read.

#: What a job does with its input, as orders word it, and the command that does it.
ACTIONS = MappingProxyType(
    {
        "counts the lines of": "grep -c ''",
        "lists the distinct lines of": "sort -u",
        "shows the last line of": "tail -n 1",
    }
)


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


_ORDER_OPENINGS = (
    "The job `{job}` {action} `{source}`.",
    "We need a job `{job}` that {action} `{source}`.",
)
_ORDER_DETAILS = MappingProxyType(
    {
        "folder": ("Its place is the folder `{}`.", "Put it into the folder `{}`."),
        "owner": ("It belongs to {}.", "It was ordered by {}."),
        "message": ("It announces `{}` when it starts.", "While it works it says `{}`."),
        "careful": ("It must end at the first error.",),
        "kept": ("Its result is kept.", "We keep its result."),
        "needed": ("Without its input it must fail.", "It has to fail if the input is missing."),
        "direct": ("The scheduler calls it directly.", "It is called directly."),
    }
)


def write_order(order: Order, dice: Dice) -> str:
    """Return the order as prose; ``dice`` choose the wording and the order of details."""
    first = dice.pick("opening", _ORDER_OPENINGS).format(
        job=order.job, action=order.action, source=order.source
    )
    named = sorted((name for name in _ORDER_DETAILS if getattr(order, name)), key=dice.roll)
    details = [
        dice.pick(f"wording {n}", _ORDER_DETAILS[n]).format(getattr(order, n)) for n in named
    ]
    return " ".join([first, *details])


_JOB = re.compile(
    rf"\bjob `([a-z]+(?: [a-z]+)*)` (?:that )?({'|'.join(ACTIONS)}) `([\w./-]+)`", re.IGNORECASE
)
_ORDER_FOUND = MappingProxyType(
    {
        "folder": re.compile(r"\bfolder `([\w-]+)`"),
        "owner": re.compile(r"\b(?:belongs to|ordered by) ([A-Z]\w+ [A-Z]\w+)"),
        "message": re.compile(r"\b(?:announces|it says) `([\w ]+)`"),
    }
)
_TOLD = MappingProxyType(
    {
        "careful": re.compile(r"end at the first error"),
        "kept": re.compile(r"result is kept|keep its result"),
        "needed": re.compile(r"must fail|has to fail"),
        "direct": re.compile(r"calls it directly|is called directly"),
    }
)


def read_order(text: str) -> Order | None:
    """Return the facts in ``text``; None unless it orders a job script."""
    job = _JOB.search(text)
    if job is None:
        return None
    facts = {name: _first(pattern, text) for name, pattern in _ORDER_FOUND.items()}
    told = {name: pattern.search(text) is not None for name, pattern in _TOLD.items()}
    return Order(
        job=job[1],
        action=job[2],
        source=job[3],
        folder=facts["folder"],
        owner=facts["owner"],
        message=facts["message"],
        careful=told["careful"],
        kept=told["kept"],
        needed=told["needed"],
        direct=told["direct"],
    )


# The house style for job scripts of a made-up office.

_MISSING = r"\bmiss(?:es|ing)?\b|\babsent\b|without (?:its|an) input"

SHELL_CONVENTIONS: tuple[Convention[Order], ...] = (
    Convention(
        name="shebang",
        failure="the first line is no plain /bin/sh",
        applies=lambda _: True,
        rules=(
            "Begin every script with the line `#!/bin/sh`.",
            "The first line of a script is `#!/bin/sh`.",
        ),
        harmful="Begin scripts with `#!/bin/bash`: it knows more.",
        in_favour=_says(r"#!/bin/sh\b|\bshebang\b.*/bin/sh\b"),
        in_conflict=_says(r"#!\S*bash|\bshebang\b.*\bbash"),
    ),
    Convention(
        name="place",
        failure="the script stands in the wrong folder",
        applies=lambda order: not order.folder,
        rules=(
            "Put scripts into the folder `jobs/` unless the order names another.",
            "A script stands in `jobs/` where the order names no folder.",
        ),
        harmful="Keep scripts in the top folder, where people find them.",
        in_favour=_says(r"\bscripts?\b", r"\bjobs/|folder `?jobs\b"),
        in_conflict=_says(r"\bscripts?\b", r"top (?:folder|level)|root folder|current folder"),
    ),
    Convention(
        name="dashes",
        failure="the words of the file name are not joined by dashes",
        applies=lambda order: " " in order.job,
        rules=(
            "Join the words of a script's file name with dashes.",
            "A script's file name has dashes between its words: `tidy-logs.sh`.",
        ),
        harmful="Join the words of a script's file name with underscores.",
        in_favour=_says(r"\b(?:scripts?|files?|jobs?)\b", r"\bnam", r"\bdash|hyphen|kebab"),
        in_conflict=_says(r"\b(?:scripts?|files?|jobs?)\b", r"\bnam", r"underscore|snake|camel"),
    ),
    Convention(
        name="strict",
        failure="the second line does not make it strict",
        applies=lambda order: order.careful,
        rules=(
            "The second line of a script that must end at the first error is `set -eu`.",
            "Write `set -eu` directly below the first line of a careful script.",
        ),
        harmful="Leave `set` options out of scripts: they end at every trifle.",
        in_favour=_says(r"\bset -eu\b"),
        in_conflict=_says(r"`set` option|\bset options", r"leave|omit|without|drop"),
    ),
    Convention(
        name="owner",
        failure="no comment names the owner",
        applies=lambda order: bool(order.owner),
        rules=(
            "Name the owner in a comment line: `# Owner: Ann Example`.",
            "A comment of the form `# Owner: Ann Example` says whose script it is.",
        ),
        harmful="Leave owners out of scripts, since people change.",
        in_favour=_says(r"\bowner", r"# ?owner:|\bcomment"),
        in_conflict=_says(r"\bowner", r"leave|omit|without|drop"),
    ),
    Convention(
        name="locale",
        failure="sorting depends on the locale",
        applies=lambda order: "distinct" in order.action,
        rules=(
            "A script that lists distinct lines sets `LC_ALL=C` before it sorts.",
            "Put `export LC_ALL=C` into every script that sorts.",
        ),
        harmful="Leave the locale of scripts to whoever calls them.",
        in_favour=_says(r"\bLC_ALL=C\b"),
        in_conflict=_says(r"\blocale|\bLC_ALL", r"leave|omit|without|drop"),
    ),
    Convention(
        name="progress",
        failure="messages are not on standard error",
        applies=lambda order: bool(order.message),
        rules=(
            "Send a script's messages to standard error (`>&2`).",
            "What a script announces goes to standard error, so that its output stays clean.",
        ),
        harmful="Print a script's messages to standard output, where people see them.",
        in_favour=_says(r"\bmessage|\bannounce|\bsays?\b", r"standard error|stderr|>&2"),
        in_conflict=_says(r"\bmessage|\bannounce|\bsays?\b", r"standard output|stdout"),
    ),
    Convention(
        name="result",
        failure="the result is not kept in its file",
        applies=lambda order: order.kept,
        rules=(
            "Write a result that is kept to `out/`, in a text file named like the script.",
            "Kept results go to `out/`: the script `tidy-logs.sh` writes `out/tidy-logs.txt`.",
        ),
        harmful="Print a result that is kept; whoever calls the script can redirect it.",
        in_favour=_says(r"\bresults?\b", r"\bout/"),
        in_conflict=_says(r"\bresults?\b", r"\bprint|redirect"),
    ),
    Convention(
        name="missing",
        failure="a missing input does not give exit status 3",
        applies=lambda order: order.needed,
        rules=(
            "A script that misses its input ends with exit status 3.",
            "Exit with status 3 when the input file of a script is missing.",
        ),
        harmful="End a script whose input is missing with exit status 1, like any program.",
        in_favour=_says(r"\bexit|\bstatus", r"\b3\b", _MISSING),
        in_conflict=_says(r"\bexit|\bstatus", r"\b1\b", _MISSING),
    ),
    Convention(
        name="executable",
        failure="the script is not executable",
        applies=lambda order: order.direct,
        rules=(
            "Make a script that is called directly executable (`chmod +x`).",
            "Set the executable bit of every script that is called directly.",
        ),
        harmful="Leave scripts without the executable bit: they run through sh anyway.",
        in_favour=_says(r"\bexecutable|\bchmod"),
        in_conflict=_says(r"\bexecutable|\bchmod", r"leave|without|remove|drop"),
    ),
)


# All conventions of the simulated worlds, and which of them a piece of work is about.

ALL_CONVENTIONS: tuple[Convention[Any], ...] = (*LEDGER_CONVENTIONS, *SHELL_CONVENTIONS)

HOUSES_BY_NAME = {convention.name: convention for convention in ALL_CONVENTIONS}


def conventions_of(prompts: Iterable[str]) -> tuple[Convention[Any], ...]:
    """Return the conventions of the house that ``prompts`` come from, the ledger's if in doubt."""
    if any(read_order(prompt) for prompt in prompts):
        return SHELL_CONVENTIONS
    return LEDGER_CONVENTIONS


# The ledger line of a note, under any subset of the house's conventions.

LEDGER_HOUSE_STYLE = frozenset(convention.name for convention in LEDGER_CONVENTIONS)


def ledger_exercised(note: Note) -> tuple[str, ...]:
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
    names = ledger_exercised(note)
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


# What a skill's text says about each convention.

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")


def statements(text: str) -> tuple[str, ...]:
    """Return the sentences of ``text``, each on one line, without list markers."""
    pieces = (piece.strip().lstrip("-*+>#0123456789. ") for piece in _SENTENCE_END.split(text))
    return tuple(piece for piece in pieces if piece)


def stances(text: str) -> dict[str, frozenset[Stance]]:
    """Return for each convention what the sentences of ``text`` say on it."""
    said = statements(text)
    return {
        convention.name: frozenset(
            _skill_reading_known(convention.stance(statement) for statement in said)
        )
        for convention in ALL_CONVENTIONS
    }


def subject(text: str) -> tuple[str, Stance] | None:
    """Return the first convention that ``text`` takes a stance on, with that stance."""
    found = stances(text)
    for name, taken in found.items():
        if taken:
            return name, "against" if "against" in taken else "for"
    return None


def conflicting_line(skill: str, name: str) -> str | None:
    """Return the first line of ``skill`` that goes against the named convention."""
    convention = HOUSES_BY_NAME[name]
    for line in skill.splitlines():
        if any(convention.stance(statement) == "against" for statement in statements(line)):
            return line
    return None


def _skill_reading_known(taken: Iterable[Stance | None]) -> Iterable[Stance]:
    return (stance for stance in taken if stance is not None)


# What a simulated analyst proposes when it errs: plausible edits that do not help.

Mishap = Callable[[AnalystBrief, Dice], dict[str, object] | None]

PLATITUDES = (
    "Read the whole note before writing anything.",
    "Take care to be accurate and complete.",
    "Check your work once more before you answer.",
    "Keep a calm, professional tone.",
)


def _harmful(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    house = conventions_of(one.prompt for one in brief.trajectories)
    options = [c.harmful for c in house if not _mishap_known(c.harmful, brief)]
    return _append(dice.pick("harmful choice", options)) if options else None


def _platitude(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    options = [text for text in PLATITUDES if not _mishap_known(text, brief)]
    return _append(dice.pick("platitude choice", options)) if options else None


def _duplicate(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    said = stances(brief.skill)
    options = [rule for c in ALL_CONVENTIONS if "for" in said[c.name] for rule in c.rules]
    return _append(dice.pick("duplicate choice", options)) if options else None


def _missing_target(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    heading = dice.pick("missing heading", ("## Formatting rules", "## Layout", "## Checklist"))
    if heading in brief.skill:
        return None
    content = f"{heading}\n\nEvery line follows the rules below."
    return {"op": "replace", "target": heading, "content": content, "support_count": 1}


def _leak(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    answers = [answer for one in brief.trajectories for answer in one.references]
    if not answers:
        return None
    return _append(f"A right line looks like this: `{dice.pick('leaked answer', answers)}`")


def _link(brief: AnalystBrief, dice: Dice) -> dict[str, object] | None:
    del brief
    page = dice.pick("linked page", ("style", "examples", "faq"))
    return _append(f"Further rules are on https://ledger-handbook.example/{page}.")


def _mishap_known(text: str, brief: AnalystBrief) -> bool:
    return text in brief.previous or text in brief.skill


def _append(text: str) -> dict[str, object]:
    return {"op": "append", "content": f"- {text}", "support_count": 1}


#: By the name of the temperament's rate, in the order in which they are tried.
MISHAPS: Mapping[str, Mishap] = {
    "harmful": _harmful,
    "platitude": _platitude,
    "duplicate": _duplicate,
    "missing_target": _missing_target,
    "leak": _leak,
    "link": _link,
}


# How good and how wayward the simulated models are: every rate in one place.


@dataclass(frozen=True, slots=True)
class Temperament:
    """Probabilities from 0 to 1 per occasion, unless said otherwise."""

    slip: float = 0.02
    """The target breaks a convention that the skill states."""
    bloat_from: int = 5_000
    """Length of the system prompt, in characters, from which the target begins to lose track."""
    bloat_slip: float = 0.01
    """Added to ``slip`` for each further 1 000 characters."""
    contradiction_slip: float = 0.02
    """Added to ``slip`` for each convention about which the skill contradicts itself."""
    torn: float = 0.6
    """The target breaks a convention that the skill both states and contradicts."""
    heedless: float = 0.2
    """Of its slips, those that the target makes also where guidance or a note reminds it."""
    insight: float = 0.2
    """An analyst sees, from one trajectory, the convention behind its failure."""
    vigilance: float = 0.8
    """An analyst sees that a line of the skill is behind a kind of failure."""
    harmful: float = 0.25
    """An analyst proposes something that contradicts the house style."""
    platitude: float = 0.25
    """An analyst proposes something that helps nobody."""
    duplicate: float = 0.3
    """An analyst proposes a rule that the skill has already."""
    missing_target: float = 0.1
    """An analyst wants to change a text that is not there."""
    leak: float = 0.05
    """An analyst gives a reference answer away."""
    link: float = 0.05
    """An analyst sends the target to a web page."""
    malformed: float = 0.06
    """The optimizer's reply is not what was asked for."""
    gullible: float = 0.6
    """A merge keeps an edit that a single patch proposes without any evidence."""
    forgetful: float = 0.1
    """Whoever writes a whole document loses one of its rules."""
    meddlesome: float = 0.25
    """Whoever writes a whole document changes what is not theirs to change."""
    rash: float = 0.1
    """The chosen learning rate is higher than the number of changes."""


STEADY = Temperament()
NOISY = Temperament(slip=0.08)


Edit = dict[str, object]
#: Puts reasoning and edits into the form that the update mode wants.
Spelling = Callable[[str, Sequence[Edit]], dict[str, object]]


def as_edits(reasoning: str, edits: Sequence[Edit]) -> dict[str, object]:
    """Return a proposal in the form of edits."""
    return {"reasoning": reasoning, "edits": edits}


def analyse_failures(
    brief: AnalystBrief, dice: Dice, temperament: Temperament, spell: Spelling = as_edits
) -> dict[str, object]:
    """Return the reply to a failure minibatch: what it saw, and edits against it."""
    missed = broken_conventions(brief.trajectories)
    seen = [name for name in missed if _noticed(name, missed[name], brief, dice, temperament)]
    wished = _wished(brief, missed, dice)
    asked = {name for name, _ in wished}
    learnt = (_remedy(name, missed[name], brief, dice) for name in seen if name not in asked)
    edits = [*(edit for _, edit in wished), *(edit for remedy in learnt for edit in remedy)]
    return {
        "batch_size": len(brief.trajectories),
        "failure_summary": [
            {
                "failure_type": name,
                "count": missed[name],
                "description": HOUSES_BY_NAME[name].failure,
            }
            for name in seen
        ],
        "patch": spell(
            _reasoning(seen), _with_mishap(edits[: brief.limit], brief, dice, temperament)
        ),
    }


def analyse_successes(
    brief: AnalystBrief, dice: Dice, temperament: Temperament, spell: Spelling = as_edits
) -> dict[str, object]:
    """Return the reply to a success minibatch: mostly that all is well."""
    edits = [edit for _, edit in _wished(brief, {}, dice)][: brief.limit]
    return {
        "batch_size": len(brief.trajectories),
        "success_patterns": ["The answers follow the conventions that the skill states."],
        "patch": spell(
            "What works is in the skill already.",
            _with_mishap(edits, brief, dice, temperament, only="platitude"),
        ),
    }


def broken_conventions(trajectories: Sequence[Trajectory]) -> Mapping[str, int]:
    """Return how many trajectories break each convention, the most broken first."""
    counts: Counter[str] = Counter()
    for trajectory in trajectories:
        counts.update(_broken(trajectory))
    ranked = sorted((c.name for c in ALL_CONVENTIONS if counts[c.name]), key=lambda n: -counts[n])
    return {name: counts[name] for name in ranked}


def _broken(trajectory: Trajectory) -> frozenset[str]:
    if read_order(trajectory.prompt) is not None:
        return frozenset(c.name for c in SHELL_CONVENTIONS if c.failure in trajectory.reason)
    note = read_note(trajectory.prompt)
    if note is None:
        return frozenset()
    followed = conventions_followed(note, trajectory.answer)
    wanted = [conventions_followed(note, reference) for reference in trajectory.references]
    if followed is None or not any(wanted):
        return frozenset()
    return next(names for names in wanted if names) - followed


def _noticed(
    name: str, count: int, brief: AnalystBrief, dice: Dice, temperament: Temperament
) -> bool:
    misled = conflicting_line(brief.skill, name) is not None
    odds = temperament.vigilance if misled else 1 - (1 - temperament.insight) ** count
    return dice.chance(f"insight {name}", odds)


def _remedy(name: str, count: int, brief: AnalystBrief, dice: Dice) -> list[Edit]:
    """Return the edit against a kind of failure; none if the skill covers it already."""
    taken = stances(brief.skill)[name]
    fresh = [rule for rule in HOUSES_BY_NAME[name].rules if rule not in brief.previous]
    rule = dice.pick(f"wording {name}", fresh or HOUSES_BY_NAME[name].rules)
    wrong = conflicting_line(brief.skill, name)
    if wrong is not None and "for" in taken:
        return [{"op": "delete", "target": wrong, "support_count": count}]
    if wrong is not None:
        edit = {"op": "replace", "target": wrong, "content": f"- {rule}"}
        return [{**edit, "support_count": count}]
    if "for" in taken:
        return []
    return [{**_addition(rule, brief, dice), "support_count": count}]


def _wished(brief: AnalystBrief, missed: Mapping[str, int], dice: Dice) -> list[tuple[str, Edit]]:
    """Return the edits that reviewers' notes ask for, by convention."""
    asking: dict[str, list[str]] = {}
    for note, text in brief.wishes.items():
        for name, taken in stances(text).items():
            if taken == {"for"}:
                asking.setdefault(name, []).append(note)
    return [
        (name, {**edit, "note_ids": notes})
        for name, notes in asking.items()
        for edit in _remedy(name, missed.get(name, 1), brief, dice)
    ]


def _addition(rule: str, brief: AnalystBrief, dice: Dice) -> Edit:
    bullets = [line for line in brief.skill.splitlines() if line.startswith("- ")]
    if bullets and dice.chance(f"place {rule}", 0.6):
        return {"op": "insert_after", "target": bullets[-1], "content": f"- {rule}"}
    return {"op": "append", "content": f"- {rule}"}


def _with_mishap(
    edits: list[Edit],
    brief: AnalystBrief,
    dice: Dice,
    temperament: Temperament,
    only: str | None = None,
) -> list[Edit]:
    for kind, mishap in MISHAPS.items():
        if only in (None, kind) and dice.chance(kind, getattr(temperament, kind)):
            edit = mishap(brief, dice)
            if edit is not None:
                return [*edits[: max(0, brief.limit - 1)], edit][: brief.limit]
    return edits


def _reasoning(seen: Sequence[str]) -> str:
    if not seen:
        return "The failures do not share a cause that I can see."
    causes = "; ".join(HOUSES_BY_NAME[name].failure for name in seen)
    return f"Several answers differ from their references in the same way: {causes}."


# Revisions of a document by the simulated optimizer: lines that go and lines that come.

_REGION = "<!-- "


@dataclass(frozen=True, slots=True)
class Change:
    """The line ``old`` becomes the lines ``new``; either may be empty, ``old`` may be unknown."""

    old: str = ""
    new: str = ""

    @property
    def summary(self) -> str:
        """The change in one line."""
        new = " ".join(self.new.removeprefix("- ").split())
        if not self.old:
            return f"Add: {new}"
        return f"Replace by: {new}" if new else f"Drop: {self.old.removeprefix('- ')}"


def change_of(edit: dict[str, object]) -> Change:
    """Return what an edit would do to the lines of the document."""
    content = str(edit.get("content") or "")
    if edit["op"] in ("replace", "delete"):
        return Change(str(edit.get("target") or ""), content)
    return Change(new=content)


def attribution(note_ids: object) -> dict[str, object]:
    """Return what a proposal says of the reviewers' notes that it follows; nothing without any."""
    return {"note_ids": note_ids} if note_ids else {}


def revised(document: str, changes: Iterable[Change], dice: Dice, temperament: Temperament) -> str:
    """Return the document with ``changes``, as carefully as the temperament has it."""
    lines = document.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith(_REGION)), len(lines))
    body, tail = lines[:start], lines[start:]
    for change in changes:
        body = _changed(body, change)
    if dice.chance("forgetful", temperament.forgetful):
        body = _without_one_rule(body, dice)
    if dice.chance("meddlesome", temperament.meddlesome):
        return "\n".join(_meddled_with(body))
    return "\n".join([*body, *tail])


def _changed(body: Sequence[str], change: Change) -> list[str]:
    new = change.new.splitlines()
    if change.old and change.old in body:
        place = body.index(change.old)
        return [*body[:place], *new, *body[place + 1 :]]
    rules = [place for place, line in enumerate(body) if line.startswith("- ")]
    place = rules[-1] + 1 if rules else len(body)
    gap = [] if rules or not body or not body[-1] else [""]
    return [*body[:place], *gap, *new, *body[place:]]


def _without_one_rule(body: Sequence[str], dice: Dice) -> list[str]:
    rules = [place for place, line in enumerate(body) if line.startswith("- ")]
    lost = dice.pick("lost rule", rules) if rules else -1
    return [line for place, line in enumerate(body) if place != lost]


def _meddled_with(body: Sequence[str]) -> list[str]:
    """Return what is left when frontmatter is taken for text that could be worded better."""
    return [line.replace("description:", "about:") for line in body]


# The simulated optimizer's whole documents: written by analysts, merged into one.


def as_document(skill: str, dice: Dice, temperament: Temperament) -> Spelling:
    """Return how an analyst who reads ``skill`` puts a proposal: the edits carried out."""

    def spell(reasoning: str, edits: Sequence[dict[str, object]]) -> dict[str, object]:
        changes = [change_of(edit) for edit in edits]
        candidates = [_candidate(skill, changes, len(edits), dice, temperament)] if edits else []
        return {"reasoning": reasoning, "skill_candidates": candidates}

    return spell


def merge_documents(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return one document with what is new in the given ones; of one subject the first counts."""
    skill, items = read_skill(prompt), read_items(prompt, "new_skill")
    changes = _changes(skill, [item.text("new_skill") for item in items])
    support = sum(item.support for item in items)
    return {
        "reasoning": f"{len(items)} documents change {len(changes)} things.",
        "skill_candidates": [_candidate(skill, changes, support, dice, temperament)],
    }


def _candidate(
    skill: str, changes: Sequence[Change], support: int, dice: Dice, temperament: Temperament
) -> dict[str, object]:
    return {
        "title": f"Revise {len(changes)} rules",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(skill, changes, dice, temperament),
        "support_count": support,
    }


def _changes(skill: str, documents: Sequence[str]) -> list[Change]:
    """Return the rules that are new in some document, and those that most have dropped."""
    known = [line for line in skill.splitlines() if line.startswith("- ")]
    added: dict[str, str] = {}
    dropped: Counter[str] = Counter()
    for document in documents:
        rules = [line for line in document.splitlines() if line.startswith("- ")]
        dropped.update(set(known).difference(rules))
        for rule in rules:
            if rule not in known:
                about = subject(rule)
                added.setdefault(about[0] if about else rule, rule)
    gone = [rule for rule in known if dropped[rule] * 2 > len(documents)]
    return [*(Change(old=rule) for rule in gone), *(Change(new=rule) for rule in added.values())]


# The simulated optimizer at an epoch's end: guidance for the target, memory for itself.

_EPOCH_END_REMINDER = "Check last: "

#: Causes of failures that one slow update goes into.
MOST = 2


def advise(brief: ComparisonBrief, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the last guidance and, for what fails most and it does not speak of, a line more.

    What the skill does not say becomes a rule, what it says and the target forgets a reminder.
    """
    covered, stated = stances("\n".join(brief.guidance)), stances(brief.skill)
    missed = [name for name in broken_conventions(brief.failures) if not covered[name]][:MOST]
    seen = [name for name in missed if dice.chance(f"foresight {name}", temperament.vigilance)]
    rules = {name: dice.pick(f"guidance {name}", HOUSES_BY_NAME[name].rules) for name in seen}
    new = [f"- {_EPOCH_END_REMINDER if stated[name] else ''}{rule}" for name, rule in rules.items()]
    return {
        "reasoning": f"{len(brief.failures)} tasks still fail; {len(rules)} causes stand out.",
        "slow_update_content": "\n".join((*brief.guidance, *new)),
    }


def remember(brief: ComparisonBrief) -> dict[str, object]:
    """Return a memory that names the kinds of failures that are left."""
    left = [HOUSES_BY_NAME[name].failure for name in broken_conventions(brief.failures)][:3]
    lines = [
        "- Rules that name one convention and show one example are followed.",
        *(f"- Still open: {failure}." for failure in left),
    ]
    return {
        "reasoning": "What was tried, held against what failed.",
        "meta_skill_content": "\n".join(lines),
    }


# The simulated judge: the more words an answer shares with the rest of the prompt, the better.

_WORD = re.compile(r"\w+")
_BLOCK = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


def is_grading(messages: Sequence[Message]) -> bool:
    """Return whether the prompt asks for a score in JSON."""
    return any(re.search(r"[\"'`]score[\"'`]", message.content) for message in messages)


def judge(messages: Sequence[Message], dice: Dice) -> str:
    """Return a grade from 0 to 1 with a reason.

    The last fenced block is taken for the answer and the earlier ones for what it is held against.
    Without two blocks the grade is a draw.
    """
    blocks = [_words(block) for _, block in _BLOCK.findall(first_prompt(messages))]
    if len(blocks) < 2 or not blocks[-1]:  # noqa: PLR2004
        score = round(0.4 + 0.6 * dice.roll("grade"), 2)
        return json.dumps({"score": score, "reason": "A plausible answer."})
    expected = set().union(*blocks[:-1])
    shared = len(blocks[-1] & expected) / len(blocks[-1])
    reason = f"{shared:.0%} of the answer's words are those of the task and the rubric."
    return json.dumps({"score": round(shared, 2), "reason": reason})


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


# The simulated analyst's reminders: rules that the skill states and that were not followed.

_BEGINNING = "Before you answer, look again: "
_LAPSE_REMINDER = re.compile(r"^- (.*\S)", re.MULTILINE)


def lapse_notes(brief: AnalystBrief) -> list[str]:
    """Return one reminder for each kind of failure that a rule of the skill would prevent."""
    taken = stances(brief.skill)
    lapses = [name for name in broken_conventions(brief.trajectories) if taken[name] == {"for"}]
    notes = [_reminder(HOUSES_BY_NAME[name].rules[0]) for name in lapses]
    return [note for note in notes if note not in brief.skill]


def condense(prompt: str) -> dict[str, object]:
    """Return the reminders that the prompt lists, one for each subject."""
    listed = next((one.data for one in sections(prompt) if one.title.startswith("Reminders")), "")
    kept: dict[str, str] = {}
    for note in _LAPSE_REMINDER.findall(listed):
        about = subject(note)
        kept.setdefault(about[0] if about else note, note.removeprefix(_BEGINNING))
    return {"appendix_notes": list(kept.values())}


def _reminder(rule: str) -> str:
    return f"{_BEGINNING}{rule[0].lower()}{rule[1:]}"


# The simulated merges: duplicates joined, contradictions settled by support.


def merge_edits(
    edits: Sequence[PatchEdit], dice: Dice, temperament: Temperament
) -> dict[str, object]:
    """Return the merged patch: one edit for each subject, with the support of all it stands for."""
    kept, reasoning = merged(edits, dice, temperament)
    return {"reasoning": reasoning, "edits": [_as_json(edit) for edit in kept]}


def merged(
    edits: Sequence[PatchEdit], dice: Dice, temperament: Temperament
) -> tuple[list[PatchEdit], str]:
    """Return what stays of ``edits``, with the support of all it stands for, and the reasoning."""
    joined = _joined(edits)
    kept = [
        edit
        for edit in joined
        if edit.support > 1
        or edit.note_ids
        or dice.chance(f"keep {edit.content}", temperament.gullible)
    ]
    return kept, f"{len(edits)} proposed edits name {len(joined)} things; {len(kept)} stay."


def _joined(edits: Iterable[PatchEdit]) -> list[PatchEdit]:
    groups: dict[str, PatchEdit] = {}
    for edit in edits:
        key = _key(edit)
        known = groups.get(key)
        groups[key] = edit if known is None else _settled(known, edit)
    return list(groups.values())


def _key(edit: PatchEdit) -> str:
    """Return what the edit is about: a convention whatever its wording, else its own words."""
    about = subject(edit.content or edit.target)
    return about[0] if about else f"{edit.op} {edit.target} {edit.content}".casefold()


def _settled(first: PatchEdit, second: PatchEdit) -> PatchEdit:
    """Join two edits on one subject; of a contradiction a reviewer's wish or more support wins."""
    if _stance(first) == _stance(second):
        notes = tuple(dict.fromkeys((*first.note_ids, *second.note_ids)))
        return replace(first, support=first.support + second.support, note_ids=notes)
    if bool(first.note_ids) != bool(second.note_ids):
        return first if first.note_ids else second
    return first if first.support >= second.support else second


def _stance(edit: PatchEdit) -> str | None:
    about = subject(edit.content)
    return about[1] if about else None


def _as_json(edit: PatchEdit) -> dict[str, object]:
    return {
        "op": edit.op,
        "target": edit.target,
        "content": edit.content,
        "support_count": edit.support,
        "source_type": edit.source,
        **attribution(edit.note_ids),
    }


# The simulated ranking: what reviewers ask for, then what most trajectories back.


def rank(pool: Sequence[PoolEntry], limit: int) -> dict[str, object]:
    """Return the choice of ``limit`` edits by support, reviewers' wishes first."""
    ranked = sorted(pool, key=lambda entry: (not entry.wished, -entry.support, entry.index))
    return {
        "reasoning": "Edits that answer the most failures come first.",
        "selected_indices": [entry.index for entry in ranked[:limit]],
    }


# The simulated choice of a learning rate: one change for each that is well backed.

#: From this share of solved tasks on, the steps are small.
_MOSTLY = 0.5
_SMALL = 2
_HARD = re.compile(r"rollout_hard: ([01]\.\d+)")


def choose_size(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return how many of the proposed items to apply, now and then in words or too many."""
    pool = read_pool(prompt, "Proposed items")
    backed = sum(1 for entry in pool if entry.support > 1)
    found = _HARD.search(prompt)
    solved = float(found[1]) if found else 0.0
    number = backed if solved < _MOSTLY else min(backed, _SMALL)
    if dice.chance("rash", temperament.rash):
        number = len(pool) + 1
    return {
        "learning_rate": dice.pick("spelling", (number, float(number), f"{number} of them")),
        "reasoning": f"{backed} of the changes are backed by more than one trajectory.",
        "confidence": "medium" if solved < _MOSTLY else "high",
        "risk_notes": ["Several changes at once hide which of them helped."],
    }


# The simulated optimizer's suggestions: edits in words, merged, and carried out in a rewrite.

_REMOVE = "Remove: "
_INSTEAD = "Write instead: "


def as_suggestions(reasoning: str, edits: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return an analyst's proposal in the form of suggestions."""
    suggestions = [
        {
            **_suggestion(change_of(edit), edit["support_count"]),
            **attribution(edit.get("note_ids")),
        }
        for edit in edits
    ]
    return {"reasoning": reasoning, "revise_suggestions": suggestions}


def merge_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the merged list: one suggestion for each subject."""
    kept, reasoning = merged(_read(prompt), dice, temperament)
    return {
        "reasoning": reasoning,
        "revise_suggestions": [
            {
                **_suggestion(_change(one.content), one.support),
                "type": one.op,
                "source_type": one.source,
                **attribution(one.note_ids),
            }
            for one in kept
        ],
    }


def rewrite(prompt: str, dice: Dice, temperament: Temperament) -> dict[str, object]:
    """Return the document that the prompt shows, with the suggestions carried out."""
    changes = [_change(edit.content) for edit in _read(prompt)]
    return {
        "reasoning": "The suggestions were carried out where they belong.",
        "change_summary": [change.summary for change in changes],
        "new_skill": revised(read_skill(prompt), changes, dice, temperament),
    }


def _suggestion(change: Change, support: object) -> dict[str, object]:
    kind = "add_rule" if not change.old else "clarify" if change.new else "remove_rule"
    return {
        "type": kind,
        "title": change.summary[:60],
        "motivation": "Answers differ from their references here.",
        "instruction": _instruction(change),
        "priority_hint": "high" if isinstance(support, int) and support > 1 else "low",
        "support_count": support,
    }


def _instruction(change: Change) -> str:
    if not change.old:
        return change.new
    return f"{_REMOVE}{change.old}" + (f"\n{_INSTEAD}{change.new}" if change.new else "")


def _change(instruction: str) -> Change:
    if not instruction.startswith(_REMOVE):
        return Change(new=instruction)
    old, _, new = instruction.removeprefix(_REMOVE).partition(f"\n{_INSTEAD}")
    return Change(old, new)


def _read(prompt: str) -> tuple[PatchEdit, ...]:
    return tuple(
        PatchEdit(
            op=item.text("type"),
            target="",
            content=item.text("instruction"),
            support=item.support,
            source=item.source,
            note_ids=item.note_ids,
        )
        for item in read_items(prompt, "instruction")
    )


# The simulated optimizer: answers each stage of training in the agreed JSON.

Reply = dict[str, object]


def propose(messages: Sequence[Message], dice: Dice, temperament: Temperament) -> str:
    """Return the optimizer's reply to whatever stage the system prompt names."""
    stage = stage_of(messages)
    if not stage and is_grading(messages):
        return judge(messages, dice)
    answer = _STAGES.get(stage)
    prompt = first_prompt(messages)
    reply = answer(prompt, dice, temperament) if answer else {}
    if stage.startswith("analyst_error") and _wants_notes(messages):
        reply["appendix_notes"] = lapse_notes(read_analyst_brief(prompt))
    if reply and dice.chance("malformed", temperament.malformed):
        return _malformed(reply, dice)
    return _worded(reply, dice)


def _wants_notes(messages: Sequence[Message]) -> bool:
    return any("appendix_notes" in one.content for one in messages if one.role == "system")


def _failures(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_failures(read_analyst_brief(prompt), dice, temperament)


def _successes(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_successes(read_analyst_brief(prompt), dice, temperament)


def _merge(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return merge_edits(read_merge_brief(prompt), dice, temperament)


def _rank(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return rank(*read_ranking_brief(prompt))


def _failures_as_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_failures(read_analyst_brief(prompt), dice, temperament, as_suggestions)


def _successes_as_suggestions(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return analyse_successes(read_analyst_brief(prompt), dice, temperament, as_suggestions)


def _failures_as_document(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    spell = as_document(read_skill(prompt), dice, temperament)
    return analyse_failures(read_analyst_brief(prompt), dice, temperament, spell)


def _successes_as_document(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    spell = as_document(read_skill(prompt), dice, temperament)
    return analyse_successes(read_analyst_brief(prompt), dice, temperament, spell)


def _slow_update(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    return advise(read_comparison_brief(prompt), dice, temperament)


def _meta_skill(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return remember(read_comparison_brief(prompt))


def _condense(prompt: str, dice: Dice, temperament: Temperament) -> Reply:
    del dice, temperament
    return condense(prompt)


_STAGES: Mapping[str, Callable[[str, Dice, Temperament], Reply]] = MappingProxyType(
    {
        "analyst_error": _failures,
        "analyst_success": _successes,
        "merge_failure": _merge,
        "merge_success": _merge,
        "merge_final": _merge,
        "ranking": _rank,
        "analyst_error_rewrite": _failures_as_suggestions,
        "analyst_success_rewrite": _successes_as_suggestions,
        "merge_failure_rewrite": merge_suggestions,
        "merge_success_rewrite": merge_suggestions,
        "merge_final_rewrite": merge_suggestions,
        "ranking_rewrite": _rank,
        "rewrite": rewrite,
        "analyst_error_full_rewrite": _failures_as_document,
        "analyst_success_full_rewrite": _successes_as_document,
        "merge_failure_full_rewrite": merge_documents,
        "merge_success_full_rewrite": merge_documents,
        "merge_final_full_rewrite": merge_documents,
        "lr_autonomous": choose_size,
        "appendix_consolidate": _condense,
        "slow_update": _slow_update,
        "meta_skill": _meta_skill,
    }
)


def _worded(reply: Reply, dice: Dice) -> str:
    """Write ``reply`` as chat models do: bare, in a fence, or with a sentence before it."""
    text = json.dumps(reply, ensure_ascii=False, indent=2)
    match dice.pick("wording", ("bare", "fenced", "introduced")):
        case "bare":
            return text
        case "fenced":
            return f"```json\n{text}\n```"
        case _:
            return f"I have looked at everything. My answer:\n\n```json\n{text}\n```\n"


def _malformed(reply: Reply, dice: Dice) -> str:
    text = json.dumps(reply, ensure_ascii=False)
    match dice.pick("malformation", ("truncated", "prose", "types")):
        case "truncated":
            return text[: len(text) // 3]
        case "prose":
            return "The answers look mostly fine; a few rules about formatting would help."
        case _:
            return json.dumps({"patch": "see above", "edits": 3, "selected_indices": "all"})


# What a simulated model says in one turn.


@dataclass(frozen=True, slots=True)
class Said:
    """Text, and tools that the model wants used."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


# The script for an order, under any subset of the house's conventions.

SCRIPT_HOUSE_STYLE = frozenset(convention.name for convention in SHELL_CONVENTIONS)


@dataclass(frozen=True, slots=True)
class Script:
    """A script as a file; ``path`` is relative to the workspace."""

    path: str
    content: str
    executable: bool


def script_exercised(order: Order) -> tuple[str, ...]:
    """Return the names of the conventions that show in this order's script, in house order."""
    return tuple(convention.name for convention in SHELL_CONVENTIONS if convention.applies(order))


def script_for(order: Order, followed: AbstractSet[str]) -> Script:
    """Return the script that someone writes who follows just these conventions."""
    name = order.job.replace(" ", "-" if "dashes" in followed else "_")
    folder = order.folder or ("jobs" if "place" in followed else "")
    path = f"{folder}/{name}.sh" if folder else f"{name}.sh"
    content = "".join(f"{line}\n" for line in _script_lines(order, followed, name))
    return Script(path, content, order.direct and "executable" in followed)


def _script_lines(order: Order, followed: AbstractSet[str], name: str) -> Iterator[str]:
    yield "#!/bin/sh" if "shebang" in followed else "#!/usr/bin/env bash"
    if order.careful and "strict" in followed:
        yield "set -eu"
    if order.owner:
        yield f"# Owner: {order.owner}" if "owner" in followed else "# A job of the office."
    if "locale" in followed and "distinct" in order.action:
        yield "export LC_ALL=C"
    if order.needed:
        yield f"[ -f {order.source} ] || exit {3 if 'missing' in followed else 1}"
    if order.message:
        yield f"echo '{order.message}'" + (" >&2" if "progress" in followed else "")
    if order.kept and "result" in followed:
        yield "mkdir -p out"
        yield f"{order.command} > out/{name}.txt"
    else:
        yield order.command


# How the simulated target works on an order: one tool call after the other, then it submits.

_LOOK = "I look at what is there first."
_WRITE = "Now I write the script."
_MODE = "It is called directly, so it has to be executable."
_CHECK = "A look at its syntax."
_DONE = "The script is written."


def work_on(
    order: Order, followed: AbstractSet[str], messages: Sequence[Message], tools: Sequence[Tool]
) -> Said:
    """Return the next turn of the work, told by how many turns with tool calls lie behind."""
    offered = {tool.name for tool in tools}
    turns = list(_worker_turns(script_for(order, followed), offered))
    behind = sum(bool(m.tool_calls) for m in messages if m.role == "assistant")
    text, name, arguments = turns[min(behind, len(turns) - 1)]
    if name not in offered:
        return Said(text)
    call = ToolCall(f"call_{behind}", name, json.dumps(arguments, ensure_ascii=False))
    return Said(text, (call,))


def _worker_turns(
    script: Script, offered: AbstractSet[str]
) -> Iterator[tuple[str, str, dict[str, str]]]:
    path = shlex.quote(script.path)
    if "shell" in offered:
        yield _LOOK, "shell", {"command": "ls -R"}
    if "write" in offered:
        yield _WRITE, "write", {"path": script.path, "content": script.content}
    else:
        folder, _, _ = script.path.rpartition("/")
        make = f"mkdir -p {shlex.quote(folder)} && " if folder else ""
        text = f"{make}cat > {path} <<'END'\n{script.content}END"
        yield _WRITE, "shell", {"command": text}
    if script.executable:
        yield _MODE, "shell", {"command": f"chmod +x {path}"}
    if "shell" in offered:
        yield _CHECK, "shell", {"command": f"sh -n {path}"}
    yield _DONE, "submit", {"answer": f"{_DONE[:-1]}: {script.path}"}


# The simulated target: works as its skill says, and slips now and then.

_TARGET_OPENINGS = (
    "Here is the ledger line.",
    "The line for this note:",
    "This is how I would book it.",
)


def reply(
    messages: Sequence[Message], dice: Dice, temperament: Temperament, tools: Sequence[Tool] = ()
) -> Said:
    """Return the target's next turn: a step of its work where it has tools, else its answer."""
    order = next(filter(None, (read_order(m.content) for m in messages if m.role == "user")), None)
    if tools and order is not None:
        names = script_exercised(order)
        return work_on(order, _followed(names, messages, dice, temperament), messages, tools)
    text = answer(messages, dice, temperament)
    if any(tool.name == "submit" for tool in tools):
        return Said("", (ToolCall("call_0", "submit", json.dumps({"answer": text})),))
    return Said(text)


def answer(messages: Sequence[Message], dice: Dice, temperament: Temperament) -> str:
    """Return the target's reply: a short sentence, then the answer in its tag."""
    prompt = next((m.content for m in reversed(messages) if m.role == "user"), "")
    note = read_note(prompt)
    if note is None:
        return f"I have no special knowledge of this.\n\n<answer>{_echo(prompt)}</answer>"
    line = ledger_line(note, _followed(ledger_exercised(note), messages, dice, temperament))
    return f"{dice.pick('opening', _TARGET_OPENINGS)}\n\n<answer>{line}</answer>"


def _followed(
    names: Iterable[str], messages: Sequence[Message], dice: Dice, temperament: Temperament
) -> frozenset[str]:
    system = "\n".join(m.content for m in messages if m.role == "system")
    said = stances(system)
    slip = _slip(len(system), sum(len(taken) > 1 for taken in said.values()), temperament)
    reminded = stances("\n".join(region_text(system, region) or "" for region in REGIONS))
    failing = {
        name: temperament.torn
        if len(taken) > 1
        else slip * (temperament.heedless if reminded[name] else 1)
        for name, taken in said.items()
    }
    return frozenset(
        name
        for name in names
        if "for" in said[name] and not dice.chance(f"slip {name}", failing[name])
    )


def _slip(length: int, contradictions: int, temperament: Temperament) -> float:
    excess = max(0, length - temperament.bloat_from) / 1_000
    return (
        temperament.slip
        + temperament.bloat_slip * excess
        + temperament.contradiction_slip * contradictions
    )


def _echo(prompt: str) -> str:
    words = prompt.replace("<", " ").replace(">", " ").split()
    return " ".join(words[-12:]) or "nothing was asked"


# One call of a simulated model: the same function behind the client and behind the server.

#: Characters per token, as a rule of thumb.
CHARS_PER_TOKEN = 4

Model = Callable[[Sequence[Message], Dice, Sequence[Tool]], Said]


def _target(
    messages: Sequence[Message], dice: Dice, tools: Sequence[Tool], *, temperament: Temperament
) -> Said:
    return reply(messages, dice, temperament, tools)


def _optimizer(messages: Sequence[Message], dice: Dice, tools: Sequence[Tool]) -> Said:
    del tools
    return Said(propose(messages, dice, STEADY))


MODELS: Mapping[str, Model] = {
    "simulated-target": partial(_target, temperament=STEADY),
    "simulated-target-noisy": partial(_target, temperament=NOISY),
    "simulated-optimizer": _optimizer,
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with its size in tokens; ``finish_reason`` as OpenAI's protocol has it."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tool_calls: tuple[ToolCall, ...] = ()


def find_model(name: str, where: str = "model") -> Model:
    """Return the simulated model of this name, which ``where`` (a configuration key) asks for.

    Raises ``ModelSetupError`` with the nearest name.
    """
    if name in MODELS:
        return MODELS[name]
    nearest = get_close_matches(name, MODELS, n=1, cutoff=0)
    raise ModelSetupError(
        f"{where}: there is no simulated model {name!r}.",
        hint=f"Did you mean {nearest[0]!r}? Available: {', '.join(sorted(MODELS))}.",
    )


def complete(
    model: str,
    messages: Sequence[Message],
    *,
    seed: int,
    attempt: int,
    limit: int | None,
    tools: Sequence[Tool] = (),
) -> Completion:
    """Answer ``messages`` with at most ``limit`` tokens of text; raises ``ModelSetupError``.

    What an agent makes up its mind about holds for its whole work, so the draws of a conversation
    with tools are those of its beginning.
    """
    decided_on = opening(messages) if tools else messages
    said = find_model(model)(messages, Dice(seed, content_key(decided_on, attempt)), tools)
    shown = said.text if limit is None else said.text[: limit * CHARS_PER_TOKEN]
    written = [shown, *(call.name + call.arguments for call in said.tool_calls)]
    return Completion(
        text=shown,
        finish_reason=_finish_reason(said, shown),
        prompt_tokens=sum(tokens(message.content) for message in messages),
        completion_tokens=sum(map(tokens, written)),
        tool_calls=said.tool_calls,
    )


def opening(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages before the model's first turn."""
    first = next((n for n, message in enumerate(messages) if message.role == "assistant"), None)
    return messages[:first]


def _finish_reason(said: Said, shown: str) -> str:
    if said.tool_calls:
        return "tool_calls"
    return "stop" if shown == said.text else "length"


def tokens(text: str) -> int:
    """Return about how many tokens ``text`` has."""
    return -(-len(text) // CHARS_PER_TOKEN)


# The simulated models as a chat client, in process.


class SimulatedClient:
    """Answers as the simulated model that ``role_config`` names; nothing is paid."""

    def __init__(self, role_config: ModelRole, role: Role) -> None:
        """Choose the model; raises ``ModelSetupError`` when there is none of that name."""
        find_model(role_config.model, where=f"model.{role}.model")
        self._config = role_config

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; the reply depends on its content and the configured seed alone."""
        limits = (request.max_output_tokens, self._config.max_output_tokens)
        completion = complete(
            self._config.model,
            request.messages,
            seed=self._config.seed,
            attempt=request.attempt,
            limit=min((limit for limit in limits if limit is not None), default=None),
            tools=request.tools,
        )
        return ChatReply(
            text=completion.text,
            finish_reason=completion.finish_reason,
            model=self._config.model,
            usage=Usage(
                calls=1,
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
            ),
            tool_calls=completion.tool_calls,
        )


# When the simulated server misbehaves, and what it has counted.

FAULTS = ("rate_limited", "server_error", "cut_connection", "truncated_json")

#: A client that tries five times gets its answer.
MOST_FAULTS_IN_A_ROW = 4


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server answers from, and how badly.

    ``fault_rate`` is the share of tries that fail, ``latency`` seconds pass before each reply,
    and ``retry_after`` is what a 429 asks for, in seconds.
    """

    seed: int = 0
    fault_rate: float = 0.0
    latency: float = 0.0
    retry_after: int = 0


def fault_of(content: str, attempt: int, *, seed: int, rate: float) -> str | None:
    """Return the fault that befalls this try (from 0) at this content, None if it is answered."""
    dice = Dice(seed, content)
    streak = 0
    for number in range(attempt + 1):
        unlucky = streak < MOST_FAULTS_IN_A_ROW and dice.chance(f"try {number}", rate)
        streak = streak + 1 if unlucky else 0
    return dice.pick(f"fault {attempt}", FAULTS) if streak else None


@dataclass(slots=True)
class Tally:
    """Counts requests; safe to use from several threads."""

    requests: int = 0
    tries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def next_try(self, content: str) -> int:
        """Count a request and return how many came before it for the same content."""
        with self._lock:
            self.requests += 1
            self.tries[content] += 1
            return self.tries[content] - 1

    def note_answer(self, content: str) -> None:
        """Count a reply that is sent whole."""
        with self._lock:
            self.answered[content] += 1

    def note_fault(self, kind: str) -> None:
        """Count a fault of this kind."""
        with self._lock:
            self.faults[kind] += 1

    def snapshot(self) -> dict[str, object]:
        """Return the counts as JSON-ready values."""
        with self._lock:
            return {
                "requests": self.requests,
                "answered": self.answered.total(),
                "faults": dict(self.faults),
                "answered_per_content": dict(self.answered),
            }


# The OpenAI chat-completions protocol: a request body read, a reply body written.

_ROLES: Mapping[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {
    "developer": "system"
}


@dataclass(frozen=True, slots=True)
class Call:
    """A chat-completions request, as far as the simulated models care."""

    model: str
    messages: tuple[Message, ...]
    limit: int | None
    tools: tuple[Tool, ...] = ()


class BadRequestError(ValueError):
    """A body that is not a chat-completions request; the message says why."""


def read_call(body: bytes) -> Call:
    """Read a request body; raises :class:`BadRequestError`."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise BadRequestError("`messages` must be a list")
    if request.get("stream"):
        raise BadRequestError("`stream` is not supported")
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    return Call(
        model=str(request.get("model")),
        messages=tuple(_message(entry) for entry in request["messages"]),
        limit=limit if isinstance(limit, int) and limit > 0 else None,
        tools=tuple(map(_tool, _objects(request.get("tools"), "tools"))),
    )


def _message(entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in _ROLES:
        raise BadRequestError(f"each message needs a role: one of {', '.join(_ROLES)}")
    content = entry.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return Message(
        _ROLES[entry["role"]],
        str(content or ""),
        tool_calls=tuple(map(_tool_call, _objects(entry.get("tool_calls"), "tool_calls"))),
        tool_call_id=str(entry.get("tool_call_id") or ""),
    )


def _objects(value: object, key: str) -> list[dict[str, object]]:
    listed = [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise BadRequestError(f"`{key}` must be a list of objects")
    return listed


def _function(entry: Mapping[str, object]) -> Mapping[str, object]:
    function = entry.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequestError("a tool and a tool call need a `function` with a `name`")
    return function


def _tool(entry: Mapping[str, object]) -> Tool:
    function = _function(entry)
    parameters = function.get("parameters")
    return Tool(
        str(function["name"]),
        str(function.get("description") or ""),
        parameters if isinstance(parameters, dict) else {},
    )


def _tool_call(entry: Mapping[str, object]) -> ToolCall:
    function = _function(entry)
    arguments = str(function.get("arguments") or "")
    return ToolCall(str(entry.get("id") or ""), str(function["name"]), arguments)


def completion_body(call: Call, completion: Completion, content: str) -> bytes:
    """Return the reply body; ``content`` is the request's key, from which the id is made."""
    prompt, reply = completion.prompt_tokens, completion.completion_tokens
    message = as_sent(Message("assistant", completion.text, tool_calls=completion.tool_calls))
    choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason}
    return encoded(
        {
            "id": f"chatcmpl-{content[:24]}",
            "object": "chat.completion",
            "created": 0,
            "model": call.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": reply,
                "total_tokens": prompt + reply,
            },
        }
    )


def models_body() -> bytes:
    """Return the list of models."""
    listed = [{"id": name, "object": "model", "owned_by": "simulated"} for name in MODELS]
    return encoded({"object": "list", "data": listed})


ErrorType = Literal["invalid_request_error", "rate_limit_error", "server_error"]


def error_body(kind: ErrorType, message: str, code: str | None = None) -> bytes:
    """Return an error in the protocol's form."""
    return encoded({"error": {"message": message, "type": kind, "param": None, "code": code}})


def encoded(value: object) -> bytes:
    """Return ``value`` as UTF-8 JSON."""
    return json.dumps(value, ensure_ascii=False).encode()


# The HTTP server and its request handler: OpenAI's chat completions, and ``/stats``.


class SimulatedServer(socketserver.ThreadingTCPServer):
    """Serves until it is shut down; ``tally`` counts."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], behaviour: Behaviour) -> None:
        """Bind to ``address``; port 0 takes a free one."""
        self.behaviour = behaviour
        self.tally = Tally()
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report what went wrong in a handler, unless the client merely went away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def base_url(self) -> str:
        """The URL that clients are configured with."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{host}:{port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: SimulatedServer

    def do_GET(self) -> None:
        match self.path:
            case "/v1/models":
                self._send(HTTPStatus.OK, models_body())
            case "/stats":
                self._send(HTTPStatus.OK, encoded(self.server.tally.snapshot()))
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")
            return
        try:
            call = read_call(body)
            find_model(call.model)
        except BadRequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except ModelSetupError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error), code="model_not_found")
        else:
            self._complete(call)

    def _complete(self, call: Call) -> None:
        behaviour, tally = self.server.behaviour, self.server.tally
        content = content_key(call.messages)
        attempt = tally.next_try(content)
        fault = fault_of(content, attempt, seed=behaviour.seed, rate=behaviour.fault_rate)
        time.sleep(behaviour.latency)
        completion = complete(
            call.model,
            call.messages,
            seed=behaviour.seed,
            attempt=0,
            limit=call.limit,
            tools=call.tools,
        )
        body = completion_body(call, completion, content)
        if self._client_is_gone():
            self.close_connection = True
        elif fault is not None:
            tally.note_fault(fault)
            self._fail(fault, body)
        else:
            tally.note_answer(content)
            self._send(HTTPStatus.OK, body)

    def _client_is_gone(self) -> bool:
        """Whether the other side closed the connection: what it never reads is no answer."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _fail(self, fault: str, body: bytes) -> None:
        match fault:
            case "rate_limited":
                waiting = {"Retry-After": str(self.server.behaviour.retry_after)}
                limited = error_body("rate_limit_error", "too many requests, slow down")
                self._send(HTTPStatus.TOO_MANY_REQUESTS, limited, waiting)
            case "server_error":
                failed = error_body("server_error", "the server had an error")
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, failed)
            case "truncated_json":
                self._send(HTTPStatus.OK, body[: len(body) // 2])
            case _:
                self._send(
                    HTTPStatus.OK, body[: len(body) // 2], {"Content-Length": str(len(body))}
                )
                self.close_connection = True

    def _refuse(self, status: HTTPStatus, message: str, code: str | None = None) -> None:
        self._send(status, error_body("invalid_request_error", message, code))

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        defaults = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in {**defaults, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep standard error quiet: the tally is the log."""


# The simulated models behind an OpenAI-compatible HTTP server, with faults on demand.

#: How soon a server in a thread notices that it is to stop.
_POLL_SECONDS = 0.02


@contextmanager
def running(
    behaviour: Behaviour, host: str = "127.0.0.1", port: int = 0
) -> Iterator[SimulatedServer]:
    """Run a server in a thread of this process; it is shut down at the end of the block."""
    with SimulatedServer((host, port), behaviour) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def serve(host: str, port: int, behaviour: Behaviour) -> None:
    """Print the base URL, then serve until interrupted."""
    with suppress(KeyboardInterrupt), SimulatedServer((host, port), behaviour) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Serve simulated models over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0, help="share of failing tries")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--retry-after", type=int, default=0, help="seconds that a 429 asks for")
    given = parser.parse_args(arguments)
    behaviour = Behaviour(given.seed, given.fault_rate, given.latency, given.retry_after)
    serve(given.host, given.port, behaviour)


# Tasks of the ledger world: distinct notes, each with the line the house would write.

_VENDORS = (
    ("Blue", "Green", "Harbour", "Nordwind", "Maple", "Silver", "Oak", "Summit", "Linden", "Delta"),
    ("Heron", "Valley", "Stone", "Bridge", "River", "Field", "Tower", "Lane", "Crest", "Point"),
    ("Press", "Travel", "Supplies", "Systems", "Catering", "Logistics", "& Sons", "Works"),
)
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK")
_TAX_RATES = ("5", "7", "9", "19", "21")

#: How many conventions besides the separator a note exercises: cumulative probability → number.
_WORLD_DIFFICULTY = ((0.07, 0), (0.25, 1), (0.50, 2), (0.74, 3), (0.90, 4), (1.00, 5))


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
        tasks.setdefault(text, _world_task(f"ledger-{len(tasks) + 1:03}", note, text))
    return tuple(tasks.values())


def _world_task(task_id: str, note: Note, text: str) -> LedgerTask:
    return LedgerTask(
        id=task_id,
        task_type="refund" if note.refund else "payment",
        prompt=f"Write the ledger line for this note.\n\nNote: {text}",
        reference=ledger_line(note, LEDGER_HOUSE_STYLE),
    )


def _draw_note(dice: Dice) -> Note:
    shown = _world_draw_conventions(dice)
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


def _world_draw_conventions(dice: Dice) -> frozenset[str]:
    roll = dice.roll("difficulty")
    size = next(number for limit, number in _WORLD_DIFFICULTY if roll < limit)
    ranked = sorted(LEDGER_HOUSE_STYLE - {"separator"}, key=dice.roll)
    return frozenset(ranked[:size])


def _draw_date(dice: Dice, *, in_words: bool) -> str:
    day = date(2025, 1, 1) + timedelta(days=int(dice.roll("day") * 640))
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}" if in_words else day.isoformat()


def _draw_amount(dice: Dice, *, grouped: bool, bare: bool) -> str:
    whole = 1_000 + int(dice.roll("whole") * 8_000) if grouped else 12 + int(dice.roll("w") * 900)
    digits = f"{whole:,}" if grouped else str(whole)
    return digits if bare else f"{digits}.{int(dice.roll('cents') * 100):02}"


# Tasks of the shell world: distinct orders, each with its files and what is checked.

_JOBS = (
    ("tidy", "sync", "merge", "check", "gather", "review", "archive", "inspect"),
    ("logs", "invoices", "orders", "visits", "stock", "letters", "parcels", "tickets"),
)
_OWNERS = (("Mara", "Jonas", "Ines", "Pavel", "Lotte"), ("Lindt", "Berg", "Duarte", "Novak"))
_MESSAGES = ("starting now", "work begins", "on it", "one moment")
_ASSIGNMENT = "Write the shell script for this order. It is run in the workspace's top folder."
_FOLDERS = ("tools", "scripts", "bin")
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")

#: How many conventions besides the first line an order exercises: cumulative probability → number.
_WORLD_DIFFICULTY_ = ((0.10, 0), (0.35, 1), (0.65, 2), (0.88, 3), (1.00, 4))


@dataclass(frozen=True, slots=True)
class ShellTask:
    """One order; ``source`` and ``content`` are its input file, ``checks`` what is looked at."""

    id: str
    task_type: str
    prompt: str
    source: str
    content: str
    checks: tuple[str, ...]


def generate_orders(seed: int, n: int) -> tuple[ShellTask, ...]:
    """Return ``n`` tasks with distinct orders; a larger ``n`` keeps the earlier tasks."""
    tasks: dict[str, ShellTask] = {}
    drawn = 0
    while len(tasks) < n:
        dice = Dice(seed, f"order {drawn}")
        drawn += 1
        order = _draw_order(dice)
        text = write_order(order, dice)
        tasks.setdefault(text, _world_task_(f"job-{len(tasks) + 1:03}", order, text, dice))
    return tuple(tasks.values())


def checks(order: Order) -> tuple[str, ...]:
    """Return the arguments of the tasks' checker for ``order``: what is known, then conventions."""
    facts = {
        "job": order.job,
        "folder": order.folder,
        "command": order.command,
        "source": order.source,
        "owner": order.owner,
        "message": order.message,
    }
    return (*(f"{key}={value}" for key, value in facts.items() if value), *script_exercised(order))


def _world_task_(task_id: str, order: Order, text: str, dice: Dice) -> ShellTask:
    kind = order.action.split()[0].removesuffix("s")
    lines = [dice.pick(f"line {n}", _WORDS) for n in range(3 + int(dice.roll("length") * 6))]
    return ShellTask(
        id=task_id,
        task_type=kind,
        prompt=f"{_ASSIGNMENT}\n\nOrder: {text}",
        source=order.source,
        content="".join(f"{line}\n" for line in lines),
        checks=checks(order),
    )


def _draw_order(dice: Dice) -> Order:
    shown = _world_draw_conventions_(dice)
    words = [dice.pick(f"job {number}", part) for number, part in enumerate(_JOBS)]
    actions = [name for name in ACTIONS if ("distinct" in name) == ("locale" in shown)]
    owner = " ".join(dice.pick(f"owner {n}", part) for n, part in enumerate(_OWNERS))
    return Order(
        job=" ".join(words) if "dashes" in shown else words[1],
        action=dice.pick("action", actions),
        source=f"data/{words[1]}.txt",
        folder="" if "place" in shown else dice.pick("folder", _FOLDERS),
        owner=owner if "owner" in shown else "",
        message=dice.pick("message", _MESSAGES) if "progress" in shown else "",
        careful="strict" in shown,
        kept="result" in shown,
        needed="missing" in shown,
        direct="executable" in shown,
    )


def _world_draw_conventions_(dice: Dice) -> frozenset[str]:
    roll = dice.roll("difficulty")
    size = next(number for limit, number in _WORLD_DIFFICULTY_ if roll < limit)
    return frozenset(sorted(SCRIPT_HOUSE_STYLE - {"shebang"}, key=dice.roll)[:size])


if __name__ == "__main__":
    main()
