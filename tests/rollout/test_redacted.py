"""Work is kept and graded without the secrets that an agent came across."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.computer.archive import Member, pack, unpack
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.redaction import HIDDEN, Redactor, redacted_values, unchanged
from skillopt_ci.rollout.attempt import redacted_tar, redacted_work
from skillopt_ci.rollout.types import Attempt

SECRET = "sk-planted-4711-ÄÖ"
REDACT = Redactor([SECRET])
FILES = st.dictionaries(
    st.text("abc", min_size=1, max_size=6).map(lambda name: f"d/{name}x"),
    st.binary(max_size=60),
    max_size=4,
)


def tar(files: dict[str, bytes]) -> bytes:
    return pack(
        [*(Member(name, content) for name, content in files.items()), Member("l", target="d")]
    )


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
    assert clean.response == HIDDEN
    assert clean.messages[0].images == (picture,)
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
    clean = {
        one.name: one.content
        for one in unpack(redacted_tar(tar({**files, "planted": planted}), REDACT))
        if not one.target
    }
    assert clean.pop("planted") == around + b"|" + HIDDEN.encode() + b"|" + around
    assert clean == files


def test_json_is_cleaned_text_by_text():
    value = {f"k {SECRET}": [SECRET, 1, None, {"x": (SECRET, True)}], "n": 0.5}
    hidden = {f"k {HIDDEN}": [HIDDEN, 1, None, {"x": [HIDDEN, True]}], "n": 0.5}
    assert redacted_values(value, REDACT) == hidden
