import asyncio
import base64
import json
import os
import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_values import make_task

from skillopt_ci.computer.archive import Member, pack, unpack
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Event
from skillopt_ci.redaction import HIDDEN, Redactor, redacted_values, unchanged
from skillopt_ci.rollout import types
from skillopt_ci.rollout.attempt import redacted_tar, redacted_work
from skillopt_ci.rollout.events import (
    KEPT_BYTES,
    KEPT_FILES,
    AttemptEnded,
    AttemptStarted,
    EventLog,
    TryFailed,
    WorkEnded,
    attempt_traces,
    event_file,
    read_events,
)
from skillopt_ci.rollout.types import Attempt, AttemptRequest, ModelSaid, StepGraded, in_attempt
from skillopt_ci.scorers.base import Score

STARTED = AttemptStarted("agent", "0" * 64)
ENDED = AttemptEnded(types.Status.SCORED, 1.0, 0.5, "right", 2, 0, 3, 40, 0.25)
ASKED = types.Asked((Message("system", "The skill."), Message("user", "Go.")))


def written(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_every_event_says_what_it_belongs_to(tmp_path):
    file = tmp_path / "run/events.jsonl"
    order = AttemptRequest(make_task("a/b:c"), "", "rollout", 3)
    with closing(EventLog(file, "demo")) as log, in_attempt(order):
        assert not file.parent.exists()  # work without attempts leaves no file
        log(STARTED)
        with in_attempt(order, 1):
            log(TryFailed("down"))
    first, second = written(file)
    labels = [first[key] for key in ("run", "stage", "task", "attempt", "retry", "seq")]
    assert labels == ["demo", "rollout", "a/b:c", 3, 0, 0]
    assert (second["retry"], second["seq"], second["type"]) == (1, 1, "try_failed")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", str(first["ts"]))


def test_attempts_at_the_same_time_keep_their_labels(tmp_path):
    file = tmp_path / "events.jsonl"
    log = EventLog(file, "demo")

    async def attempt(name: str) -> None:
        with in_attempt(AttemptRequest(make_task(name), "", "s")):
            for _ in range(5):
                await asyncio.sleep(0)
                log(TryFailed(name))

    async def work() -> None:
        await asyncio.gather(*(attempt(f"t{number}") for number in range(60)))

    with closing(log):
        asyncio.run(work())
    events = written(file)
    assert all(event["task"] == event["reason"] for event in events)
    assert [event["seq"] for event in events] == list(range(300))


def test_every_kind_of_event_can_be_written(tmp_path):
    steps = (
        ASKED,
        ModelSaid(Message("assistant", "x", tool_calls=(ToolCall("1", "shell", "{}"),)), Usage()),
        types.ToolUsed(ToolCall("1", "shell", "{}"), "out \udcff", 0, 0.5),
        types.Nudged("go on"),
        types.Told("plan", "think"),
        StepGraded(Score(0.0, float("nan"), "?", "")),
    )
    events = (STARTED, *steps, WorkEnded("x", "k", True), ENDED)
    with closing(EventLog(tmp_path / "e.jsonl", "demo")) as log:
        for event in events:
            log(event)
    found = list(read_events(tmp_path))
    kinds = ["asked", "model_said", "tool_used", "nudged", "told", "step_graded"]
    kinds = ["attempt_started", *kinds, "work_ended", "attempt_ended"]
    assert [event["type"] for event in found] == kinds
    assert found[6]["score"]["soft"] is None
    assert "NaN" not in (tmp_path / "e.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("secret", ["sk-very-secret", 'with "quotes" and ü', "back\\slash-too"])
def test_secrets_are_left_out_in_every_spelling(tmp_path, secret):
    encoded = base64.b64encode(f"key:{secret}".encode()).decode()
    with closing(EventLog(tmp_path / "e.jsonl", "demo", redact=Redactor([secret]))) as log:
        log(TryFailed(f"the key {secret} is wrong, and so is {encoded}"))
        log(TryFailed(f"cut off: {secret[:12]}"))
    first, second = read_events(tmp_path)
    assert first["reason"].startswith(f"the key {HIDDEN} is wrong, and so is ")
    assert encoded not in first["reason"]
    assert second["reason"] == f"cut off: {HIDDEN}"


def test_the_system_prompt_stands_in_a_file_once(tmp_path):
    with closing(EventLog(tmp_path / "e.jsonl", "demo")) as log:
        log(ASKED)
        log(ASKED)
    assert (tmp_path / "e.jsonl").read_text(encoding="utf-8").count("The skill.") == 1
    said = [event["messages"][0]["content"] for event in read_events(tmp_path)]
    assert said == ["The skill.", "The skill."]


def test_a_torn_last_line_is_passed_over(tmp_path):
    file = tmp_path / "e.jsonl"
    with closing(EventLog(file, "demo")) as log:
        log(STARTED)
        log(ENDED)
    file.write_bytes(file.read_bytes()[:-20] + b'\xff\n{"v": 99}\n[]\n{"v": 1, "hard": "x"}\n')
    assert [event["type"] for event in read_events(tmp_path)] == ["attempt_started"]


def test_a_disk_that_fails_does_not_end_the_work_and_is_told(tmp_path):
    (tmp_path / "file").touch()
    told: list[Event] = []
    with closing(EventLog(tmp_path / "file/e.jsonl", "demo", observe=told.append)) as log:
        for _ in range(100):
            log(STARTED)
    (note,) = told
    assert note.text.endswith(f" is incomplete: {tmp_path}/file/e.jsonl: File exists")


def test_only_the_newest_files_are_kept(tmp_path):
    for number in range(KEPT_FILES + 5):
        (tmp_path / f"{number:04}.jsonl").touch()
    assert event_file(tmp_path, "step 7/../x", datetime(2026, 1, 2, tzinfo=UTC)).parent == tmp_path
    assert len(list(tmp_path.iterdir())) == KEPT_FILES - 1
    assert not (tmp_path / "0005.jsonl").exists()
    for name in ("0050", "0103", "0104"):
        os.truncate(tmp_path / f"{name}.jsonl", KEPT_BYTES)
    event_file(tmp_path, "", datetime(2026, 1, 2, tzinfo=UTC))
    assert [file.name for file in tmp_path.iterdir()] == ["0104.jsonl"]


ONE = AttemptRequest(make_task("a"), "", "s")
TWO = replace(ONE, task=make_task("b"))


# the events of earlier versions do not say which skill they belong to
@pytest.mark.parametrize(
    ("other", "older"), [(TWO, False), (replace(ONE, skill="new"), False), (TWO, True)]
)
def test_events_of_mixed_attempts_make_whole_courses(tmp_path, other, older):
    said = ModelSaid(Message("assistant", "42"), Usage())
    course = [(ONE, STARTED), (other, STARTED), (ONE, said), (ONE, WorkEnded(None)), (ONE, ENDED)]
    killed = replace(other, attempt=1)
    for name, events in (("1", [(killed, STARTED)]), ("2", [*course, (other, ASKED)])):
        with closing(EventLog(tmp_path / f"{name}.jsonl", "demo")) as log:
            for order, event in events:
                with in_attempt(order):
                    log(event)
    found = list(read_events(tmp_path))
    for event in found * older:
        del event["skill"]
    zeroth, first, second = attempt_traces(found)
    assert (zeroth.attempt, zeroth.end) == (1, None)
    assert (first.task, first.response, len(first.events)) == ("a", "42", 4)
    assert first.end is not None
    assert (second.task, second.end, len(second.events)) == (other.task.id, None, 2)


# Work is kept and graded without the secrets that an agent came across.

SECRET = "sk-planted-4711-ÄÖ"
REDACT = Redactor([SECRET])
NAMES = st.text("abc", min_size=1, max_size=6).map(lambda name: f"d/{name}x")
FILES = st.dictionaries(NAMES, st.binary(max_size=60), max_size=4)


def tar(files: dict[str, bytes]) -> bytes:
    return pack([*(Member(name, text) for name, text in files.items()), Member("l", target="d")])


def test_every_text_of_the_work_is_clean():
    call = ToolCall("1", "shell", f'{{"command": "echo {SECRET}"}}')
    picture = Image("image/png", "aGk=")
    said = Message("assistant", f"It is {SECRET}", images=(picture,), tool_calls=(call,))
    attempt = Attempt(
        (said,),
        SECRET,
        trace=f"saw {SECRET}",
        artifacts=tar({"a": SECRET.encode()}),
        ending="agent_error",
        reason=f"died of {SECRET}",
    )
    clean = redacted_work(attempt, REDACT)
    assert SECRET not in repr(clean)
    assert SECRET.encode() not in clean.artifacts
    assert (clean.response, clean.messages[0].images) == (HIDDEN, (picture,))
    assert clean.reason == f"died of {HIDDEN}"


def test_without_secrets_nothing_is_touched():
    worked = Attempt((), SECRET, artifacts=b"no tar at all")
    assert redacted_work(worked, unchanged) is worked
    archive = tar({"a": b"harmless", "b": b"\xff\x00"})
    assert redacted_tar(archive, REDACT) is archive
    assert redacted_tar(b"", REDACT) == b""


@given(FILES, st.binary(max_size=20))
def test_files_lose_the_secret_and_nothing_else(files, around):
    planted = around + b"|" + SECRET.encode() + b"|" + around
    left = unpack(redacted_tar(tar({**files, "planted": planted}), REDACT))
    clean = {one.name: one.content for one in left if not one.target}
    assert clean.pop("planted") == around + b"|" + HIDDEN.encode() + b"|" + around
    assert clean == files


def test_json_is_cleaned_text_by_text():
    value = {f"k {SECRET}": [SECRET, 1, None, {"x": (SECRET, True)}], "n": 0.5}
    hidden = {f"k {HIDDEN}": [HIDDEN, 1, None, {"x": [HIDDEN, True]}], "n": 0.5}
    assert redacted_values(value, REDACT) == hidden
