from pathlib import Path

import pytest

from skillopt_ci.config.config import GeneratedTasks, Train
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.task import Splits

GOOD = """
def make(split, seed, count):
    return [{"prompt": f"{split} {seed} {n}", "references": str(n)} for n in range(count)]
"""
TRAIN = Train(train_size=6, batch_size=3)


@pytest.fixture
def load(tmp_path: Path):
    def load(code: str, train: Train = TRAIN, **more: object) -> Splits:
        (tmp_path / "gen.py").write_text(code, encoding="utf-8")
        given = {"generator": "gen.py:make", "selection": 2, "test": 1, "seed": 7}
        return load_splits(GeneratedTasks.model_validate(given | more), tmp_path, train)

    return load


def test_every_training_batch_has_a_seed_of_its_own(load) -> None:
    prompts = [task.messages[0].content for task in load(GOOD).train]
    assert prompts == [f"train {seed} {n}" for seed in (8, 9) for n in range(3)]


def test_selection_and_test_are_made_once_with_the_fixed_seed(load) -> None:
    splits = load(GOOD)
    held_out = (*splits.selection, *splits.test)
    prompts = [task.messages[0].content for task in held_out]
    assert prompts == ["selection 7 0", "selection 7 1", "test 7 0"]


def test_tasks_without_an_id_are_named_by_split_and_seed(load) -> None:
    splits = load(GOOD)
    assert splits.train[0].id == "train-8-1"
    assert splits.test[0].id == "test-7-1"


def test_a_test_split_may_be_left_out(load) -> None:
    assert load(GOOD, test=0).test == ()


def test_a_training_task_that_is_asked_in_selection_is_refused(load) -> None:
    code = GOOD.replace('f"{split} {seed} {n}"', 'f"{seed % 7} {n}"')
    with pytest.raises(
        TaskFileError, match=r"'selection-7-1' of the selection split asks the same"
    ):
        load(code.replace("% 7", "% 1"))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return None", r"gen\.py:make\('selection', 7, 2\) returned None, expected a list of 2"),
        ("return []", "returned 0 of them, expected a list of 2 tasks"),
        ("raise ValueError('no luck')", r"raised ValueError: no luck \(.*gen\.py:2\)"),
        ("return ['x'] * count", "task 1: expected a dictionary"),
        ("return [{'prompt': ' '}] * count", r"make\('selection', 7, 2\), task 1: .*blank"),
    ],
)
def test_anything_but_tasks_is_refused_with_the_call(load, body: str, told: str) -> None:
    with pytest.raises(TaskFileError, match=told):
        load(f"def make(split, seed, count):\n    {body}\n")


def test_a_function_that_draws_without_the_seed_is_found_out(load) -> None:
    code = GOOD.replace("def make", "import itertools\nn = itertools.count()\ndef make")
    with pytest.raises(TaskFileError, match="different tasks when it was called twice"):
        load(code.replace("{seed}", "{seed} {next(globals()['n'])}"))


def test_an_absent_function_is_named(load) -> None:
    with pytest.raises(UsageError, match="no function 'make'; did you mean 'mace'"):
        load("def mace(split, seed, count):\n    return []\n")
