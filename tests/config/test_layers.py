from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.layers import read_layers
from skillopt_ci.config.loading import load, run_names
from skillopt_ci.config.yaml import plain
from skillopt_ci.errors import ConfigError

Write = Callable[..., Path]


def test_bases_come_first_and_are_found_beside_the_file_that_names_them(write: Write) -> None:
    write("a: 1", "shared/root.yaml")
    write("_base_: root.yaml\nb: 2", "shared/team.yaml")
    main = write("_base_: shared/team.yaml\nc: 3")
    assert [plain(layer) for layer in read_layers(main)] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_circle_is_named_in_full(write: Write) -> None:
    main = write("_base_: b.yaml", "a.yaml")
    write("\n_base_: ./a.yaml", "b.yaml")
    with pytest.raises(ConfigError, match=r"b\.yaml:2: .*a\.yaml → .*b\.yaml → .*a\.yaml"):
        read_layers(main)


def test_a_file_cannot_be_its_own_base(write: Write) -> None:
    with pytest.raises(ConfigError, match="circle"):
        read_layers(write("_base_: skillopt.yaml"))


def test_a_list_of_bases_is_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"yaml:2: _base_: expected one file, found a list"):
        read_layers(write("run: a\n_base_: [x.yaml, y.yaml]"))


@pytest.mark.parametrize("base", ["", "4", "{}", "''"])
def test_a_base_that_is_not_a_name_is_refused(write: Write, base: str) -> None:
    with pytest.raises(ConfigError, match="expected the name of one file"):
        read_layers(write(f"_base_: {base}"))


def test_a_missing_base_points_at_the_line_that_asks_for_it(write: Write) -> None:
    main = write("run: a\n_base_: nowhere.yaml")
    with pytest.raises(ConfigError, match=r"skillopt\.yaml:2: .*nowhere\.yaml cannot be read"):
        read_layers(main)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        read_layers(tmp_path / "none.yaml")


def test_a_folder_is_not_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_layers(tmp_path)


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes("run: caf\xe9".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"not UTF-8 text \(byte 8\)"):
        read_layers(file)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfrun: a")
    assert plain(read_layers(file)[0]) == {"run": "a"}


@pytest.mark.parametrize("text", ["- a", "word", "4"])
def test_a_file_must_hold_a_mapping(write: Write, text: str) -> None:
    with pytest.raises(ConfigError, match="expected a mapping of sections"):
        read_layers(write(text))


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
