from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.action.outputs import SUMMARY_LIMIT, append_outputs, append_summary


def numbers() -> Callable[[], str]:
    counter = count()
    return lambda: str(next(counter))


def written(outputs: dict[str, str], file: Path) -> str:
    file.write_text("", encoding="utf-8")
    append_outputs(file, outputs, numbers())
    return file.read_text(encoding="utf-8")


def test_each_output_stands_between_its_own_delimiters(tmp_path: Path) -> None:
    text = written({"a": "1", "b": "2\n3"}, tmp_path / "output")
    assert text == "a<<skillopt_0\n1\nskillopt_0\nb<<skillopt_1\n2\n3\nskillopt_1\n"


def test_empty_outputs_are_left_out(tmp_path: Path) -> None:
    assert written({"a": ""}, tmp_path / "output") == ""


def test_a_value_with_the_delimiter_gets_another(tmp_path: Path) -> None:
    text = written({"a": "skillopt_0\nimproved=true"}, tmp_path / "output")
    assert text.startswith("a<<skillopt_1\n")


@given(value=st.text(alphabet="skilopt_01<=\n"))
def test_no_value_forges_an_output(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    text = written({"a": value}, tmp_path_factory.getbasetemp() / "forged-output")
    if value:
        delimiter = text.partition("\n")[0].removeprefix("a<<")
        assert text == f"a<<{delimiter}\n{value}\n{delimiter}\n"
        assert delimiter not in value


def test_a_summary_is_added_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    append_summary(file, "# One")
    append_summary(file, "# Two\n")
    assert file.read_text(encoding="utf-8") == "# One\n# Two\n"


def test_a_long_summary_is_cut_at_a_line_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    append_summary(file, "äöü\n" * SUMMARY_LIMIT)
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < SUMMARY_LIMIT
    assert text.endswith("longer than GitHub shows.*\n")
    assert set(text.splitlines()[:-2]) == {"äöü"}


def test_a_full_summary_takes_nothing_more(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    file.write_bytes(b"x" * SUMMARY_LIMIT)
    append_summary(file, "# More")
    assert file.stat().st_size == SUMMARY_LIMIT
