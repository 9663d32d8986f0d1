"""Semantic density: the share of a document's words that tell its reader how to behave."""

import re
from collections.abc import Collection

from skillopt_ci.skill.regions import REGIONS, without_region

#: The words that SkillOpt counts.
LEADING_WORDS = (
    "MUST",
    "ALWAYS",
    "NEVER",
    "ONLY",
    "CRITICAL",
    "IMPORTANT",
    "RESOLVE",
    "PREFER",
    "ENSURE",
    "STRICT",
    "VERIFY",
)

_WORD = re.compile(r"[a-z0-9]+")


def semantic_density(text: str, leading_words: Collection[str] = ()) -> float:
    """Return the share of ``leading_words`` (by default SkillOpt's), from 0 to 1.

    Regions between markers do not count, nor does letter case. A text without words has 0.
    """
    for region in REGIONS:
        text = without_region(text, region)
    words = _WORD.findall(text.lower())
    leading = {word.lower() for word in leading_words or LEADING_WORDS}
    return sum(word in leading for word in words) / len(words) if words else 0.0
