"""Attempts on disk, with their artifacts and grades: one SQLite file beside the call cache."""

import asyncio
import base64
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from skillopt_ci.errors import InfrastructureError
from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED, open_cache_file
from skillopt_ci.model.types import Account, Role, Usage
from skillopt_ci.progress import Observer, silent
from skillopt_ci.rollout.limits import WorkResult
from skillopt_ci.rollout.types import Attempt, AttemptRequest, Limit
from skillopt_ci.scorers.base import Score
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256

# Attempts and grades as JSON: what the store keeps and what machines hand to each other.

#: More than an agent may leave behind is no artifact of ours.
ARTIFACT_BYTES = 200_000_000


def _writable(text: object) -> object:
    """Half of a surrogate pair cannot be written as UTF-8: a mark stands in its place."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, BeforeValidator(_writable), Field(max_length=50_000_000)]
_Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UsageShape(_Shape):
    """What was consumed."""

    calls: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count
    reasoning_tokens: _Count
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    estimated: bool
    cache_write_tokens: _Count = 0

    @classmethod
    def of(cls, usage: Usage) -> "UsageShape":
        """The shape of ``usage``."""
        return cls(**asdict(usage))

    def value(self) -> Usage:
        """The value."""
        return Usage(**self.model_dump())


class _ImageShape(_Shape):
    media_type: _Text
    data: _Text


class _CallShape(_Shape):
    id: _Text
    name: _Text
    arguments: _Text
    state: _Text = ""

    def value(self) -> ToolCall:
        """The value."""
        return ToolCall(self.id, self.name, self.arguments, self.state)


class _MessageShape(_Shape):
    role: ChatRole
    content: _Text
    images: tuple[_ImageShape, ...] = ()
    tool_calls: tuple[_CallShape, ...] = ()
    tool_call_id: _Text = ""

    def value(self) -> Message:
        """The value."""
        return Message(
            self.role,
            self.content,
            images=tuple(Image(one.media_type, one.data) for one in self.images),
            tool_calls=tuple(one.value() for one in self.tool_calls),
            tool_call_id=self.tool_call_id,
        )


class ScoreShape(_Shape):
    """A verdict."""

    hard: _Part
    soft: _Part
    reason: _Text
    answer: _Text

    @classmethod
    def of(cls, score: Score) -> "ScoreShape":
        """The shape of ``score``."""
        return cls(**asdict(score))

    def value(self) -> Score:
        """The value."""
        return Score(**self.model_dump())


class WorkSchema(_Shape):
    """What came of the work on a task, without its artifacts."""

    messages: tuple[_MessageShape, ...]
    response: _Text
    n_turns: _Count
    trace: _Text
    limit: Limit | None
    usage: UsageShape
    ending: Literal["done", "refused", "agent_error"]
    reason: _Text
    progress: tuple[ScoreShape, ...] = ()

    @classmethod
    def of(cls, worked: WorkResult) -> "WorkSchema":
        """The shape of ``worked``."""
        attempt = worked.attempt
        return cls(
            messages=tuple(_MessageShape(**asdict(one)) for one in attempt.messages),
            response=attempt.response,
            n_turns=attempt.n_turns,
            trace=attempt.trace,
            limit=attempt.limit,
            usage=UsageShape.of(attempt.usage),
            ending=worked.ending,
            reason=worked.reason,
            progress=tuple(map(ScoreShape.of, worked.progress)),
        )

    def value(self, artifacts: bytes) -> WorkResult:
        """The value, with the ``artifacts`` that belong to it."""
        attempt = Attempt(
            messages=tuple(one.value() for one in self.messages),
            response=self.response,
            n_turns=self.n_turns,
            trace=self.trace,
            limit=self.limit,
            artifacts=artifacts,
            usage=self.usage.value(),
        )
        progress = tuple(one.value() for one in self.progress)
        return WorkResult(attempt, self.ending, self.reason, progress)


class AttemptLine(_Shape):
    """A stored attempt in a file; ``artifacts`` is base64 of what :func:`packed` returns."""

    attempt: _Key
    paid_by: Annotated[str, Field(max_length=1_000)]
    usage: UsageShape
    worked: WorkSchema
    artifacts: Annotated[str, Field(max_length=2 * ARTIFACT_BYTES)] = ""

    def packed_artifacts(self) -> bytes:
        """The artifacts as the store keeps them; raises ValueError for what they cannot be."""
        content = base64.b64decode(self.artifacts, validate=True)
        unpacked(content)
        return content


class GradeLine(_Shape):
    """A stored grade in a file."""

    grade: _Key
    scorer: _Key
    score: ScoreShape


def packed(artifacts: bytes) -> bytes:
    """Compress ``artifacts``; nothing stays nothing."""
    return zlib.compress(artifacts, 6) if artifacts else b""


def unpacked(content: bytes) -> bytes:
    """Undo :func:`packed`; raises ValueError for what is damaged or far too large."""
    if not content:
        return b""
    decompressor = zlib.decompressobj()
    try:
        artifacts = decompressor.decompress(content, ARTIFACT_BYTES)
    except zlib.error as error:
        raise ValueError(f"the artifacts are damaged: {error}") from error
    if not decompressor.eof:
        raise ValueError("the artifacts are cut off or too large")
    return artifacts


_TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
    key TEXT PRIMARY KEY,
    worked TEXT NOT NULL,
    artifacts BLOB NOT NULL,
    usage TEXT NOT NULL,
    paid_by TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
CREATE TABLE IF NOT EXISTS grades (
    key TEXT NOT NULL,
    scorer TEXT NOT NULL,
    score TEXT NOT NULL,
    PRIMARY KEY (key, scorer)
);
"""


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """``usage`` is what the scope ``paid_by`` was charged for it."""

    worked: WorkResult
    usage: Usage
    paid_by: str


class AttemptStore:
    """Attempts and grades by key. What :meth:`put` has returned from survives the process's death.

    A file that is damaged or of another schema is moved aside, which ``observe`` is told. Raises
    :class:`~skillopt_ci.errors.UsageError` if ``path`` cannot be opened, and
    :class:`InfrastructureError` if the file fails later.
    """

    def __init__(self, path: Path, observe: Observer = silent) -> None:
        self._path = path
        self._connection = open_cache_file(path, observe, _TABLES)

    def get(self, key: str) -> StoredAttempt | None:
        """The attempt with this key, if there is one that can be read."""
        query = "SELECT worked, artifacts, usage, paid_by FROM attempts WHERE key = ?"
        row = self._one(query, key)
        if row is None:
            return None
        try:
            worked = WorkSchema.model_validate_json(row[0]).value(unpacked(row[1]))
        except ValueError:
            # of another version: done again, and then kept in today's form
            with self._failures_named():
                self._connection.execute("DELETE FROM attempts WHERE key = ?", (key,))
            return None
        return StoredAttempt(worked, _usage(row[2]), row[3])

    def put(
        self,
        key: str,
        worked: WorkResult,
        *,
        usage: Usage,
        paid_by: str,
        artifacts: bytes | None = None,
    ) -> None:
        """Keep an attempt durably; ``artifacts`` are its own, compressed, where that was done."""
        content = packed(worked.attempt.artifacts) if artifacts is None else artifacts
        self._insert_attempt(key, WorkSchema.of(worked), content, UsageShape.of(usage), paid_by)

    def grade(self, key: str, scorer: str) -> Score | None:
        """The grade that ``scorer`` gave the attempt with this key, if it did."""
        row = self._one("SELECT score FROM grades WHERE key = ? AND scorer = ?", key, scorer)
        return None if row is None else ScoreShape.model_validate_json(row[0]).value()

    def put_grade(self, key: str, scorer: str, score: Score) -> None:
        """Keep a grade durably; the first one stands."""
        self._insert_grade(key, scorer, ScoreShape.of(score))

    def claim(self, key: str, scope: str) -> bool:
        """Let ``scope`` have paid for an unclaimed attempt; False if that one is not unclaimed."""
        with self._failures_named():
            changed = self._connection.execute(
                "UPDATE attempts SET paid_by = ? WHERE key = ? AND paid_by = ?",
                (scope, key, UNCLAIMED),
            )
        return changed.rowcount > 0

    def lines(self, keys: Iterable[str]) -> Iterator[str]:
        """The attempts with these keys and their grades, as lines of a file."""
        for key in dict.fromkeys(keys):
            query = "SELECT worked, artifacts, usage, paid_by FROM attempts WHERE key = ?"
            row = self._one(query, key)
            if row is None:
                continue
            yield AttemptLine(
                attempt=key,
                worked=WorkSchema.model_validate_json(row[0]),
                artifacts=base64.b64encode(row[1]).decode("ascii"),
                usage=UsageShape.model_validate_json(row[2]),
                paid_by=row[3],
            ).model_dump_json()
            yield from self._grade_lines(key)

    def take(self, line: str) -> Callable[[], None]:
        """Read a line of such a file, and return what takes it in.

        Where an attempt is known already, that one stands. Raises ValueError for another line.
        """
        if line.startswith('{"grade":'):
            grade = GradeLine.model_validate_json(line)
            return lambda: self._insert_grade(grade.grade, grade.scorer, grade.score)
        found = AttemptLine.model_validate_json(line)
        artifacts = found.packed_artifacts()
        return lambda: self._insert_attempt(
            found.attempt, found.worked, artifacts, found.usage, found.paid_by
        )

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _grade_lines(self, key: str) -> Iterator[str]:
        query = "SELECT scorer, score FROM grades WHERE key = ? ORDER BY scorer"
        with self._failures_named():
            rows = self._connection.execute(query, (key,)).fetchall()
        for scorer, score in rows:
            shape = ScoreShape.model_validate_json(score)
            yield GradeLine(grade=key, scorer=scorer, score=shape).model_dump_json()

    def _insert_attempt(
        self, key: str, worked: WorkSchema, artifacts: bytes, usage: UsageShape, paid_by: str
    ) -> None:
        with self._failures_named():
            self._connection.execute(
                "INSERT INTO attempts (key, worked, artifacts, usage, paid_by)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                (key, worked.model_dump_json(), artifacts, usage.model_dump_json(), paid_by),
            )

    def _insert_grade(self, key: str, scorer: str, score: ScoreShape) -> None:
        with self._failures_named():
            self._connection.execute(
                "INSERT INTO grades (key, scorer, score) VALUES (?, ?, ?)"
                " ON CONFLICT (key, scorer) DO NOTHING",
                (key, scorer, score.model_dump_json()),
            )

    def _one(self, query: str, *values: str) -> tuple[Any, ...] | None:
        with self._failures_named():
            row: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return row

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InfrastructureError(f"The attempts in {self._path} failed: {error}") from error


def _usage(text: str) -> Usage:
    return UsageShape.model_validate_json(text).value()


# What was paid for is not done again: attempts and grades in the store, and who pays for them.

#: Artifacts larger than this are compressed beside the event loop.
_LARGE = 200_000


@dataclass(frozen=True, slots=True)
class AttemptCache:
    """The attempts of one ``scope``.

    ``facts`` are the JSON facts that determine attempts besides task, skill and number. What this
    very scope paid for (in a process that died) is charged to ``meter`` once more, and so is what
    another machine obtained and nobody has accounted for. ``used`` hears the key of every attempt.
    """

    store: AttemptStore
    facts: Mapping[str, object]
    scope: str
    meter: Meter
    used: Callable[[str], object] = lambda _: None
    accounted: set[str] = field(default_factory=set)

    def key(self, order: AttemptRequest, limits: Mapping[str, object]) -> str:
        """SHA-256 in hex over everything that determines the attempt."""
        return sha256_of(
            {
                **self.facts,
                "skill": as_read(order.skill),
                "task": task_sha256(order.task),
                "attempt": order.attempt,
                "limits": limits,
            }
        )

    def holds(self, key: str) -> bool:
        """Whether the attempt with this key was made before; nobody is charged for the question."""
        return self.store.get(key) is not None

    def find(self, key: str, stage: str) -> WorkResult | None:
        """The attempt with this key, if it was made before."""
        known = self.store.get(key)
        if known is None:
            return None
        self.used(key)
        self._account(key, known.paid_by, known.usage, stage)
        return known.worked

    async def keep(self, key: str, worked: WorkResult, usage: Usage) -> None:
        """Keep an attempt for which ``usage`` was charged."""
        artifacts = worked.attempt.artifacts
        content = await asyncio.to_thread(packed, artifacts) if len(artifacts) > _LARGE else None
        self.store.put(key, worked, usage=usage, paid_by=self.scope, artifacts=content)
        self.accounted.add(key)
        self.used(key)

    def find_grade(self, key: str, scorer: str) -> Score | None:
        """The grade of an attempt by the scorer with these facts, if it was given before."""
        return self.store.grade(key, scorer)

    def keep_grade(self, key: str, scorer: str, score: Score) -> None:
        """Keep a grade; it must have cost nothing."""
        self.store.put_grade(key, scorer, score)

    def _account(self, key: str, paid_by: str, usage: Usage, stage: str) -> None:
        ours = paid_by == self.scope or (paid_by == UNCLAIMED and self.store.claim(key, self.scope))
        if usage == Usage():
            return
        if ours and key not in self.accounted:
            self.accounted.add(key)
            self.meter.charge(Account(Role.TARGET, stage), usage)
        else:
            self.meter.reuse()


def sha256_of(facts: Mapping[str, object]) -> str:
    """SHA-256 in hex over JSON facts."""
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
