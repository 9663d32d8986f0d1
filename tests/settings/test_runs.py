"""Several runs in one configuration file."""

from pathlib import Path

import pytest

from skillopt_ci.config.loading import load, run_names
from skillopt_ci.errors import ConfigError

COMMON = """\
tasks: {train: a.jsonl, selection: b.jsonl}
model:
  target: {provider: simulated, model: m}
  optimizer: {provider: simulated, model: m}
train: {batch_size: 8}
"""
TWO = f"""{COMMON}
runs:
  - run: invoices
    skill: skills/invoices/SKILL.md
    train: {{num_epochs: 2}}
  - {{run: letters, skill: skills/letters/SKILL.md}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "skillopt.yaml"


def test_a_run_is_laid_over_what_stands_around_the_list(file: Path) -> None:
    file.write_text(TWO)
    invoices = load(file, run="invoices").config
    letters = load(file, run="letters").config
    assert (invoices.run, invoices.train.num_epochs, invoices.train.batch_size) == (
        "invoices",
        2,
        8,
    )
    assert (letters.skill, letters.train.num_epochs) == ("skills/letters/SKILL.md", 4)


def test_overrides_win_over_the_chosen_run(file: Path) -> None:
    file.write_text(TWO)
    config = load(file, ["train.num_epochs=7"], run="invoices").config
    assert config.train.num_epochs == 7


def test_without_a_name_the_message_lists_the_runs(file: Path) -> None:
    file.write_text(TWO)
    with pytest.raises(ConfigError, match=r"which run\? Name one with --run: invoices, letters"):
        load(file)


@pytest.mark.parametrize(
    ("name", "said"),
    [("leters", "did you mean 'letters'"), ("zzz", "its runs are invoices, letters")],
)
def test_an_unknown_name_gets_the_nearest_one(file: Path, name: str, said: str) -> None:
    file.write_text(TWO)
    with pytest.raises(ConfigError, match=said):
        load(file, run=name)


def test_the_only_run_needs_no_name(file: Path) -> None:
    file.write_text(f"{COMMON}\nruns: [{{run: one, skill: s.md}}]\n")
    assert load(file).config.run == "one"


@pytest.mark.parametrize("run", [None, "plain"])
def test_a_file_of_one_run_may_be_named_too(file: Path, run: str | None) -> None:
    file.write_text(f"run: plain\nskill: s.md\n{COMMON}")
    assert load(file, run=run).config.run == "plain"
    assert run_names(file) == ("plain",)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ("[]", "expected a list of runs"),
        ("{a: b}", "expected a list of runs"),
        ("[{skill: s.md}]", "needs its `run:`"),
        ("[{run: a, skill: s.md}, {run: a, skill: t.md}]", "'a' stands here a second time"),
    ],
)
def test_a_bad_list_is_told_with_its_place(file: Path, runs: str, said: str) -> None:
    file.write_text(f"{COMMON}\nruns: {runs}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load(file, run="a")
    assert caught.value.line == 7


def test_a_problem_of_a_run_points_at_its_own_line(file: Path) -> None:
    file.write_text(TWO.replace("num_epochs: 2", "num_epoch: 2"))
    with pytest.raises(ConfigError, match="num_epochs") as caught:
        load(file, run="invoices")
    assert caught.value.line == 10


def test_names_come_in_the_order_of_the_file(file: Path) -> None:
    file.write_text(TWO)
    assert run_names(file) == ("invoices", "letters")
