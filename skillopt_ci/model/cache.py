"""Answered calls on disk: one SQLite file that several processes may share."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.errors import InfrastructureError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.cache_file import open_cache_file
from skillopt_ci.model.client import ChatReply, ModelRefusal
from skillopt_ci.model.usage import Usage
from skillopt_ci.progress import Observer, silent

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
        return CachedCall(_outcome(json.loads(row[0]), Usage(**json.loads(row[1]))), row[2])

    def put(self, key: str, outcome: ChatReply | ModelRefusal, *, paid_by: str) -> None:
        """Keep an answer durably; the first answer to a key stands."""
        content: dict[str, object]
        if isinstance(outcome, ModelRefusal):
            content = {"refusal": outcome.message, "hint": outcome.hint}
        else:
            content = {
                "text": outcome.text,
                "finish_reason": outcome.finish_reason,
                "model": outcome.model,
                "trace": outcome.trace,
                "tool_calls": [asdict(call) for call in outcome.tool_calls],
            }
        row = (key, json.dumps(content), json.dumps(asdict(outcome.usage)), paid_by)
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


def _outcome(content: dict[str, Any], usage: Usage) -> ChatReply | ModelRefusal:
    if "refusal" in content:
        return ModelRefusal(content["refusal"], hint=content["hint"], usage=usage)
    calls = tuple(ToolCall(**call) for call in content.pop("tool_calls", ()))
    return ChatReply(usage=usage, tool_calls=calls, **content)
