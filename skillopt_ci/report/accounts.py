"""Usage by role and stage, as rows of a table."""

from collections.abc import Iterable, Iterator

from skillopt_ci.ledger.records import AccountRecord, UsageRecord, accounts_of
from skillopt_ci.model.types import Usage, by_role, by_stage, total
from skillopt_ci.report.figures import cost_text, plural, usage_text


def account_rows(
    accounts: Iterable[AccountRecord], whole: UsageRecord
) -> Iterator[tuple[str, str]]:
    """A row for each role, and below it one for each of its stages.

    What of ``whole`` no account has is from before accounts were kept, and is told as such.
    """
    known = accounts_of(accounts)
    for role, usage in by_role(known).items():
        stages = {one.stage: used for one, used in known.items() if one.role == role}
        yield f"  {role}", detailed(usage)
        if list(stages) != [role]:
            yield from ((f"    {stage}", detailed(used)) for stage, used in sorted(stages.items()))
    missing = whole.usage().calls - total(known.values()).calls
    if known and missing > 0:
        yield "  earlier", f"{plural(missing, 'call')} before roles were told apart"


def stage_rows(
    accounts: Iterable[AccountRecord], whole: UsageRecord, stages: dict[str, UsageRecord]
) -> Iterator[tuple[str, str]]:
    """:func:`account_rows`, or what an earlier version recorded: the ``stages`` alone."""
    rows = tuple(account_rows(accounts, whole))
    yield from rows or ((f"  {stage}", detailed(used.usage())) for stage, used in stages.items())


def stage_gist(accounts: Iterable[AccountRecord]) -> str:
    """What each stage used, in a line; empty without accounts. A cost that is none is left out."""
    stages = by_stage(accounts_of(accounts)).items()
    return " · ".join(f"{stage} {_gist(used)}" for stage, used in stages)


def _gist(usage: Usage) -> str:
    cost = f", {cost_text(usage.cost_usd)}" if usage.cost_usd else ""
    return f"{plural(usage.calls, 'call')}, {plural(usage.tokens, 'token')}{cost}"


def account_json(accounts: Iterable[AccountRecord]) -> list[dict[str, object]]:
    """The accounts as flat objects."""
    return [{"role": one.role, "stage": one.stage, **one.usage.model_dump()} for one in accounts]


def detailed(usage: Usage) -> str:
    """Calls, tokens, what of them was cached or thought, and cost."""
    parts = {
        "cached": usage.cached_tokens,
        "written to the cache": usage.cache_write_tokens,
        "of reasoning": usage.reasoning_tokens,
    }
    told = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{usage_text(usage)}{f' ({told})' if told else ''}"
