import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import BadRequestError, Call, read_call
from skillopt_ci.messages import Message


def _body(**fields: object) -> bytes:
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def test_a_request_is_read() -> None:
    assert read_call(_body(max_tokens=7)) == Call("m", (Message("user", "hi"),), 7)


def test_content_parts_are_joined_and_developers_are_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    call = read_call(_body(messages=[{"role": "developer", "content": parts}]))
    assert call.messages == (Message("system", "ab"),)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"messages": 3}', _body(stream=True), _body(messages=[{"role": "bot"}])],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        read_call(body)


@given(st.binary())
def test_nothing_else_is_raised(body: bytes) -> None:
    with pytest.raises(BadRequestError):
        read_call(body)
