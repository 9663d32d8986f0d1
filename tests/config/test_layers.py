from pathlib import Path

import pytest

from skillopt_ci.config.loading import load, read_layers, run_names
from skillopt_ci.config.yaml import plain
from skillopt_ci.errors import ConfigError


def test_bases_come_first_and_are_found_beside_the_file_that_names_them(write):
    write("a: 1", "shared/root.yaml")
    write("_base_: root.yaml\nb: 2", "shared/team.yaml")
    main = write("_base_: shared/team.yaml\nc: 3")
    assert [plain(layer) for layer in read_layers(main)] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_circle_is_named_in_full(write):
    main = write("_base_: b.yaml", "a.yaml")
    write("\n_base_: ./a.yaml", "b.yaml")
    with pytest.raises(ConfigError, match=r"b\.yaml:2: .*a\.yaml → .*b\.yaml → .*a\.yaml"):
        read_layers(main)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("_base_: skillopt.yaml", "circle"),
        ("run: a\n_base_: [x.yaml, y.yaml]", r"yaml:2: _base_: expected one file, found a list"),
        ("run: a\n_base_: nowhere.yaml", r"skillopt\.yaml:2: .*nowhere\.yaml cannot be read"),
        *((f"_base_: {base}", "expected the name of one file") for base in ("", "4", "{}", "''")),
        *((text, "expected a mapping of sections") for text in ("- a", "word", "4")),
    ],
)
def test_what_cannot_be_built_on_is_refused(write, text, said):
    with pytest.raises(ConfigError, match=said):
        read_layers(write(text))


@pytest.mark.parametrize(
    ("name", "said"),
    [("none.yaml", r"none\.yaml: cannot be read: No such"), (".", "Is a directory")],
)
def test_a_file_that_cannot_be_opened_is_named(tmp_path, name, said):
    with pytest.raises(ConfigError, match=said):
        read_layers(tmp_path / name)


def test_other_encodings_are_refused(tmp_path):
    file = tmp_path / "latin.yaml"
    file.write_bytes("run: caf\xe9".encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 text: save the file"):
        read_layers(file)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfrun: a")
    assert plain(read_layers(file)[0]) == {"run": "a"}


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


@pytest.fixture
def two(file: Path) -> Path:
    """A file of two runs."""
    file.write_text(TWO)
    return file


def test_a_run_is_laid_over_what_stands_around_the_list(two):
    invoices, letters = (load(two, run=name).config for name in run_names(two))
    train = invoices.train
    assert (invoices.run, train.num_epochs, train.batch_size) == ("invoices", 2, 8)
    assert (letters.skill, letters.train.num_epochs) == ("skills/letters/SKILL.md", 4)


def test_overrides_win_over_the_chosen_run(two):
    assert load(two, ["train.num_epochs=7"], run="invoices").config.train.num_epochs == 7


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, r"which run\? Name one with --run: invoices, letters"),
        ("leters", "did you mean 'letters'"),
        ("zzz", "its runs are invoices, letters"),
    ],
)
def test_a_run_that_is_not_named_is_asked_for(two, name, said):
    with pytest.raises(ConfigError, match=said):
        load(two, run=name)


def test_the_only_run_needs_no_name(file):
    file.write_text(f"{COMMON}\nruns: [{{run: one, skill: s.md}}]\n")
    assert load(file).config.run == "one"


@pytest.mark.parametrize("run", [None, "plain"])
def test_a_file_of_one_run_may_be_named_too(file, run):
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
def test_a_bad_list_is_told_with_its_place(file, runs, said):
    file.write_text(f"{COMMON}\nruns: {runs}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load(file, run="a")
    assert caught.value.line == 7


def test_a_problem_of_a_run_points_at_its_own_line(file):
    file.write_text(TWO.replace("num_epochs: 2", "num_epoch: 2"))
    with pytest.raises(ConfigError, match="num_epochs") as caught:
        load(file, run="invoices")
    assert caught.value.line == 10
