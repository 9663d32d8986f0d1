"""A client that never asks twice what was answered once."""

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from skillopt_ci.model.cache import UNCLAIMED, CachedCall, CallCache
from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, ModelRefusal
from skillopt_ci.model.meter import Meter
from skillopt_ci.model.usage import Account


class CachedClient:
    """Answers from ``cache``, else asks ``inner`` and keeps the answer before returning it.

    ``key_of`` maps a request to its call key and ``scope`` names who pays now. A call that this
    very scope paid for (in a process that died) is charged to ``meter`` once more, so that a
    resumed step accounts for the same usage as an uninterrupted one; so is an answer that another
    machine obtained and nobody has accounted for. Every other hit is reuse. Identical requests at
    the same time share one call, also those of other clients with the same ``locks``. ``used``
    hears the key of every answer that is given.
    """

    def __init__(
        self,
        inner: ChatClient,
        cache: CallCache,
        *,
        key_of: Callable[[ChatRequest], str],
        scope: str,
        meter: Meter,
        used: Callable[[str], object] = lambda _: None,
        locks: WeakValueDictionary[str, asyncio.Lock] | None = None,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._key_of = key_of
        self._scope = scope
        self._meter = meter
        self._used = used
        self._accounted: set[str] = set()
        self._locks = WeakValueDictionary() if locks is None else locks

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; a remembered refusal is raised again."""
        key = self._key_of(request)
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._cache.get(key)
            if known is None:
                return await self._ask(key, request)
        self._account(key, known, Account(request.role, request.stage))
        if isinstance(known.outcome, ModelRefusal):
            raise known.outcome
        return known.outcome

    async def _ask(self, key: str, request: ChatRequest) -> ChatReply:
        try:
            reply = await self._inner.complete(request)
        except ModelRefusal as refusal:
            self._keep(key, refusal)
            raise
        self._keep(key, reply)
        return reply

    def _keep(self, key: str, outcome: ChatReply | ModelRefusal) -> None:
        self._cache.put(key, outcome, paid_by=self._scope)
        self._accounted.add(key)
        self._used(key)

    def _account(self, key: str, known: CachedCall, account: Account) -> None:
        self._used(key)
        if key not in self._accounted and self._is_ours(key, known):
            self._accounted.add(key)
            self._meter.charge(account, known.outcome.usage)
        else:
            self._meter.reuse()

    def _is_ours(self, key: str, known: CachedCall) -> bool:
        if known.paid_by == self._scope:
            return True
        return known.paid_by == UNCLAIMED and self._cache.claim(key, self._scope)
