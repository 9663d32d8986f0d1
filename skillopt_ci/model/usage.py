"""What calls consume, in the providers' own numbers, and who consumed it for what."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from pydantic import ConfigDict, Field

_Count = Annotated[int, Field(ge=0)]
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls consumed. ``cost_usd`` is None as soon as one price is unknown.

    ``prompt_tokens`` include those that the provider had cached and those that it put into its
    cache; ``completion_tokens`` include those of reasoning. ``estimated`` says that a server
    reported no usage and tokens were counted from the text.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    calls: _Count = 0
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    cached_tokens: _Count = 0
    reasoning_tokens: _Count = 0
    cost_usd: _Dollars | None = 0.0
    estimated: bool = False
    cache_write_tokens: _Count = 0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            estimated=self.estimated or other.estimated,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


class Account(NamedTuple):
    """What usage is booked under: who was asked (a role's name), and for which stage."""

    role: str
    stage: str


Accounts = Mapping[Account, Usage]

#: Stages in which the target is asked.
_TARGET_STAGES = frozenset({"rollout", "selection", "slow_rollout", "test", "train", "all"})


def total(accounts: Iterable[Usage]) -> Usage:
    """All of it together."""
    return sum(accounts, Usage())


def by_stage(accounts: Accounts) -> dict[str, Usage]:
    """The same by stage alone, in the order of the stages' names."""
    return _grouped(accounts, lambda account: account.stage)


def by_role(accounts: Accounts) -> dict[str, Usage]:
    """The same by role alone, in the order of the roles' names."""
    return _grouped(accounts, lambda account: account.role)


def role_of(stage: str) -> str:
    """The role that a stage asks, for records that name stages only."""
    if stage.partition(" ")[0] in _TARGET_STAGES:
        return "target"
    return "judge" if stage == "judge" else "optimizer"


def _grouped(accounts: Accounts, name_of: Callable[[Account], str]) -> dict[str, Usage]:
    groups: dict[str, Usage] = {}
    for account, usage in accounts.items():
        name = name_of(account)
        groups[name] = groups.get(name, Usage()) + usage
    return dict(sorted(groups.items()))
