import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.sanitize import harmless, harmless_line


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::add-mask::x", "a\n::set-env::x", "b ##[error]x"]
)
def test_no_command_reaches_a_ci_runner(text: str) -> None:
    told = harmless(text)
    assert not any(line.lstrip().startswith("::") for line in told.splitlines())
    assert "##[" not in told


def test_words_stay() -> None:
    assert harmless("a::b # [x]\n  c: d") == "a::b # [x]\n  c: d"


@given(st.text())
def test_a_line_is_one_line_without_control_characters(text: str) -> None:
    told = harmless_line(text)
    assert len(told.splitlines()) <= 1
    assert not any(unicodedata.category(character) == "Cc" for character in told)
