"""What calls consumed."""

from skillopt_ci.ledger.records.base import Record
from skillopt_ci.model.client import Usage


class UsageRecord(Record):
    """Calls, tokens and cost; ``cost_usd`` is null when a price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False

    @classmethod
    def of(cls, usage: Usage) -> "UsageRecord":
        """The record of ``usage``."""
        return cls(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=None if usage.cost_usd is None else round(usage.cost_usd, 9),
            estimated=usage.estimated,
        )

    def usage(self) -> Usage:
        """The value that was recorded."""
        return Usage(**self.model_dump())
