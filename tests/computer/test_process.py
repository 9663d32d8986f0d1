from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.computer.process import Capture

CHUNKS = st.lists(st.binary(max_size=40), max_size=30)


def captured(limit: int, chunks: list[bytes]) -> Capture:
    capture = Capture(limit)
    for chunk in chunks:
        capture.feed(chunk)
    return capture


@given(st.integers(0, 200), CHUNKS)
def test_how_it_comes_does_not_matter(limit: int, chunks: list[bytes]) -> None:
    whole, parts = captured(limit, [b"".join(chunks)]), captured(limit, chunks)
    assert parts.content() == whole.content()
    assert parts.text() == whole.text()
    assert parts.total == len(b"".join(chunks))


@given(st.integers(0, 200), CHUNKS)
def test_beginning_and_end_are_kept(limit: int, chunks: list[bytes]) -> None:
    everything, capture = b"".join(chunks), captured(limit, chunks)
    assert capture.truncated == (len(everything) > limit)
    if not capture.truncated:
        assert capture.content() == everything
        assert capture.text() == everything.decode(errors="replace")
    else:
        assert len(capture.content()) == limit
        assert everything.startswith(capture.content()[: (limit + 1) // 2])
        assert everything.endswith(capture.content()[(limit + 1) // 2 :])
        assert f"{len(everything) - limit} bytes left out" in capture.text()


def test_memory_does_not_grow_with_the_stream() -> None:
    capture = captured(100, [b"x" * 65_536] * 50)
    assert len(capture._tail) < 200_000
    assert capture.total == 50 * 65_536
