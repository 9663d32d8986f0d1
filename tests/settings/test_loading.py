import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.errors import ConfigError

Load = Callable[..., Loaded]
Write = Callable[..., Path]


def test_a_minimal_file_has_all_defaults(load_with: Load) -> None:
    config = load_with().config
    assert (config.run, config.train.batch_size, config.git.remote) == ("triage", 40, "origin")


def test_the_file_wins_over_its_base_and_overrides_over_both(load_with: Load, write: Write) -> None:
    write("train: {batch_size: 1, seed: 1, num_epochs: 1}", "base.yaml")
    text = "_base_: base.yaml\ntrain: {seed: 2, num_epochs: 2}\n"
    train = load_with(text, "train.num_epochs=3").config.train
    assert (train.batch_size, train.seed, train.num_epochs) == (1, 2, 3)


def test_the_last_override_wins(load_with: Load) -> None:
    assert load_with("", "train.seed=1", "train.seed=2").config.train.seed == 2


def test_an_override_can_replace_the_way_tasks_are_given(load_with: Load) -> None:
    assert load_with("", "tasks={split_dir: data}").config.tasks.model_dump() == {
        "split_dir": "data",
        "limit": 0,
    }


def test_an_override_reaches_into_a_role(load_with: Load) -> None:
    role = load_with("", "model.target.model=other").config.model.target
    assert (role.provider, role.model) == ("simulated", "other")


def test_root_is_the_folder_of_the_file_that_was_asked_for(write: Write, tmp_path: Path) -> None:
    write("run: a\nskill: s\ntasks: {path: t}\n", "shared/base.yaml")
    roles = "model: {target: &r {provider: simulated, model: m}, optimizer: *r}"
    main = write(f"_base_: ../shared/base.yaml\n{roles}", "runs/main.yaml")
    loaded = load(main)
    assert (loaded.root, loaded.file) == (tmp_path / "runs", main)


def test_root_is_absolute_for_a_relative_file(
    load_with: Load, write: Write, tmp_path: Path
) -> None:
    load_with()
    relative = Path(os.path.relpath(tmp_path / "skillopt.yaml"))
    assert load(relative).root.is_absolute()


def test_all_problems_are_told_at_once_in_the_order_of_the_file(complaint: Load) -> None:
    text = "run: a b\nskill: 3\ntasks: {path: t}\nmodel: {}\ntrain:\n  sed: 1\n  batch_size: 0\n"
    lines = str(complaint(text, "git.remot=x")).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "skillopt.yaml:1",
        "skillopt.yaml:2",
        "skillopt.yaml:4",
        "skillopt.yaml:4",
        "skillopt.yaml:6",
        "skillopt.yaml:7",
        "-o git.remot",
    ]


def test_an_error_carries_file_and_line(write: Write) -> None:
    file = write("run: a\nskill: s\ntasks: {path: t}\nmodel: 4\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert (caught.value.file, caught.value.line) == (file, 4)


def test_an_error_in_a_base_names_the_base(write: Write) -> None:
    write("train: {seed: x}", "base.yaml")
    with pytest.raises(ConfigError, match=r"base\.yaml:1: train\.seed: expected a whole number"):
        load(write("_base_: base.yaml"))
