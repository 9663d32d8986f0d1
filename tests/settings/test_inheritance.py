from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.layers import read_layers
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
