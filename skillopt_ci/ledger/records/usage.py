"""What calls consumed."""

from collections.abc import Iterable
from dataclasses import asdict, replace

from skillopt_ci.ledger.records.base import Record
from skillopt_ci.model.types import Account, Accounts, Usage


class UsageRecord(Record):
    """Calls, tokens and cost, as in :class:`~skillopt_ci.model.types.Usage`."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False
    cache_write_tokens: int = 0

    @classmethod
    def of(cls, usage: Usage) -> "UsageRecord":
        """The record of ``usage``."""
        return cls(**asdict(_rounded(usage)))

    def usage(self) -> Usage:
        """The value that was recorded."""
        return Usage(**dict(self))


class AccountRecord(Record):
    """What one role consumed in one stage."""

    role: str
    stage: str
    usage: UsageRecord


def account_records(accounts: Accounts) -> tuple[AccountRecord, ...]:
    """The records of ``accounts``, in the order of roles and stages."""
    return tuple(
        AccountRecord(role=account.role, stage=account.stage, usage=UsageRecord.of(usage))
        for account, usage in sorted(accounts.items())
    )


def with_accounts(
    records: Iterable[AccountRecord], more: Iterable[AccountRecord]
) -> tuple[AccountRecord, ...]:
    """Both together, each role and stage once."""
    return account_records(accounts_of((*records, *more)))


def accounts_of(records: Iterable[AccountRecord]) -> dict[Account, Usage]:
    """The accounts that were recorded; those of the same name together."""
    accounts: dict[Account, Usage] = {}
    for one in records:
        account = Account(one.role, one.stage)
        accounts[account] = accounts.get(account, Usage()) + one.usage.usage()
    return accounts


def _rounded(usage: Usage) -> Usage:
    # sums of floats differ in their last digits with the order in which calls were answered
    return usage if usage.cost_usd is None else replace(usage, cost_usd=round(usage.cost_usd, 9))
