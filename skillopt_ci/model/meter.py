"""What calls consumed, stage by stage, and the budgets that they are held to."""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.model.client import Usage
from skillopt_ci.settings.config import Limits
from skillopt_ci.settings.model import Models


class Meter:
    """Counts the calls of one step and stops it before one that a budget forbids.

    ``spent`` is what the run consumed before this step. ``clock`` counts seconds;
    ``command_started`` is its reading when the command began (by default: now), from which the
    run's minutes are counted.
    """

    def __init__(
        self,
        *,
        step: Limits | None = None,
        run: Limits | None = None,
        spent: Usage | None = None,
        clock: Callable[[], float] = time.monotonic,
        command_started: float | None = None,
    ) -> None:
        self._limits = {"step": step or Limits(), "run": run or Limits()}
        self._spent = spent or Usage()
        self._clock = clock
        now = clock()
        self._started = {"step": now, "run": now if command_started is None else command_started}
        self._by_stage: dict[str, Usage] = {}
        self._in_flight = 0
        self._reused = 0

    def reserve(self) -> None:
        """Announce a call; raises :class:`BudgetExhausted` if a limit forbids it.

        Calls under way count as one call each and with the mean tokens and cost so far.
        """
        for scope, limits in self._limits.items():
            for name, limit, used in self._readings(scope, limits):
                if limit is not None and used >= limit:
                    raise self._exhausted(f"budget.{scope}.{name}", limit, used)
        self._in_flight += 1

    def release(self) -> None:
        """Take back a reservation: the call ended, answered or not."""
        self._in_flight -= 1

    def charge(self, stage: str, usage: Usage) -> None:
        """Book a paid call under ``stage``."""
        self._by_stage[stage] = self._by_stage.get(stage, Usage()) + usage

    def reuse(self) -> None:
        """Count a call that was answered from the cache, at no cost to this step."""
        self._reused += 1

    @property
    def reused_calls(self) -> int:
        """Calls that cost nothing because they had been answered before."""
        return self._reused

    def usage_by_stage(self) -> Mapping[str, Usage]:
        """What this step paid for, by stage, in the order of the stages' names.

        The order of first use would tell which of several calls at once was answered first.
        """
        return MappingProxyType(dict(sorted(self._by_stage.items())))

    def total(self) -> Usage:
        """What this step paid for."""
        return sum(self._by_stage.values(), Usage())

    def require_prices(self, models: Models) -> None:
        """Raise :class:`ModelSetupError` if a limit of cost cannot be held: a price is unknown."""
        limited = [scope for scope, limits in self._limits.items() if limits.cost_usd is not None]
        unpriced = _roles_without_price(models)
        if limited and unpriced:
            raise ModelSetupError(
                f"budget.{limited[0]}.cost_usd needs model.{unpriced[0]}.price: without it the "
                "cost of a call is unknown",
                hint="Add the price in US dollars per million tokens, or limit tokens instead.",
            )
        if "run" in limited and self._spent.cost_usd is None:
            raise ModelSetupError(
                "budget.run.cost_usd cannot be held: earlier steps of the run had no known cost",
                hint="Limit budget.run.tokens or budget.step.cost_usd instead.",
            )

    def _readings(self, scope: str, limits: Limits) -> tuple[tuple[str, float | None, float], ...]:
        step, run = self.total(), self._spent + self.total()
        spent = step if scope == "step" else run
        share = self._in_flight / run.calls if run.calls else 0.0
        cost = (spent.cost_usd or 0.0) + share * (run.cost_usd or 0.0)
        return (
            ("calls", limits.calls, spent.calls + self._in_flight),
            ("tokens", limits.tokens, spent.tokens + share * run.tokens),
            ("cost_usd", limits.cost_usd, cost),
            ("minutes", limits.minutes, (self._clock() - self._started[scope]) / 60),
        )

    def _exhausted(self, key: str, limit: float, used: float) -> BudgetExhausted:
        under_way = f" (with {self._in_flight} calls under way)" if self._in_flight else ""
        return BudgetExhausted(
            f"{key} is used up: {used:.6g} of {limit:.6g}{under_way}",
            hint=f"All that was paid for is kept. Raise {key} and run again to go on from here.",
        )


def _roles_without_price(models: Models) -> list[str]:
    roles = {"target": models.target, "optimizer": models.optimizer, "judge": models.judge}
    return [
        name
        for name, config in roles.items()
        if config and config.provider != "simulated" and config.price is None
    ]
