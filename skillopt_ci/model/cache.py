"""Answered calls on disk: one SQLite file that several processes may share."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from filelock import FileLock

from skillopt_ci.errors import InfrastructureError, UsageError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import (
    Account,
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelRefusal,
    Usage,
)
from skillopt_ci.progress import Note, Observer, silent

# Opening the SQLite files of what was paid for, whatever state they are found in.

SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0
#: Answered calls by call key.
CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    reply TEXT NOT NULL,
    usage TEXT NOT NULL,
    paid_by TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
)
"""


class _UnusableFile(Exception):
    """The file is no cache of this schema; the text says why."""


def open_cache_file(path: Path, observe: Observer, tables: str = CALLS) -> sqlite3.Connection:
    """Open the cache of ``tables`` at ``path``, created with its folder if absent.

    A file that is damaged or of another schema is moved aside, which ``observe`` is told. Raises
    :class:`UsageError` if the path cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Switching to WAL and moving a damaged file aside are not safe between processes.
        with FileLock(f"{path}.lock"):
            return _open_or_replace(path, observe, tables)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(
            f"The call cache {path} cannot be opened: {error}",
            hint="Point cache.path at a writable file, or set cache.enabled to false.",
        ) from error


def _open_or_replace(path: Path, observe: Observer, tables: str) -> sqlite3.Connection:
    try:
        return _open(path, tables)
    except _UnusableFile as unusable:
        aside = path.with_name(f"{path.name}.aside")
        for suffix in ("", "-wal", "-shm"):
            part = Path(f"{path}{suffix}")
            if part.exists():
                part.replace(f"{aside}{suffix}")
        observe(
            Note(
                f"The call cache {path} {unusable}; it was moved to {aside} and a new one begun.",
                level="warning",
            )
        )
        return _open(path, tables)


def _open(path: Path, tables: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _prepare(connection, tables)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError) and _is_damage(error):
            raise _UnusableFile(f"is damaged ({error})") from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, tables: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, SCHEMA_VERSION):
        raise _UnusableFile(f"has schema {version}, not {SCHEMA_VERSION}")
    verdict: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise _UnusableFile(f"is damaged ({verdict})")
    connection.executescript(tables)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # The low byte is the primary code: SQLITE_CORRUPT has extended variants.
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


#: Stands for the scope of whoever uses an answer first: another machine obtained it for them.
UNCLAIMED = ""


@dataclass(frozen=True, slots=True)
class CachedCall:
    """An answered call; ``paid_by`` names the scope (a step of a run) that paid for it."""

    outcome: ChatReply | ModelRefusal
    paid_by: str


class CallCache:
    """Answers by call key. What :meth:`put` has returned from survives the process's death.

    A file that is damaged or of another schema is moved aside (``<name>.aside``), which ``observe``
    is told. Raises :class:`~skillopt_ci.errors.UsageError` if ``path`` cannot be opened at all,
    and :class:`InfrastructureError` if the file fails later.
    """

    def __init__(self, path: Path, observe: Observer = silent) -> None:
        self._path = path
        self._connection = open_cache_file(path, observe)

    def get(self, key: str) -> CachedCall | None:
        """The answered call with this key, if there is one."""
        with self._failures_named():
            query = "SELECT reply, usage, paid_by FROM calls WHERE key = ?"
            row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            return None
        return CachedCall(outcome_of(json.loads(row[0]), Usage(**json.loads(row[1]))), row[2])

    def put(self, key: str, outcome: ChatReply | ModelRefusal, *, paid_by: str) -> None:
        """Keep an answer durably; the first answer to a key stands."""
        row = (key, json.dumps(content_of(outcome)), json.dumps(asdict(outcome.usage)), paid_by)
        with self._failures_named():
            self._connection.execute(
                "INSERT INTO calls (key, reply, usage, paid_by) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (key) DO NOTHING",
                row,
            )

    def claim(self, key: str, scope: str) -> bool:
        """Let ``scope`` have paid for an unclaimed answer; False if that one is not unclaimed."""
        with self._failures_named():
            changed = self._connection.execute(
                "UPDATE calls SET paid_by = ? WHERE key = ? AND paid_by = ?",
                (scope, key, UNCLAIMED),
            )
        return changed.rowcount > 0

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InfrastructureError(f"The call cache {self._path} failed: {error}") from error


def content_of(outcome: ChatReply | ModelRefusal) -> dict[str, Any]:
    """An answer as JSON, without its usage."""
    if isinstance(outcome, ModelRefusal):
        return {"refusal": outcome.message, "hint": outcome.hint}
    names = ("text", "finish_reason", "model", "trace")
    content: dict[str, Any] = {name: getattr(outcome, name) for name in names}
    return {**content, "tool_calls": [asdict(call) for call in outcome.tool_calls]}


def outcome_of(content: dict[str, Any], usage: Usage) -> ChatReply | ModelRefusal:
    """The answer with this content and usage."""
    if "refusal" in content:
        return ModelRefusal(content["refusal"], hint=content["hint"], usage=usage)
    calls = tuple(ToolCall(**call) for call in content.pop("tool_calls", ()))
    return ChatReply(usage=usage, tool_calls=calls, **content)


# A client that never asks twice what was answered once.


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
