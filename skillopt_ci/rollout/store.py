"""Attempts on disk, with their artifacts and grades: one SQLite file beside the call cache."""

import base64
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.errors import InfrastructureError
from skillopt_ci.model.cache import UNCLAIMED, open_cache_file
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Observer, silent
from skillopt_ci.rollout.kept_shape import (
    AttemptLine,
    GradeLine,
    ScoreShape,
    UsageShape,
    WorkedShape,
    packed,
    unpacked,
)
from skillopt_ci.rollout.work import Worked
from skillopt_ci.scorers.base import Score

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

    worked: Worked
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
            worked = WorkedShape.model_validate_json(row[0]).value(unpacked(row[1]))
        except ValueError:
            # of another version: done again, and then kept in today's form
            with self._failures_named():
                self._connection.execute("DELETE FROM attempts WHERE key = ?", (key,))
            return None
        return StoredAttempt(worked, _usage(row[2]), row[3])

    def put(
        self,
        key: str,
        worked: Worked,
        *,
        usage: Usage,
        paid_by: str,
        artifacts: bytes | None = None,
    ) -> None:
        """Keep an attempt durably; ``artifacts`` are its own, compressed, where that was done."""
        content = packed(worked.attempt.artifacts) if artifacts is None else artifacts
        self._insert_attempt(key, WorkedShape.of(worked), content, UsageShape.of(usage), paid_by)

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
                worked=WorkedShape.model_validate_json(row[0]),
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
        self, key: str, worked: WorkedShape, artifacts: bytes, usage: UsageShape, paid_by: str
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
