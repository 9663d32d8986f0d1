"""Numbers and names as people read them."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import accumulate, islice

from skillopt_ci.stats import Interval, t_quantile, wilson

_MOST_NAMES, _MOST_CHARACTERS = 30, 600


def score_text(score: float, n: int) -> str:
    """A mean score with its 95 % interval: ``0.625 [0.47, 0.76] n=40``."""
    return f"{with_interval(score, wilson(score, n))} n={n}"


def with_interval(mean: float, interval: Interval) -> str:
    digits = interval.digits
    return f"{rounded(mean)} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def score(value: float | None, *, estimated: bool = False) -> str:
    """A bare score, or a dash if nothing was measured; ``~`` marks an ``estimated`` score."""
    return "–" if value is None else f"{'~' if estimated else ''}{rounded(value)}"


def rounded(value: float, digits: int = 3) -> str:
    """``value`` with ``digits`` decimals. Halves round up, as by hand: 0.975 is 0.98, not 0.97."""
    exact = repr(round(value, 12) + 0)  # without the noise of floats (0.4125 - 0.4) and -0.0
    told = Decimal(exact).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    looks_exact = told in (0, 1) and round(value, 6) != told  # 2,999 of 3,000 is 0.9997, not 1.000
    return rounded(value, digits + 1) if looks_exact else f"{told:f}"


def difference_text(mean: float, error: float | None, n: int) -> str:
    """A mean difference and half the width of its 95 % interval: ``+0.250 ± 0.286 (95 %)``.

    ``±`` always means that. ``error`` is the standard error, ``n`` counts the values or clusters.
    """
    half = _half_width(error, n)
    return signed(mean) if half is None else f"{signed(mean)} ± {rounded(half)} (95 %)"


def within_noise(mean: float, error: float | None, n: int) -> bool:
    """Whether the 95 % interval of a mean difference includes 0; False if it is unknown."""
    half = _half_width(error, n)
    return half is not None and abs(mean) <= half


def _half_width(error: float | None, n: int) -> float | None:
    # one value has no spread
    return None if error is None or n <= 1 else t_quantile(0.95, n - 1) * error


def signed(value: float) -> str:
    return f"{'-' if round(value, 6) < 0 else '+'}{rounded(abs(value))}"  # no -0.000


def percent(share: float, digits: int = 0) -> str:
    """A share in percent, but never "0%" for a rare event or "100%" for a common one."""
    if 0 < share <= 0.005 / 10**digits:  # rounds to nothing
        return f"under {1 / 10**digits:g}%"
    digits = 0 if share in (0, 1) else digits
    return "over 99%" if 0.995 <= share < 1 else f"{share:.{digits}%}"  # noqa: PLR2004 - all


def cost_text(cost_usd: float | None) -> str:
    if cost_usd is None:
        return "unknown (no price known)"
    if 0 < cost_usd < 0.00005:  # noqa: PLR2004 - rounds to nothing
        return "under $0.0001"
    return f"${cost_usd:.4f}" if 0 < cost_usd < 1 else f"${cost_usd:,.2f}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def collapsed(text: str) -> str:
    return " ".join(text.split())


def names_text(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The first few names and the number of others: ``a, b and 198 more``."""
    lengths = accumulate(len(name) for name in names)
    fit = sum(length <= _MOST_CHARACTERS for length in islice(lengths, most))
    shown = names[: max(fit, 1)]
    more = len(names) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")
