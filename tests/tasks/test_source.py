from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.files import numbered_lines, read_source

Write = Callable[[str, str], Path]


def test_byte_order_mark_is_no_content(tmp_path: Path):
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf{}")
    assert read_source(tmp_path / "t").text == "{}"


def test_bad_byte_is_named_with_its_line(tmp_path: Path):
    (tmp_path / "t").write_bytes("ä\nb\n".encode() + b"c\xff")
    with pytest.raises(TaskFileError, match=r"t:3: byte 0xff is not UTF-8"):
        read_source(tmp_path / "t")


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(TaskFileError, match=r"nope: cannot be read: No such file"):
        read_source(tmp_path / "nope")


def test_positions_have_lines(write: Write):
    source = read_source(write("t", "a\nbc\n\nd"))
    assert [source.line_at(position) for position in range(7)] == [1, 1, 2, 2, 2, 3, 4]


def test_only_line_feeds_end_lines(write: Write):
    source = read_source(write("t", "a\u2028b\r\n \nc\x0cd"))
    assert list(numbered_lines(source)) == [(1, "a\u2028b"), (3, "c\x0cd")]
