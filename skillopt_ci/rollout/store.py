"""Store attempts, artifacts and grades in one SQLite file beside the call cache."""

import asyncio
import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field, TypeAdapter

from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import USAGE, CacheFile, Line, sha256_of
from skillopt_ci.model.types import Account, Role, Usage
from skillopt_ci.progress import silent
from skillopt_ci.rollout.types import Attempt, AttemptRequest
from skillopt_ci.scorers.base import Score
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256

#: Larger artifacts are invalid: this exceeds what an agent may leave behind.
_MOST_UNPACKED_BYTES = 200_000_000

_Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class AttemptLine(Line, strict=False):
    attempt: _Key
    paid_by: Annotated[str, Field(max_length=1_000)]
    usage: Usage
    worked: Attempt
    artifacts: Annotated[str, Field(max_length=2 * _MOST_UNPACKED_BYTES)] = ""


class GradeLine(Line, strict=False):
    grade: _Key
    scorer: _Key
    score: Score


_ATTEMPT, _SCORE = TypeAdapter(Attempt), TypeAdapter(Score)


def _json(adapter: TypeAdapter[Any], value: object) -> str:
    text = json.dumps(adapter.dump_python(value), ensure_ascii=False)
    # a lone surrogate cannot be written as UTF-8 and is replaced
    return adapter.dump_json(adapter.validate_json(text.encode("utf-8", "replace"))).decode()


def unpacked(content: bytes) -> bytes:
    """Undo :func:`zlib.compress`; raises ValueError if the content is damaged or too large."""
    decompressor = zlib.decompressobj()
    try:
        artifacts = decompressor.decompress(content, _MOST_UNPACKED_BYTES)
    except zlib.error as error:
        raise ValueError(f"the artifacts are damaged: {error}") from error
    if content and not decompressor.eof:
        raise ValueError("the artifacts are cut off or too large")
    return artifacts


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """A stored attempt; ``usage`` was charged to the scope ``paid_by``."""

    attempt: Attempt
    usage: Usage
    paid_by: str


class AttemptStore(CacheFile):
    _name = "The attempts in"
    _paid_table = "attempts"
    _tables = """
CREATE TABLE IF NOT EXISTS attempts (
    key TEXT PRIMARY KEY,
    worked TEXT NOT NULL,
    artifacts BLOB NOT NULL,
    usage TEXT NOT NULL,
    paid_by TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
CREATE INDEX IF NOT EXISTS attempts_paid_by ON attempts (paid_by);
CREATE TABLE IF NOT EXISTS grades (
    key TEXT NOT NULL,
    scorer TEXT NOT NULL,
    score TEXT NOT NULL,
    PRIMARY KEY (key, scorer)
);
"""

    def get(self, key: str) -> StoredAttempt | None:
        for worked, artifacts, usage, paid_by in self._attempt_rows(key):
            try:
                attempt = replace(_ATTEMPT.validate_json(worked), artifacts=unpacked(artifacts))
                return StoredAttempt(attempt, USAGE.validate_json(usage), paid_by)
            except ValueError:
                # from another version: drop it, so that it is made again and stored in today's form
                self._execute("DELETE FROM attempts WHERE key = ?", key)
        return None

    def put(
        self, key: str, attempt: Attempt, artifacts: bytes, *, usage: Usage, paid_by: str
    ) -> None:
        self._execute(
            "INSERT INTO attempts (key, worked, artifacts, usage, paid_by)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
            *(key, _json(_ATTEMPT, attempt), artifacts, _json(USAGE, usage), paid_by),
        )

    def set_aside(self, key: str) -> None:
        """Keep what an attempt cost, but not under its key, so that it is made again."""
        self._execute("UPDATE attempts SET key = ? WHERE key = ?", f"failed {uuid4()}", key)

    def grade(self, key: str, scorer: str) -> Score | None:
        query = "SELECT CAST(score AS BLOB) FROM grades WHERE key = ? AND scorer = ?"
        for (score,) in self._execute(query, key, scorer).fetchall():
            try:
                return _SCORE.validate_json(score)
            except ValueError:  # damaged: as above
                self._execute("DELETE FROM grades WHERE key = ? AND scorer = ?", key, scorer)
        return None

    def put_grade(self, key: str, scorer: str, score: Score) -> None:
        """Store a grade, which must have cost nothing; an existing one is kept."""
        self._execute(
            "INSERT INTO grades (key, scorer, score) VALUES (?, ?, ?)"
            " ON CONFLICT (key, scorer) DO NOTHING",
            *(key, scorer, _json(_SCORE, score)),
        )

    def lines(self, keys: Iterable[str]) -> Iterator[str]:
        for key in dict.fromkeys(keys):
            for worked, artifacts, usage, paid_by in self._attempt_rows(key):
                yield AttemptLine(
                    attempt=key,
                    worked=_ATTEMPT.validate_json(worked),
                    artifacts=base64.b64encode(artifacts).decode("ascii"),
                    usage=USAGE.validate_json(usage),
                    paid_by=paid_by,
                ).model_dump_json()
                query = "SELECT scorer FROM grades WHERE key = ? ORDER BY scorer"
                for (scorer,) in self._execute(query, key).fetchall():
                    if (score := self.grade(key, scorer)) is not None:
                        yield GradeLine(grade=key, scorer=scorer, score=score).model_dump_json()

    def take(self, line: str) -> Callable[[], None]:
        """Return a function that stores a line of :meth:`lines`; ValueError if it is invalid."""
        if line.startswith('{"grade":'):
            grade = GradeLine.model_validate_json(line)
            return lambda: self.put_grade(grade.grade, grade.scorer, grade.score)
        found = AttemptLine.model_validate_json(line)
        artifacts = base64.b64decode(found.artifacts, validate=True)
        unpacked(artifacts)
        return lambda: self.put(
            found.attempt, found.worked, artifacts, usage=found.usage, paid_by=found.paid_by
        )

    def _attempt_rows(self, key: str) -> list[Any]:
        query = "SELECT CAST(worked AS BLOB), artifacts, usage, paid_by FROM attempts WHERE key = ?"
        return self._execute(query, key).fetchall()


@dataclass(frozen=True, slots=True)
class AttemptCache:
    """Attempts of one ``scope``: each is paid for once and counted by ``meter``."""

    store: AttemptStore
    facts: Mapping[str, object]
    scope: str
    meter: Meter
    used: Callable[[str], object] = silent
    accounted: set[str] = field(default_factory=set)

    def key(self, request: AttemptRequest, limits: Mapping[str, object]) -> str:
        return sha256_of(
            {
                **self.facts,
                "skill": as_read(request.skill),
                "task": task_sha256(request.task),
                "attempt": request.attempt,
                "limits": limits,
            }
        )

    def find(self, key: str, stage: str) -> Attempt | None:
        if (known := self.store.get(key)) is None:
            return None
        self.used(key)
        mine = self.store.is_paid_by(self.scope, key, known.paid_by)
        if mine and key not in self.accounted and known.usage != Usage():
            self.accounted.add(key)
            self.meter.book(Account(Role.TARGET, stage), known.usage)
        return known.attempt

    async def keep(self, key: str, attempt: Attempt, usage: Usage) -> None:
        artifacts = attempt.artifacts
        content = await asyncio.to_thread(zlib.compress, artifacts, 6) if artifacts else b""
        self.store.put(key, attempt, content, usage=usage, paid_by=self.scope)
        self.accounted.add(key)
