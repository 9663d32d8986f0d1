"""An order for a job script: its facts as it words them, written and read."""

import re
from dataclasses import dataclass
from types import MappingProxyType

from skillopt_ci.model.simulated.dice import Dice

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


_OPENINGS = (
    "The job `{job}` {action} `{source}`.",
    "We need a job `{job}` that {action} `{source}`.",
)
_DETAILS = MappingProxyType(
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
    first = dice.pick("opening", _OPENINGS).format(
        job=order.job, action=order.action, source=order.source
    )
    named = sorted((name for name in _DETAILS if getattr(order, name)), key=dice.roll)
    details = [dice.pick(f"wording {n}", _DETAILS[n]).format(getattr(order, n)) for n in named]
    return " ".join([first, *details])


_JOB = re.compile(
    rf"\bjob `([a-z]+(?: [a-z]+)*)` (?:that )?({'|'.join(ACTIONS)}) `([\w./-]+)`", re.IGNORECASE
)
_FOUND = MappingProxyType(
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
    facts = {name: _first(pattern, text) for name, pattern in _FOUND.items()}
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


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
