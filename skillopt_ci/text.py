"""Numbers and names as people read them."""

from collections.abc import Sequence
from itertools import accumulate, islice

from skillopt_ci.stats import wilson

_MOST_NAMES, _MOST_CHARACTERS = 30, 600


def score_text(score: float, n: int) -> str:
    """A mean score with its 95 % interval: ``0.625 [0.47, 0.76] n=40``."""
    interval = wilson(score, n)
    return f"{score:.3f} [{interval.low:.2f}, {interval.high:.2f}] n={n}"


def score(value: float | None, *, estimated: bool = False) -> str:
    """A bare score, or a dash where nothing was measured; ``~`` marks one that is ``estimated``."""
    if value is None:
        return "–"
    return f"~{value:.3f}" if estimated else f"{value:.3f}"


def cost_text(cost_usd: float | None) -> str:
    """Dollars, or the honest word."""
    if cost_usd is None:
        return "unknown (no price known)"
    return f"${cost_usd:.4f}" if 0 < cost_usd < 1 else f"${cost_usd:,.2f}"


def plural(count: int, noun: str) -> str:
    """``1 edit``, ``2 edits``, ``1,200 edits``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def one_line(text: str) -> str:
    """``text`` with single spaces for all white space."""
    return " ".join(text.split())


def names_text(names: Sequence[str]) -> str:
    """As many names as a person reads, and how many more there are: ``a, b and 198 more``."""
    lengths = accumulate(len(name) for name in names)
    fit = sum(length <= _MOST_CHARACTERS for length in islice(lengths, _MOST_NAMES))
    shown = names[: max(fit, 1)]
    more = len(names) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")
