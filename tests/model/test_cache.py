import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from skillopt_ci.errors import InfrastructureError, UsageError
from skillopt_ci.model.cache import CachedCall, CallCache
from skillopt_ci.model.types import ChatReply, Usage
from skillopt_ci.rollout.store import AttemptStore

REPLY = ChatReply("é 🎓 \ud800", "stop", "m", Usage(calls=1, prompt_tokens=3, cost_usd=None))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "calls.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[CallCache]:
    with closing(CallCache(path)) as opened:
        yield opened


def test_the_first_answer_stands(cache, reply):
    cache.put("key", reply("first"), paid_by="a")
    cache.put("key", reply("second"), paid_by="b")
    assert cache.get("key") == CachedCall(reply("first"), "a")


def test_an_answer_comes_back_as_it_was_when_the_file_is_opened_again(path):
    with closing(CallCache(path)) as first:
        first.put("key", REPLY, paid_by="step 1")
    with closing(CallCache(path)) as second:
        assert second.get("key") == CachedCall(REPLY, "step 1")
        assert second.get("other") is None


@pytest.mark.parametrize(
    "damaged",
    [
        *("'{'", "'[1]'", "'\"text\"'", "'{\"new\": 1}'", "CAST(x'ff' AS TEXT)"),
        *('\'{"refusal": 5, "hint": ""}\'', "'{\"calls\": -1}'", f"'{'[' * 100_000}'"),
    ],
)
@pytest.mark.parametrize("column", ["reply", "usage"])
def test_a_damaged_answer_is_asked_for_again(path, cache, column, damaged):
    cache.put("other", REPLY, paid_by="a")
    cache.put("key", REPLY, paid_by="a")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"UPDATE calls SET {column} = {damaged} WHERE key = 'key'")
    assert cache.paid("a").calls == 1 + (column == "reply")
    assert (cache.get("key"), cache.paid("a")) == (None, REPLY.usage)


@pytest.mark.parametrize(("kind", "table"), [(CallCache, "calls"), (AttemptStore, "attempts")])
def test_payers_are_found_by_an_index_in_old_files_too(path, kind, table):
    for _ in range(2):
        kind(path).close()
        with closing(sqlite3.connect(path)) as database:
            query = f"EXPLAIN QUERY PLAN SELECT usage FROM {table} WHERE paid_by = 'a'"
            assert f"USING INDEX {table}_paid_by" in database.execute(query).fetchone()[-1]
            database.execute(f"DROP INDEX {table}_paid_by")


def damage(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def truncate(path: Path) -> None:
    with closing(CallCache(path)) as cache:
        for number in range(200):
            cache.put(str(number), REPLY, paid_by="a" * 100)
    path.write_bytes(path.read_bytes()[:9000])


def renumber(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("spoil", [damage, truncate, renumber])
def test_an_unusable_file_is_moved_aside_with_a_warning(path, spoil):
    path.parent.mkdir()
    spoil(path)
    events: Any = []
    with closing(CallCache(path, events.append)) as cache:
        cache.put("key", REPLY, paid_by="a")
    assert path.with_name("calls.sqlite.aside").exists()
    assert events[0].level == "warning"
    assert str(path) in events[0].text


def test_a_path_that_can_be_no_file_is_the_user_s_mistake(tmp_path):
    with pytest.raises(UsageError, match=r"cannot be opened.*\n.*cache\.path"):
        CallCache(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is a pipe"):
        CallCache(tmp_path / "pipe")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be opened"):
        CallCache(tmp_path / "file" / "calls.sqlite")


@pytest.mark.parametrize("held", ["the file", "its lock"])
def test_a_lock_that_is_never_released_ends_the_wait(path, cache, held):
    with closing(sqlite3.connect(path)) as other, FileLock(f"{path}.lock") as lock:
        if held == "the file":
            other.execute("BEGIN IMMEDIATE")
            lock.release()
        with pytest.raises(InfrastructureError, match=r"calls\.sqlite\.lock may be suspended"):
            CallCache(path, patience=0)


def test_a_file_that_fails_later_is_the_world_s_failure(path, cache):
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE calls")
    with pytest.raises(InfrastructureError, match=r"calls\.sqlite failed: no such table"):
        cache.put("key", REPLY, paid_by="a")


WRITER = """
import sys
from pathlib import Path
from skillopt_ci.model.cache import CallCache
from skillopt_ci.model.types import ChatReply, Usage
print("ready", flush=True)
sys.stdin.readline()
for file in range(20):
    cache = CallCache(Path(sys.argv[1], f"{file}.sqlite"))
    for key in ("both", sys.argv[2]):
        cache.put(key, ChatReply(key, "stop", "m", Usage(calls=1)), paid_by=sys.argv[2])
    cache.close()
"""


@pytest.mark.integration
def test_processes_share_files_even_if_they_find_them_damaged(tmp_path):
    files = [tmp_path / f"{file}.sqlite" for file in range(20)]
    for file in files:
        damage(file)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers: list[Any] = [subprocess.Popen([*command, name], **pipes) for name in "abc"]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [(writer.communicate(), writer.returncode)[1] for writer in writers] == [0, 0, 0]
    assert [keys(file) for file in files] == [{"a", "b", "c", "both"}] * 20


def keys(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {key for (key,) in database.execute("SELECT key FROM calls")}
