import stat
from collections.abc import Callable
from pathlib import Path

from skillopt_ci.errors import ExitCode

KEPT = "skillopt/quickstart:.skillopt/quickstart/best_skill.md"


def test_the_best_skill_is_printed_to_the_last_byte(
    cli, done: Path, git: Callable[..., str]
) -> None:
    result = cli(done, "best")
    assert result.code == ExitCode.DONE
    assert result.out.removesuffix("\n") == git(done, "show", KEPT)
    assert result.out.endswith("\n")


def test_it_is_written_to_a_file_that_keeps_its_mode(cli, done: Path, tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o640)
    result = cli(done, "best", "--output", file)
    assert (result.code, result.out) == (ExitCode.DONE, "")
    assert file.read_text(encoding="utf-8") == cli(done, "best").out
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_place_that_cannot_be_written_is_named(cli, done: Path, tmp_path: Path) -> None:
    result = cli(done, "best", "--output", tmp_path / "absent" / "SKILL.md")
    assert (result.code, "cannot be written" in result.err) == (ExitCode.USAGE, True)


def test_programs_get_it_with_its_score(cli, done: Path) -> None:
    found = cli(done, "best", "--json").json
    assert found["text"] == cli(done, "best").out
    assert (found["run"], found["tasks"], found["simulated"]) == ("quickstart", 16, True)


def test_a_run_that_has_not_started_has_none(cli, fresh: Path) -> None:
    assert cli(fresh, "best").code == ExitCode.USAGE
