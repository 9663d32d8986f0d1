"""Opening the SQLite files of what was paid for, whatever state they are found in."""

import sqlite3
from pathlib import Path

from filelock import FileLock

from skillopt_ci.errors import UsageError
from skillopt_ci.progress import Note, Observer

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
