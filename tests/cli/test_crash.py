from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.cli.main import compose, without_secrets, write_report


def test_the_report_holds_versions_command_and_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    report = compose(caught.value, ["step", "-v"], {})
    assert "command: skillopt-ci step -v" in report
    assert "pydantic 2." in report
    assert report.rstrip().endswith("ZeroDivisionError: division by zero")


@given(st.text(st.characters(categories=["L", "N"]), min_size=9), st.text(), st.text())
def test_values_of_secret_variables_never_survive(secret: str, before: str, after: str) -> None:
    assert secret not in without_secrets(before + secret + after, {"MY_API_KEY": secret})


@pytest.mark.parametrize(
    "text",
    [
        "key sk-proj-abcdefgh12345678 refused",
        "Authorization: Bearer abcdefgh12345678",
        "https://me:abcdefgh12345678@example.org/r.git",
        "ghp_abcdefgh12345678",
    ],
)
def test_keys_are_known_by_their_shape(text: str) -> None:
    assert "abcdefgh12345678" not in without_secrets(text, {})


def test_plain_words_stay() -> None:
    text = "https://example.org/a@b task-12345678 HOME=/home/me"
    assert without_secrets(text, {"HOME": "/home/me", "TOKEN": ""}) == text


def test_the_report_is_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    where = write_report(ValueError("boom"), [], {}, tmp_path)
    (file,) = tmp_path.iterdir()
    assert str(file) in where
    assert "boom" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0


def test_without_a_place_for_a_file_the_report_is_told(tmp_path: Path) -> None:
    where = write_report(ValueError("boom"), [], {}, tmp_path / "missing")
    assert "ValueError: boom" in where


def test_on_a_runner_the_report_is_also_told(tmp_path: Path) -> None:
    told = write_report(ValueError("boom"), [], {"CI": "true"}, tmp_path)
    assert "ValueError: boom" in told
