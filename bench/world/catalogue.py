"""The sentences of the world: topics, and three rival practices for each."""

from collections.abc import Mapping
from types import MappingProxyType

#: What cases are about. Which of them matter, and to whom, a world's seed decides.
TOPICS = (
    "currency rounding",
    "duplicate lines",
    "regional holidays",
    "missing signatures",
    "partial deliveries",
    "archived orders",
    "negative balances",
    "handwritten amounts",
    "forwarded requests",
    "merged accounts",
    "expired discounts",
    "shared addresses",
    "split payments",
    "revised quotes",
    "foreign units",
    "open disputes",
    "blank columns",
    "late corrections",
    "nested tables",
    "unusual dates",
    "customer nicknames",
    "colour markings",
    "attached letters",
    "phone remarks",
    "printed stamps",
    "page numbers",
)

_PRACTICES = (
    "Settle {topic} first, before any total is formed.",
    "Treat {topic} as final and copy the value from the header.",
    "Leave {topic} to the closing check and mark them with a star.",
)

#: Names of the kinds of cases.
TASK_TYPES = ("invoice", "shipment", "claim", "roster", "ledger", "survey")


def _sentences() -> Mapping[str, tuple[str, ...]]:
    return {topic: tuple(one.format(topic=topic) for one in _PRACTICES) for topic in TOPICS}


#: The rival sentences of each topic.
SENTENCES: Mapping[str, tuple[str, ...]] = MappingProxyType(_sentences())

#: The skill that every system starts from.
INITIAL_SKILL = """\
# Working on case files

Read the case, work out its code, and give the code in the form that the case asks for.

## Rules

- Read the whole case before you answer.
"""


def normal(text: str) -> str:
    """``text`` as rules are looked up in it: case folded, white space collapsed."""
    return " ".join(text.casefold().split())
