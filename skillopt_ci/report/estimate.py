"""An estimate as tables and as JSON."""

from collections.abc import Iterator

from skillopt_ci.estimate.estimate import Estimate, Part
from skillopt_ci.estimate.spread import Spread
from skillopt_ci.report.figures import cost_text

ESTIMATE_HEADINGS = ("role", "stage", "calls", "tokens a call", "tokens", "cost")


def part_rows(part: Part) -> Iterator[tuple[str, ...]]:
    """A row for each stage and two for all of them; counts as `likely (least–most)`."""
    for one in part.stages:
        usage, count = one.size.usage, one.calls
        size = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}"
        cost = None if one.cost_usd is None else one.cost_usd * count.likely
        about = "" if one.size.measured else "about "
        yield (
            *one.account,
            spread_text(count),
            f"{about}{size}",
            f"{one.tokens().likely:,}",
            cost_text(cost),
        )
    dollars = part.cost_usd() or (None, None, None)
    calls, tokens = part.calls(), part.tokens()
    yield "likely", "", f"{calls.likely:,}", "", f"{tokens.likely:,}", cost_text(dollars[1])
    yield "at most", "", f"{calls.high:,}", "", f"{tokens.high:,}", cost_text(dollars[2])


def spread_text(count: Spread) -> str:
    """``40``, or ``40 (0–80)``."""
    if count.low == count.high:
        return f"{count.likely:,}"
    return f"{count.likely:,} ({count.low:,}–{count.high:,})"


def estimate_json(found: Estimate) -> dict[str, object]:
    """The estimate as one object; keys are never removed or renamed within a major version."""
    return {
        "step": _part_json(found.step),
        "epoch": _part_json(found.epoch),
        "rest": _part_json(found.rest),
        "prices": {
            role: {"source": tariff.source, "text": tariff.text}
            for role, tariff in found.tariffs.items()
        },
        "assumptions": list(found.assumptions),
    }


def _part_json(part: Part) -> dict[str, object]:
    dollars = part.cost_usd()
    return {
        "name": part.name,
        "calls": _spread_json(part.calls()),
        "tokens": _spread_json(part.tokens()),
        "cost_usd": None
        if dollars is None
        else dict(zip(("least", "likely", "most"), dollars, strict=True)),
        "stages": [
            {
                "role": one.account.role,
                "stage": one.account.stage,
                "calls": _spread_json(one.calls),
                "prompt_tokens_per_call": one.size.usage.prompt_tokens,
                "completion_tokens_per_call": one.size.usage.completion_tokens,
                "measured": one.size.measured,
                "cost_usd_per_call": one.cost_usd,
            }
            for one in part.stages
        ],
    }


def _spread_json(count: Spread) -> dict[str, int]:
    return {"least": count.low, "likely": count.likely, "most": count.high}
