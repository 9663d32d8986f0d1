"""The house style of a made-up bookkeeping office: its conventions, in the order of a line.

The wordings are what a competent editor (``rules``) and a careless one (``harmful``) would write
into a skill; the patterns recognise a rule whoever words it.
"""

import re

from skillopt_ci.model.simulated.convention import Convention
from skillopt_ci.model.simulated.note import Note

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

BY_NAME = {convention.name: convention for convention in LEDGER_CONVENTIONS}
