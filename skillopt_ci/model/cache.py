"""The cache of model calls: keys, a SQLite file that processes share, export to other machines.

Imported answers pass for the model's own, so a file must come from the same workflow run.
"""

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from skillopt_ci.config.models import PROVIDERS, ModelRole
from skillopt_ci.errors import InfrastructureError, SkilloptError, UsageError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.access import base_url_of, uses_responses
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import (
    Account,
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelRefusal,
    Usage,
    billed,
    reply_schema,
    token_limit,
)
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.util import user_text, write_atomically


def call_key(config: ModelRole, request: ChatRequest) -> str:
    """Hex SHA-256 of all that determines the answer (not role, stage, API key or timeout)."""
    messages = []
    for message in request.messages:
        told: list[object] = [message.role, message.content]
        if message.images or message.tool_calls or message.tool_call_id:
            images = [[image.media_type, image.data] for image in message.images]
            calls = [
                [call.id, call.name, call.arguments, *filter(None, [call.state])]
                for call in message.tool_calls
            ]
            told += [images, calls, message.tool_call_id]
        messages.append(told)
    content: dict[str, object] = {
        "provider": config.provider,
        # Roles without a URL have always used this one in their keys.
        "base_url": base_url_of(config) or PROVIDERS["openai"].base_url,
        "model": config.model,
        "messages": messages,
        "max_output_tokens": token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
        "extra_body": config.extra_body,
        "seed": config.seed if config.provider == "simulated" else None,
        "attempt": request.attempt,
    }
    if config.program:
        content["command"] = list(config.program)
    # Absent, not empty: answers cached before these settings existed keep their keys.
    if config.thinking is not None:
        content["thinking"] = config.thinking
    if config.preset.protocol == "chat" and uses_responses(config):
        content["api"] = "responses"
    if config.azure is not None and config.azure.api_version is not None:
        content["api_version"] = config.azure.api_version
    if request.tools:
        content["tools"] = [[one.name, one.description, one.parameters] for one in request.tools]
    if (schema := reply_schema(config, request)) is not None:
        content["reply_schema"] = schema.schema
    return sha256_of(content)


def sha256_of(facts: Mapping[str, object]) -> str:
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


_SCHEMA = 1
_BUSY_SECONDS = 60.0
_PREPARED = f"PRAGMA user_version = {_SCHEMA}; PRAGMA busy_timeout = {1000 * _BUSY_SECONDS:.0f}"


class _UnusableFile(Exception):
    """The file is damaged or has another schema; the message says which."""


class _LockedFile(InfrastructureError):
    """Another process is opening the file, or holds a lock on its content."""


def _open(path: Path, tables: str, patience: float) -> sqlite3.Connection:
    if path.is_fifo():
        raise OSError("it is a pipe")
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
    try:
        _prepare(connection, tables)
    except (sqlite3.Error, _UnusableFile) as error:
        connection.close()
        # Some codes have extended variants; the low byte is the primary code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _UnusableFile(f"is damaged ({error})") from error
        if code == sqlite3.SQLITE_BUSY:
            raise Timeout(str(path)) from error
        raise
    return connection


def _prepare(connection: sqlite3.Connection, tables: str) -> None:
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    if (version := connection.execute("PRAGMA user_version").fetchone()[0]) not in (0, _SCHEMA):
        raise _UnusableFile(f"has schema {version}, not {_SCHEMA}")
    if (verdict := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise _UnusableFile(f"is damaged ({verdict})")
    connection.executescript(f"{tables}{_PREPARED}")


#: The scope of another machine's answers: the first scope that uses one accounts for it.
UNCLAIMED = ""
USAGE = TypeAdapter(Usage)


class CacheFile:
    """A SQLite file of paid results that outlive the process. InfrastructureError if it fails."""

    #: The file's name in messages, the SQL of its tables, and the table with ``paid_by``.
    _name: ClassVar[str]
    _tables: ClassVar[str]
    _paid_table: ClassVar[str]

    def __init__(
        self, path: Path, observe: Observer = silent, *, patience: float = _BUSY_SECONDS
    ) -> None:
        """Open the file; create it and its folder if missing.

        A damaged file, or one of another schema, is moved to ``<name>.aside`` and reported to
        ``observe``. Raises :class:`UsageError`, or :class:`_LockedFile` after ``patience`` seconds.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = Path(f"{path}.lock")
            # FileLock would retry forever if the lock file cannot be created.
            lock.touch()
            # Two processes must not switch to WAL or move a damaged file at the same time.
            with FileLock(lock, timeout=patience):
                try:
                    self._connection = _open(path, self._tables, patience)
                except _UnusableFile as unusable:
                    aside = path.with_name(f"{path.name}.aside")
                    for suffix in ("", "-wal", "-shm"):
                        if (part := Path(f"{path}{suffix}")).exists():
                            part.replace(f"{aside}{suffix}")
                    moved = f"it was moved to {aside} and a new one begun."
                    observe(Note(f"The call cache {path} {unusable}; {moved}", level="warning"))
                    self._connection = _open(path, self._tables, patience)
        except Timeout as error:
            raise _LockedFile(
                f"The call cache {path} stayed locked by another process",
                hint=f"The process that holds it or {path}.lock may be suspended: resume or end "
                "it, then rerun, or point cache.path at another file.",
            ) from error
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"The call cache {path} cannot be opened: {error}",
                hint="Point cache.path at a writable file, or set cache.enabled to false.",
            ) from error

    @classmethod
    async def opened(cls, path: Path, observe: Observer = silent) -> Self:
        """Open the file without blocking the event loop while another process holds the lock."""
        give_up = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return cls(path, observe, patience=0)
            except _LockedFile:
                if time.monotonic() > give_up:
                    raise
            await asyncio.sleep(0.05)

    def is_paid_by(self, scope: str, key: str, paid_by: str) -> bool:
        """Whether ``scope`` is the payer; an unclaimed row becomes its own."""
        if paid_by != UNCLAIMED:
            return paid_by == scope
        query = f"UPDATE {self._paid_table} SET paid_by = ? WHERE key = ? AND paid_by = ?"  # noqa: S608
        return self._execute(query, scope, key, UNCLAIMED).rowcount > 0

    def paid(self, scope: str) -> Usage:
        query = f"SELECT CAST(usage AS BLOB) FROM {self._paid_table} WHERE paid_by = ?"  # noqa: S608
        paid = Usage()
        for (usage,) in self._execute(query, scope).fetchall():
            with suppress(ValueError):  # damaged, or from another version
                paid += USAGE.validate_json(usage)
        return paid

    def scopes(self, run: str) -> set[str]:
        """The scopes of ``run`` that paid for something."""
        query = f"SELECT DISTINCT paid_by FROM {self._paid_table}"  # noqa: S608
        return {name for (name,) in self._execute(query).fetchall() if name.startswith(f"{run}/")}

    def rename(self, scope: str, new: str) -> None:
        self._execute(f"UPDATE {self._paid_table} SET paid_by = ? WHERE paid_by = ?", new, scope)  # noqa: S608

    def close(self) -> None:
        self._connection.close()

    def _execute(self, query: str, *values: str | bytes) -> sqlite3.Cursor:
        try:
            return self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise InfrastructureError(f"{self._name} {self._path} failed: {error}") from error


class Line(BaseModel):
    """A line of JSON passed between machines; nested dataclasses follow this configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_max_length=50_000_000)


class _Reply(Line):
    text: str
    finish_reason: str
    model: str
    trace: str
    tool_calls: tuple[ToolCall, ...] = ()


class _Refusal(Line):
    refusal: str
    hint: str


class _Answer(Line):
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    paid_by: str = Field(max_length=1_000)
    usage: Usage
    reply: _Reply | _Refusal


@dataclass(frozen=True, slots=True)
class CachedCall:
    """An answered call; ``paid_by`` names the scope (a step of a run) that paid for it."""

    outcome: ChatReply | ModelRefusal
    paid_by: str


class CallCache(CacheFile):
    _name = "The call cache"
    _paid_table = "calls"
    _tables = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    reply TEXT NOT NULL,
    usage TEXT NOT NULL,
    paid_by TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
CREATE INDEX IF NOT EXISTS calls_paid_by ON calls (paid_by);
"""

    def get(self, key: str) -> CachedCall | None:
        # SQLite cannot read damaged text as text
        query = "SELECT CAST(reply AS BLOB), CAST(usage AS BLOB), paid_by FROM calls WHERE key = ?"
        for reply, usage, paid_by in self._execute(query, key).fetchall():
            try:
                return CachedCall(_outcome(json.loads(reply), USAGE.validate_json(usage)), paid_by)
            # damaged, or not ours: to be asked again
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                self._execute("DELETE FROM calls WHERE key = ?", key)
        return None

    def put(self, key: str, outcome: ChatReply | ModelRefusal, *, paid_by: str) -> None:
        """Store the answer, unless the key already has one."""
        self._execute(
            "INSERT INTO calls (key, reply, usage, paid_by) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (key) DO NOTHING",
            *(key, json.dumps(_content(outcome)), json.dumps(asdict(outcome.usage)), paid_by),
        )

    def put_unanswered(self, usage: Usage, scope: str) -> None:
        """Store what was paid for, if anything, although nothing can be reused."""
        if usage.calls:
            self.put(f"unanswered {uuid4()}", ModelRefusal("", usage=usage), paid_by=scope)

    def lines(self, keys: Iterable[str]) -> Iterator[str]:
        """The answers with these keys as lines of JSON; skips answers that are invalid Unicode."""
        for key in dict.fromkeys(keys):
            if (call := self.get(key)) is not None:
                content, usage = _content(call.outcome), call.outcome.usage
                told = {"key": key, "paid_by": call.paid_by, "usage": usage, "reply": content}
                with suppress(ValueError):  # a lone surrogate
                    yield _Answer.model_validate(told, strict=False).model_dump_json()

    def take(self, line: str) -> Callable[[], None]:
        """Parse a line and return a function that stores its answer. Raises ValueError."""
        found = _Answer.model_validate_json(line)
        return lambda: self.put(
            found.key, _outcome(found.reply.model_dump(), found.usage), paid_by=found.paid_by
        )


def _content(outcome: ChatReply | ModelRefusal) -> dict[str, Any]:
    if isinstance(outcome, ModelRefusal):
        return {"refusal": outcome.message, "hint": outcome.hint}
    return {name: value for name, value in asdict(outcome).items() if name != "usage"}


def _outcome(content: dict[str, Any], usage: Usage) -> ChatReply | ModelRefusal:
    calls = content.pop("tool_calls", ())
    if not all(isinstance(text, str) for one in (content, *calls) for text in one.values()):
        raise TypeError("an answer is made of texts")
    if "refusal" in content:
        return ModelRefusal(content["refusal"], hint=content["hint"], usage=usage)
    return ChatReply(usage=usage, tool_calls=tuple(ToolCall(**call) for call in calls), **content)


@dataclass(slots=True)
class CachedClient:
    """Answers from ``cache``; otherwise calls ``inner`` and stores the answer before returning it.

    ``meter`` is charged again for a call that this ``scope`` paid for in a process that died: a
    resumed step thus reports the same usage as an uninterrupted one. It is also charged for another
    machine's answer that is unclaimed. Any other hit counts as reuse. ``used`` gets each key.
    """

    inner: ChatClient
    cache: CallCache
    key_of: Callable[[ChatRequest], str]
    scope: str
    meter: Meter
    used: Callable[[str], object] = silent
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _accounted: set[str] = field(default_factory=set, init=False)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises a cached refusal again; a free one is not cached, as its cause may be mended."""
        key = self.key_of(request)
        async with self.locks.setdefault(key, asyncio.Lock()):
            if (known := self.cache.get(key)) is not None:
                outcome: ChatReply | ModelRefusal = known.outcome
            else:
                try:
                    outcome = await self.inner.complete(request)
                except ModelRefusal as refusal:
                    outcome = refusal
                except (SkilloptError, asyncio.CancelledError) as end:
                    self.cache.put_unanswered(billed(end), self.scope)
                    raise
                if isinstance(outcome, ChatReply) or outcome.usage.tokens:
                    self.cache.put(key, outcome, paid_by=self.scope)
        self.used(key)
        if known is None:
            self._accounted.add(key)
        elif key not in self._accounted and self.cache.is_paid_by(self.scope, key, known.paid_by):
            self._accounted.add(key)
            self.meter.book(Account(request.role, request.stage), outcome.usage)
        else:
            self.meter.reuse(request.role)
        if isinstance(outcome, ModelRefusal):
            raise outcome
        return outcome


# Answers as lines of JSON, for the cache of another machine.

#: Parses a line and returns a function that stores its content; raises ValueError.
Take = Callable[[str], Callable[[], None]]


class _Header(Line):
    format: Literal["skillopt-ci answers"] = "skillopt-ci answers"
    version: Literal[1] = 1


def answer_lines(
    cache: CallCache, keys: Iterable[str], further: Iterable[str] = ()
) -> tuple[str, ...]:
    """A header line, the answers with these keys, then the ``further`` lines."""
    return (_Header().model_dump_json(), *cache.lines(keys), *further)


def export_answers(
    cache: CallCache, keys: Iterable[str], file: Path, further: Iterable[str] = ()
) -> int:
    """Write :func:`answer_lines` to ``file`` atomically; return their number without header."""
    lines = answer_lines(cache, keys, further)
    write_atomically(file, "\n".join([*lines, ""]))
    return len(lines) - 1


def import_answers(cache: CallCache, files: Iterable[Path], take: Take) -> int:
    # Split at "\n" only: JSON strings may hold other line breaks.
    return import_lines(cache, {file: user_text(file).split("\n") for file in files}, take)


def import_lines(cache: CallCache, sources: Mapping[Path, Iterable[str]], take: Take) -> int:
    """Store the lines of each source in ``cache``; return the number of lines stored.

    ``take`` parses lines of other kinds. Answers that exist already are kept. For a malformed line
    raises UsageError with its source and number, before anything is stored.
    """
    entries = []
    for file, lines in sources.items():
        for number, line in enumerate(lines, start=1):
            try:
                if number == 1 or line.startswith('{"format":'):  # of a file that was appended
                    _Header.model_validate_json(line)
                elif line:
                    entries.append((cache.take if line.startswith('{"key":') else take)(line))
            except ValueError as error:
                raise UsageError(
                    f"{file}:{number}: not a rollout answer: {_reason(error)}",
                    hint="Leave this file out: the step asks again.",
                ) from error
    for enter in entries:
        enter()
    return len(entries)


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error).splitlines()[0]
    first = error.errors(include_input=False, include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
