import hashlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from zlib import compress as packed

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Event
from skillopt_ci.rollout.store import AttemptStore, StoredAttempt, unpacked
from skillopt_ci.rollout.types import Attempt, Limit
from skillopt_ci.scorers.base import Score

KEY, SCORER = "a" * 64, "b" * 64
USED = Usage(calls=3, prompt_tokens=10, completion_tokens=4, cost_usd=0.5)
LEFT = b"\0tar\xff" * 100
WORKED = Attempt(
    messages=(
        Message("system", "Work."),
        Message("user", "Look.", images=(Image("image/png", "AAAA"),)),
        Message("assistant", "", tool_calls=(ToolCall("1", "shell", '{"command": "ls"}'),)),
        Message("tool", "a.txt", tool_call_id="1"),
    ),
    response="a.txt",
    n_turns=2,
    trace="plan: look",
    limit=Limit.TOKENS,
    artifacts=LEFT,
    usage=USED,
    progress=(Score(0.0, 0.5, "half", "x"),),
)


def test_an_attempt_survives_the_process(tmp_path):
    file = tmp_path / "folder/attempts.sqlite"
    with closing(AttemptStore(file)) as store:
        store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="step 1")
    with closing(AttemptStore(file)) as store:
        assert store.get(KEY) == StoredAttempt(WORKED, USED, "step 1")


def test_the_first_one_stands(store):
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="one")
    store.put(KEY, replace(WORKED, reason="other"), b"", usage=Usage(), paid_by="two")
    assert store.get(KEY) == StoredAttempt(WORKED, USED, "one")


def test_unclaimed_attempts_can_be_claimed_once(store):
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="")
    assert store.is_paid_by("step 1", KEY, "")
    assert not store.is_paid_by("step 2", KEY, "")
    assert store.get(KEY).paid_by == "step 1"


def test_attempts_travel_in_lines_with_their_grades(store, tmp_path):
    score = Score(1.0, 1.0, "right", "a")
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="")
    store.put_grade(KEY, SCORER, score)
    lines = list(store.lines([KEY, KEY, "f" * 64]))
    assert len(lines) == 2
    with closing(AttemptStore(tmp_path / "other.sqlite")) as other:
        for line in lines:
            other.take(line)()
        assert other.get(KEY) == store.get(KEY)
        assert other.grade(KEY, SCORER) == store.grade(KEY, SCORER) == score
        assert other.grade(KEY, "c" * 64) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"hard":1.0', '"hard":7.0'),
        ('"attempt":"a', '"attempt":"?'),
        ('"artifacts":"', '"artifacts":"!!'),
        ('"artifacts":"', '"artifacts":"QUJD'),
        ('"ending":"done"', '"ending":"won"'),
        ('"paid_by":""', '"paid_by":"","more":1'),
    ],
)
def test_a_line_that_was_tampered_with_is_refused(store, old, new):
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="")
    store.put_grade(KEY, SCORER, Score(1.0, 1.0, "right", "a"))
    line = next(line for line in store.lines([KEY]) if old in line)
    with pytest.raises(ValueError):
        store.take(line.replace(old, new, 1))


@pytest.mark.parametrize("damaged", ["'{}'", "CAST(x'ff' AS TEXT)"])
def test_a_damaged_attempt_or_grade_is_made_again(store, tmp_path, damaged):
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="one")
    store.put_grade(KEY, SCORER, Score(0.0, 0.0, "", ""))
    with closing(sqlite3.connect(tmp_path / "attempts.sqlite")) as other:
        other.execute(f"UPDATE attempts SET worked = {damaged}")
        other.execute(f"UPDATE grades SET score = {damaged}")
        other.commit()
    assert (store.grade(KEY, SCORER), store.get(KEY)) == (None, None)
    store.put(KEY, WORKED, packed(LEFT), usage=USED, paid_by="two")
    store.put_grade(KEY, SCORER, Score(1.0, 1.0, "", ""))
    assert (store.grade(KEY, SCORER).hard, store.get(KEY).paid_by) == (1.0, "two")


def test_a_damaged_file_is_moved_aside_and_told(tmp_path):
    file, told = tmp_path / "attempts.sqlite", list[Event]()
    file.write_bytes(b"not a database" * 100)
    with closing(AttemptStore(file, told.append)) as store:
        assert store.get(KEY) is None
    assert len(told) == 1
    assert (tmp_path / "attempts.sqlite.aside").exists()


@given(st.text(max_size=50), st.binary(max_size=500))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_said_and_left_is_found_again(store, text, left):
    key = hashlib.sha256(text.encode() + b"|" + left).hexdigest()
    attempt = Attempt((Message("assistant", text),), text, artifacts=left, trace=text)
    store.put(key, attempt, packed(left), usage=USED, paid_by="")
    assert store.get(key) == StoredAttempt(attempt, USED, "")


def test_half_a_surrogate_pair_is_marked_and_not_fatal(store):
    store.put(KEY, Attempt((), "a\ud800b"), b"", usage=Usage(), paid_by="")
    assert store.get(KEY).attempt.response == "a?b"


def test_artifacts_that_are_damaged_are_no_artifacts():
    content = packed(b"x" * 1000)
    assert unpacked(content) == b"x" * 1000
    for broken in (content[:-5], b"no zlib"):
        with pytest.raises(ValueError, match="artifacts"):
            unpacked(broken)
