"""Usage and cost of calls by role and stage, and the budgets that limit them."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

from skillopt_ci.aio import Slots
from skillopt_ci.config.config import Limits
from skillopt_ci.config.models import ModelRole, Price
from skillopt_ci.errors import BudgetExhausted, ModelSetupError, SkilloptError
from skillopt_ci.model.types import (
    Account,
    Accounts,
    ChatClient,
    ChatReply,
    ChatRequest,
    Role,
    Usage,
    bill,
    billed,
    redacted_message,
    total,
)
from skillopt_ci.progress import CallPaid, Observer, silent
from skillopt_ci.redaction import Redact, unchanged


@dataclass(frozen=True, slots=True)
class Tariff:
    """The price of a role's calls, None if unknown; ``text`` describes it to people."""

    source: Literal["configuration", "table", "simulated", "unknown"]
    text: str
    cost_usd: Callable[[Usage], float | None]

    @property
    def known(self) -> bool:
        return self.source != "unknown"


def tariff_of(config: ModelRole) -> Tariff:
    if config.provider == "simulated":
        return Tariff("simulated", "simulated, costs nothing", lambda _: 0.0)
    if (price := config.price) is not None:
        text = f"${price.input:g} in, ${price.output:g} out per million tokens (configured)"
        return Tariff("configuration", text, lambda usage: cost_usd(usage, price))
    # Imported late: offline commands do not need the table.
    import genai_prices  # noqa: PLC0415
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    # Other servers speak OpenAI's protocol: at another address its prices do not apply.
    own = "" if config.base_url and config.provider == "openai" else config.preset.base_url
    for address in (config.base_url or "", own):  # without any, the table would guess by the model
        name = "azure" if config.provider == "azure" and not address else None
        try:
            provider, model = get_snapshot().find_provider_model(config.model, None, name, address)
        except LookupError:
            continue

        def cost(usage: Usage, model: str = model.id, provider: str = provider.id) -> float | None:
            cached, written = _cached(usage)
            used = genai_prices.Usage(
                input_tokens=usage.prompt_tokens,
                cache_read_tokens=cached,
                cache_write_tokens=written,
                output_tokens=usage.completion_tokens,
            )
            try:
                return float(genai_prices.calc_price(used, model, provider_id=provider).total_price)
            except (LookupError, ValueError):
                return None

        if cost(Usage(calls=1, prompt_tokens=1, completion_tokens=1)) is not None:
            version = genai_prices.__version__
            return Tariff("table", f"{provider.id}/{model.id} in genai-prices {version}", cost)
    return Tariff("unknown", "no price known; set `price` of the role", lambda _: None)


def tariffs(roles: Mapping[str, ModelRole]) -> dict[str, Tariff]:
    """The tariff of each role; without a judge model, the optimizer's model judges."""
    roles = {**roles, "judge": roles.get("judge") or roles["optimizer"]}
    return {name: tariff_of(config) for name, config in roles.items()}


def cost_usd(usage: Usage, price: Price) -> float:
    cached, written = _cached(usage)
    parts = (
        (usage.prompt_tokens - cached - written, price.input),
        (cached, price.input if price.cached_input is None else price.cached_input),
        (written, price.input if price.cache_write is None else price.cache_write),
        (usage.completion_tokens, price.output),
    )
    return sum(tokens * dollars for tokens, dollars in parts) / 1e6


def _cached(usage: Usage) -> tuple[int, int]:
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    return cached, min(usage.cache_write_tokens, usage.prompt_tokens - cached)


@dataclass(slots=True)
class Share:
    """The usage of one piece of work, and whether that called the target through our client."""

    charged: Usage = field(default_factory=Usage)
    called_target: bool = False


_SHARE: ContextVar[Share | None] = ContextVar("share", default=None)
_ONE_CALL = Usage(calls=1)


class Meter:
    """Counts the calls of one step and stops it before a call that would exceed a budget.

    ``spent`` is the run's usage before this step. The run's minutes start at ``command_started``
    (seconds on ``clock``). ``observe`` hears of every paid call. ``paid_before`` is what stopped
    commands paid for this work: it counts before it is booked.
    """

    def __init__(
        self,
        *,
        step: Limits | None = None,
        run: Limits | None = None,
        spent: Usage | None = None,
        clock: Callable[[], float] = time.monotonic,
        command_started: float | None = None,
        observe: Observer = silent,
        paid_before: Usage | None = None,
    ) -> None:
        self._limits = {"step": step or Limits(), "run": run or Limits()}
        self._spent = spent or Usage()
        self._clock = clock
        now = clock()
        self._started = {"step": now, "run": now if command_started is None else command_started}
        self._accounts: dict[Account, Usage] = {}
        self._dollars = 0.0
        #: Of ``paid_before``, what this command has not yet used again, and so not charged.
        self.unbooked = paid_before or Usage()
        #: Of what was charged, the part in a pushed candidate's record.
        self.recorded = Usage()
        self._in_flight: list[Usage] = []
        self._lent: list[Usage] = []
        self._changed = asyncio.Event()
        self.observe = observe

    async def reserve(self, expected: Usage = _ONE_CALL) -> None:
        """Reserve budget for a call that is expected to consume at most ``expected``.

        If it does not fit next to the calls in flight, wait until they are booked. So one call at
        most exceeds a limit. Raises :class:`BudgetExhausted` if a limit is reached.
        """
        while (full := self._without_room(expected)) is not None:
            if not self._in_flight:
                raise full
            await self._changed.wait()
        self._in_flight.append(expected)

    def release(self, expected: Usage = _ONE_CALL) -> None:
        self._in_flight.remove(expected)
        self._changed.set()
        self._changed = asyncio.Event()

    def charge(self, account: Account, usage: Usage) -> None:
        self._accounts[account] = self._accounts.get(account, Usage()) + usage
        self._dollars += usage.cost_usd or 0.0
        if (share := _SHARE.get()) is not None:
            share.charged += usage
            share.called_target |= account.role == Role.TARGET

    def book(self, account: Account, usage: Usage) -> None:
        """Charge what a stopped command paid for."""
        self.charge(account, usage)
        self.unbooked = self.unbooked.beyond(usage)

    def reuse(self, role: str) -> None:
        if (share := _SHARE.get()) is not None:
            share.called_target |= role == Role.TARGET

    @contextmanager
    def lent(self, parts: int) -> Iterator[Limits]:
        """Set aside one of ``parts`` equal shares of the remaining budget for work elsewhere.

        The caller charges the actual usage. Raises :class:`BudgetExhausted` if nothing is left.
        """
        if (full := self._without_room(_ONE_CALL)) is not None:
            raise full
        rest: dict[str, float] = {}
        for _, name, limit, used, under_way in self._readings():
            rest[name] = min(limit - used - under_way, rest.get(name, limit))
        share = Limits(
            calls=max(1, int(rest["calls"] / parts)) if "calls" in rest else None,
            tokens=max(1, int(rest["tokens"] / parts)) if "tokens" in rest else None,
            cost_usd=rest["cost_usd"] / parts if "cost_usd" in rest else None,
            minutes=rest.get("minutes"),  # not divided: the shares run at the same time
        )
        lent = Usage(share.calls or 0, share.tokens or 0, cost_usd=share.cost_usd or 0.0)
        self._lent.append(lent)
        try:
            yield share
        finally:
            self._lent.remove(lent)

    @contextmanager
    def shared(self) -> Iterator[Share]:
        """Track the usage of the body, and of the tasks it starts, separately; may be nested."""
        whole, share = _SHARE.get(), Share()
        token = _SHARE.set(share)
        try:
            yield share
        finally:
            _SHARE.reset(token)
            if whole is not None:
                whole.charged += share.charged
                whole.called_target |= share.called_target

    def accounts(self) -> Accounts:
        return dict(sorted(self._accounts.items()))

    def total(self) -> Usage:
        return total(self._accounts.values())

    def unrecorded(self) -> Usage:
        return self.total().beyond(self.recorded)

    def require_prices(self, tariffs: Mapping[str, Tariff]) -> None:
        """Raise :class:`ModelSetupError` if there is a cost limit but a price is unknown."""
        limited = [scope for scope, limits in self._limits.items() if limits.cost_usd is not None]
        unpriced = [name for name, tariff in tariffs.items() if not tariff.known]
        if limited and unpriced:
            raise ModelSetupError(
                f"budget.{limited[0]}.cost_usd needs model.{unpriced[0]}.price: nothing says what "
                "a call of this model costs",
                hint="Add the price in US dollars per million tokens, or limit tokens instead.",
            )
        if "run" in limited and self._spent.cost_usd is None:
            raise ModelSetupError(
                "budget.run.cost_usd cannot be enforced: the cost of earlier steps is unknown",
                hint="Limit budget.run.tokens or budget.step.cost_usd instead.",
            )

    def _without_room(self, expected: Usage) -> BudgetExhausted | None:
        asked = _amounts(expected)
        for scope, name, limit, used, under_way in self._readings():
            crowded = self._in_flight and used + under_way + asked[name] > limit
            if used >= limit or crowded:
                key = f"budget.{scope}.{name}"
                return BudgetExhausted(
                    f"{key} is used up: {round(used, 4):,.12g} of {limit:,.12g}",
                    hint=f"Every paid answer is kept. Raise {key} and rerun to continue from here.",
                )
        return None

    def _readings(self) -> Iterator[tuple[str, str, float, float, float]]:
        """Scope, name, limit, usage and expected usage of calls in flight, for each limit set."""
        lent, under_way = sum(self._lent, Usage()), _amounts(total(self._in_flight))
        for scope, limits in self._limits.items():
            if limits == Limits():
                continue  # the sums below take time
            before = (Usage() if scope == "step" else self._spent) + self.unbooked
            used = {
                **_amounts(before + self.total() + lent),
                # what has no known cost must not hide what the rest cost
                "cost_usd": sum(one.cost_usd or 0.0 for one in (before, lent)) + self._dollars,
                "minutes": (self._clock() - self._started[scope]) / 60,
            }
            for name, limit in limits:
                if limit is not None:
                    yield scope, name, limit, used[name], under_way[name]


def _amounts(usage: Usage) -> dict[str, float]:
    cost = usage.cost_usd or 0.0
    return {"calls": usage.calls, "tokens": usage.tokens, "cost_usd": cost, "minutes": 0.0}


# The most that a call is likely to consume, judging by earlier calls.

#: Used before a role's first answer: English has about four characters a token, other texts fewer.
_CHARACTERS_PER_TOKEN = 3.0
#: Used before a stage's first answer if there is no token limit: the length of a long answer.
_FIRST_ANSWER = 4_096
_TOKENS_PER_PICTURE = 1_600
#: Tokens of a prompt's frame: roles, separators, tool names.
_FRAME = 16


@dataclass(slots=True)
class Expectation:
    """Assumes the longest answer so far of the stage, and the role's most tokens a character."""

    #: The most that one call of the stage cost beyond the price known here, by the provider.
    surplus: dict[Account, float] = field(default_factory=dict)
    _longest: dict[Account, int] = field(default_factory=dict)
    _density: dict[Role, float] = field(default_factory=dict)

    def expect(self, request: ChatRequest) -> Usage:
        density = self._density.get(request.role, 1 / _CHARACTERS_PER_TOKEN)
        prompt = math.ceil(_characters(request) * density) + _FRAME
        pictures = sum(len(message.images) for message in request.messages)
        limit = request.max_output_tokens or _FIRST_ANSWER
        return Usage(
            calls=1,
            prompt_tokens=prompt + pictures * _TOKENS_PER_PICTURE,
            completion_tokens=self._longest.get(Account(request.role, request.stage), limit),
            cost_usd=None,
        )

    def learn(self, request: ChatRequest, usage: Usage, surplus: float = 0.0) -> None:
        if not usage.tokens:  # a refusal, after which the next call may get a long answer
            return
        account, tries = Account(request.role, request.stage), max(1, usage.calls)
        self.surplus[account] = max(self.surplus.get(account, 0.0), surplus / tries)
        self._longest[account] = max(
            self._longest.get(account, 0), usage.completion_tokens // tries
        )
        seen = usage.prompt_tokens / tries / max(1, _characters(request))
        self._density[request.role] = max(self._density.get(request.role, 0.0), seen)


def _characters(request: ChatRequest) -> int:
    said = sum(len(message.content) for message in request.messages)
    asked = sum(len(call.arguments) for one in request.messages for call in one.tool_calls)
    tools = sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in request.tools)
    return said + asked + tools


@dataclass(slots=True)
class BudgetedClient:
    """Calls each role's client within the budgets of ``meter`` and books the usage there.

    Redacts secrets in requests, replies and errors. A call to the optimizer holds one of the
    ``questions`` slots until it is answered; rollouts have their own slots.
    """

    clients: Mapping[Role, ChatClient]
    meter: Meter
    tariffs: Mapping[str, Tariff] = field(default_factory=dict)
    redact: Redact = unchanged
    questions: Slots | None = None
    _expectation: Expectation = field(default_factory=Expectation, init=False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        redact, messages = self.redact, request.messages
        asked = replace(request, messages=tuple(redacted_message(one, redact) for one in messages))
        slots = self.questions if request.role is Role.OPTIMIZER else None
        async with slots or nullcontext():
            expected = self._priced(request, self._expectation.expect(request))
            account = Account(request.role, request.stage)
            expected += Usage(cost_usd=self._expectation.surplus.get(account, 0.0))
            await self.meter.reserve(expected)
            try:
                reply = await self.clients[request.role].complete(asked)
                calls = (replace(one, arguments=redact(one.arguments)) for one in reply.tool_calls)
                return replace(
                    reply,
                    text=redact(reply.text),
                    trace=redact(reply.trace),
                    model=redact(reply.model),
                    finish_reason=redact(reply.finish_reason),
                    tool_calls=tuple(calls),
                    usage=self._book(request, reply.usage),
                )
            except (SkilloptError, asyncio.CancelledError) as end:
                if isinstance(end, SkilloptError):
                    end.message, end.hint = redact(end.message), redact(end.hint)
                    end.args = (end.message,)
                if (usage := billed(end)).calls:
                    bill(end, self._book(request, usage))
                raise
            finally:
                self.meter.release(expected)

    def _book(self, request: ChatRequest, reported: Usage) -> Usage:
        usage = self._priced(request, reported)
        listed = self._priced(request, replace(reported, cost_usd=None))
        self._expectation.learn(request, usage, (usage.cost_usd or 0.0) - (listed.cost_usd or 0.0))
        self.meter.charge(Account(request.role, request.stage), usage)
        self.meter.observe(CallPaid(usage.tokens, usage.cost_usd))
        return usage

    def _priced(self, request: ChatRequest, usage: Usage) -> Usage:
        if (tariff := self.tariffs.get(request.role)) is None:
            return usage
        # a cost that the provider reports takes precedence
        cost = usage.cost_usd or (tariff.cost_usd(usage) if usage.tokens else 0.0)
        return replace(usage, cost_usd=cost)
