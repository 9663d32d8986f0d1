"""Tasks of the made-up offices, made from a seed: distinct notes and orders.

``python -m tests.support.office_tasks`` writes the task files of the bundled example and of
``examples/shell``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from skillopt_ci.demo.world import CONVENTIONS, MONTHS, QUARTERS, Dice, Note, ledger_line
from tests.support import shell_office
from tests.support.shell_office import ACTIONS, Order

ROOT = Path(__file__).parents[2]
SEED = 2026
LEDGER_SIZES = {"train": 48, "selection": 40, "test": 60}
SHELL_SIZES = {"train": 24, "selection": 16, "test": 24}

ALL_LEDGER = frozenset(CONVENTIONS)
ALL_SHELL = frozenset(shell_office.CONVENTIONS)

#: How many conventions besides the first a task exercises: cumulative probability → number.
LEDGER_DIFFICULTY = ((0.07, 0), (0.25, 1), (0.50, 2), (0.74, 3), (0.90, 4), (1.00, 5))
SHELL_DIFFICULTY = ((0.10, 0), (0.35, 1), (0.65, 2), (0.88, 3), (1.00, 4))

CATEGORIES = ("travel", "stationery", "meals", "software", "postage", "cleaning", "repairs")
VENDORS = (
    ("Blue", "Green", "Harbour", "Nordwind", "Maple", "Silver", "Oak", "Summit", "Linden", "Delta"),
    ("Heron", "Valley", "Stone", "Bridge", "River", "Field", "Tower", "Lane", "Crest", "Point"),
    ("Press", "Travel", "Supplies", "Systems", "Catering", "Logistics", "& Sons", "Works"),
)
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "SEK")
TAX_RATES = ("5", "7", "9", "19", "21")
PAYMENTS = (
    "Paid {money} to {vendor} on {date}.",
    "On {date} we paid {money} to {vendor}.",
    "Invoice from {vendor} dated {date}: {money}, paid.",
    "A transfer of {money} went to {vendor} on {date}.",
)
REFUNDS = (
    "Refund of {money} from {vendor} on {date}.",
    "On {date} we got {money} back from {vendor} as a refund.",
    "A refund from {vendor} arrived on {date}: {money}.",
)
NOTE_DETAILS = {
    "category": ("Category: {}.", "It counts as {}.", "Booked under {}."),
    "reference": ("Reference {}.", "Our reference is {}.", "Ref. no. {}."),
    "tax": ("Includes {}% VAT.", "That is with {}% VAT.", "VAT at {}% included."),
    "department": ("For department {}.", "Charge department {}.", "Ordered by department {}."),
    "quarter": ("Belongs to the {} quarter.", "Counts for the {} quarter."),
}

JOBS = (
    ("tidy", "sync", "merge", "check", "gather", "review", "archive", "inspect"),
    ("logs", "invoices", "orders", "visits", "stock", "letters", "parcels", "tickets"),
)
OWNERS = (("Mara", "Jonas", "Ines", "Pavel", "Lotte"), ("Lindt", "Berg", "Duarte", "Novak"))
MESSAGES = ("starting now", "work begins", "on it", "one moment")
FOLDERS = ("tools", "scripts", "bin")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
ORDER_OPENINGS = (
    "The job `{job}` {action} `{source}`.",
    "We need a job `{job}` that {action} `{source}`.",
)
ORDER_DETAILS = {
    "folder": ("Its place is the folder `{}`.", "Put it into the folder `{}`."),
    "owner": ("It belongs to {}.", "It was ordered by {}."),
    "message": ("It announces `{}` when it starts.", "While it works it says `{}`."),
    "careful": ("It must end at the first error.",),
    "kept": ("Its result is kept.", "We keep its result."),
    "needed": ("Without its input it must fail.", "It has to fail if the input is missing."),
    "direct": ("The scheduler calls it directly.", "It is called directly."),
}


@dataclass(frozen=True, slots=True)
class LedgerTask:
    """One note with the one line that the office accepts for it."""

    id: str
    task_type: str
    prompt: str
    reference: str


@dataclass(frozen=True, slots=True)
class ShellTask:
    """One order; ``source`` and ``content`` are its input file, ``checks`` what is looked at."""

    id: str
    task_type: str
    prompt: str
    source: str
    content: str
    checks: tuple[str, ...]


def ledger_tasks(seed: int, n: int) -> tuple[LedgerTask, ...]:
    """Return ``n`` tasks with distinct notes; a larger ``n`` keeps the earlier tasks."""
    tasks: dict[str, LedgerTask] = {}
    drawn = 0
    while len(tasks) < n:
        dice = Dice(seed, f"note {drawn}")
        drawn += 1
        note = draw_note(dice)
        text = write_note(note, dice)
        task = LedgerTask(
            id=f"ledger-{len(tasks) + 1:03}",
            task_type="refund" if note.refund else "payment",
            prompt=f"Write the ledger line for this note.\n\nNote: {text}",
            reference=ledger_line(note, ALL_LEDGER),
        )
        tasks.setdefault(text, task)
    return tuple(tasks.values())


def shell_tasks(seed: int, n: int) -> tuple[ShellTask, ...]:
    """Return ``n`` tasks with distinct orders; a larger ``n`` keeps the earlier tasks."""
    tasks: dict[str, ShellTask] = {}
    drawn = 0
    while len(tasks) < n:
        dice = Dice(seed, f"order {drawn}")
        drawn += 1
        order = draw_order(dice)
        text = write_order(order, dice)
        lines = [dice.pick(f"line {n}", WORDS) for n in range(3 + int(dice.roll("length") * 6))]
        known = ("job", "folder", "command", "source", "owner", "message")
        facts = ((name, getattr(order, name)) for name in known)
        task = ShellTask(
            id=f"job-{len(tasks) + 1:03}",
            task_type=order.action.split()[0].removesuffix("s"),
            prompt="Write the shell script for this order. It is run in the workspace's top "
            f"folder.\n\nOrder: {text}",
            source=order.source,
            content="".join(f"{line}\n" for line in lines),
            checks=(*(f"{name}={value}" for name, value in facts if value), *order.exercised()),
        )
        tasks.setdefault(text, task)
    return tuple(tasks.values())


def write_note(note: Note, dice: Dice) -> str:
    """Return the note as prose; ``dice`` choose the wording and the order of details."""
    pair = (note.currency, note.amount) if note.currency_first else (note.amount, note.currency)
    opening = dice.pick("opening", REFUNDS if note.refund else PAYMENTS)
    first = opening.format(money=" ".join(pair), vendor=note.vendor, date=note.date)
    return " ".join([first, *_details(note, NOTE_DETAILS, dice)])


def write_order(order: Order, dice: Dice) -> str:
    """Return the order as prose; ``dice`` choose the wording and the order of details."""
    opening = dice.pick("opening", ORDER_OPENINGS)
    first = opening.format(job=order.job, action=order.action, source=order.source)
    return " ".join([first, *_details(order, ORDER_DETAILS, dice)])


def _details(case: Note | Order, wordings: Mapping[str, Sequence[str]], dice: Dice) -> list[str]:
    named = sorted((name for name in wordings if getattr(case, name)), key=dice.roll)
    return [dice.pick(f"wording {n}", wordings[n]).format(getattr(case, n)) for n in named]


def draw_note(dice: Dice) -> Note:
    shown = _drawn(dice, ALL_LEDGER - {"separator"}, LEDGER_DIFFICULTY)
    vendor = " ".join(dice.pick(f"vendor {i}", part) for i, part in enumerate(VENDORS))
    day = date(2025, 1, 1) + timedelta(days=int(dice.roll("day") * 640))
    grouped = "grouping" in shown
    whole = 1_000 + int(dice.roll("whole") * 8_000) if grouped else 12 + int(dice.roll("w") * 900)
    digits = f"{whole:,}" if grouped else str(whole)
    return Note(
        date=f"{day.day} {MONTHS[day.month - 1]} {day.year}" if "date" in shown else f"{day}",
        vendor=vendor if "vendor" in shown else vendor.upper(),
        amount=digits if "decimals" in shown else f"{digits}.{int(dice.roll('cents') * 100):02}",
        currency=dice.pick("currency code", CURRENCIES),
        currency_first="currency" not in shown,
        refund="refund" in shown,
        category=dice.pick("category word", CATEGORIES) if "category" in shown else "",
        reference=str(1 + int(dice.roll("number") * 9_999)) if "reference" in shown else "",
        tax=dice.pick("rate", TAX_RATES) if "tax" in shown else "",
        department=str(10 + int(dice.roll("room") * 80)) if "department" in shown else "",
        quarter=dice.pick("season", QUARTERS) if "quarter" in shown else "",
    )


def draw_order(dice: Dice) -> Order:
    shown = _drawn(dice, ALL_SHELL - {"shebang"}, SHELL_DIFFICULTY)
    words = [dice.pick(f"job {number}", part) for number, part in enumerate(JOBS)]
    actions = [name for name in ACTIONS if ("distinct" in name) == ("locale" in shown)]
    owner = " ".join(dice.pick(f"owner {n}", part) for n, part in enumerate(OWNERS))
    return Order(
        job=" ".join(words) if "dashes" in shown else words[1],
        action=dice.pick("action", actions),
        source=f"data/{words[1]}.txt",
        folder="" if "place" in shown else dice.pick("folder", FOLDERS),
        owner=owner if "owner" in shown else "",
        message=dice.pick("message", MESSAGES) if "progress" in shown else "",
        careful="strict" in shown,
        kept="result" in shown,
        needed="missing" in shown,
        direct="executable" in shown,
    )


def _drawn(
    dice: Dice, names: frozenset[str], difficulty: Sequence[tuple[float, int]]
) -> frozenset[str]:
    roll = dice.roll("difficulty")
    size = next(number for limit, number in difficulty if roll < limit)
    return frozenset(sorted(names, key=dice.roll)[:size])


def ledger_record(task: LedgerTask) -> dict[str, object]:
    return {
        "id": task.id,
        "task_type": task.task_type,
        "prompt": task.prompt,
        "references": task.reference,
    }


def shell_record(task: ShellTask) -> dict[str, object]:
    scorer = {
        "type": "computer",
        "command": ["sh", "check.sh", *task.checks],
        "folder": "grading",
        "score": "last_line",
    }
    return {
        "id": task.id,
        "task_type": task.task_type,
        "prompt": task.prompt,
        "computer": {"files": {task.source: task.content}},
        "scorer": scorer,
    }


def task_lines(records: Sequence[dict[str, object]]) -> str:
    """Return ``records`` as the lines of a task file."""
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)


def task_files() -> dict[Path, str]:
    """Return the text of each task file of both examples by its path."""
    files: dict[Path, str] = {}
    examples: tuple[tuple[str, Callable[[int], list[dict[str, object]]], dict[str, int]], ...] = (
        (
            "skillopt_ci/demo/files",
            lambda n: [*map(ledger_record, ledger_tasks(SEED, n))],
            LEDGER_SIZES,
        ),
        ("examples/shell", lambda n: [*map(shell_record, shell_tasks(SEED, n))], SHELL_SIZES),
    )
    for folder, records, sizes in examples:
        left = records(sum(sizes.values()))
        for split, size in sizes.items():
            files[ROOT / folder / "tasks" / f"{split}.jsonl"] = task_lines(left[:size])
            left = left[size:]
    return files


if __name__ == "__main__":
    for file, text in task_files().items():
        file.write_text(text, encoding="utf-8")
