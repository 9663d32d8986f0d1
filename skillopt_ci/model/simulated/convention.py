"""A convention of a house, and how a sentence about it is understood."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

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
