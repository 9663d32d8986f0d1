import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt_ci.config.config import GivenSplits, RatioSplit, SplitDir
from skillopt_ci.errors import TaskFileError
from skillopt_ci.tasks.loading import divide, load_splits, split_counts
from skillopt_ci.tasks.task import Task

GIVEN = GivenSplits(train="train.jsonl", selection="selection.jsonl")


def asks(*ids: str) -> list[dict[str, object]]:
    return [{"id": name, "prompt": f"ask {name}"} for name in ids]


def ids(tasks: tuple[Task, ...]) -> list[str]:
    return [task.id for task in tasks]


def test_given_splits_keep_file_order(tmp_path, write_splits):
    write_splits({"train": asks("b", "a"), "selection": asks("c"), "test": asks("d")})
    spec = GivenSplits(train="train.jsonl", selection="selection.jsonl", test="test.jsonl")
    splits = load_splits(spec, tmp_path)
    parts = [ids(part) for part in (splits.train, splits.selection, splits.test)]
    assert parts == [["b", "a"], ["c"], ["d"]]
    assert load_splits(GIVEN, tmp_path).test == ()  # which may be left out
    assert (splits.train[1].file, splits.train[1].line) == (tmp_path / "train.jsonl", 2)


def test_limit_keeps_the_first_of_each_split(tmp_path, write_splits):
    write_splits({"train": asks("a", "b", "c"), "selection": asks("d", "e")})
    splits = load_splits(GIVEN.model_copy(update={"limit": 2}), tmp_path)
    assert (ids(splits.train), ids(splits.selection)) == (["a", "b"], ["d", "e"])


@pytest.mark.parametrize(
    ("train", "selection", "message"),
    [
        ([], asks("b"), r"train.jsonl: the train split has no tasks"),
        (asks("a"), [], r"selection.jsonl: the selection split has no tasks"),
        (
            asks("a"),
            [{"id": "a", "prompt": "other"}],
            r"selection.jsonl:1: id 'a' is already used at .*train.jsonl:1",
        ),
        ([*asks("a"), {"id": "a", "prompt": "y"}], asks("b"), r"train.jsonl:2: id 'a'"),
        (
            asks("a"),
            [{"id": "z", "prompt": "ASK  A"}],
            r"selection.jsonl:1: task 'z' .* the same as task 'a' of the train",
        ),
    ],
)
def test_load_splits_refuses_empty_or_repeated(tmp_path, write_splits, train, selection, message):
    write_splits({"train": train, "selection": selection})
    with pytest.raises(TaskFileError, match=message):
        load_splits(GIVEN, tmp_path)


def test_same_question_twice_in_one_split_is_allowed(tmp_path, write_splits):
    write_splits({"train": [*asks("a"), {"id": "z", "prompt": "ask a"}], "selection": asks("b")})
    assert len(load_splits(GIVEN, tmp_path).train) == 2


def test_ten_problems_are_shown_and_the_rest_counted(tmp_path, write_splits):
    write_splits({"train": [{"id": str(i)} for i in range(13)], "selection": [{"id": "s"}]})
    with pytest.raises(TaskFileError) as caught:
        load_splits(GIVEN, tmp_path)
    assert caught.value.line == 1
    assert caught.value.message.count("needs `prompt` or `messages`") == 10
    assert caught.value.hint == "… and 4 more problems"


def test_ratio_divides_one_file_as_skillopt_does(tmp_path, write_splits):
    write_splits({"all": asks(*"abcdef")})
    splits = load_splits(RatioSplit(path="all.jsonl", split="1:1:1", seed=42), tmp_path)
    parts = [ids(part) for part in (splits.train, splits.selection, splits.test)]
    assert parts == [["d", "b"], ["c", "e"], ["a", "f"]]


def test_ratio_takes_a_folder_with_one_file_and_refuses_two(tmp_path, write):
    write("data/all.json", json.dumps({"data": asks(*"abcdefghij")}))
    write("data/README.md", "about")
    write("data/._all.json", "hidden")
    splits = load_splits(RatioSplit(path="data"), tmp_path)
    assert [len(part) for part in (splits.train, splits.selection, splits.test)] == [2, 1, 7]
    write("data/b.json", "[]")
    with pytest.raises(TaskFileError, match="exactly one task file, found 2"):
        load_splits(RatioSplit(path="data"), tmp_path)


def test_ratio_that_leaves_a_split_empty_is_refused(tmp_path, write_splits):
    write_splits({"all": asks("a", "b", "c")})
    with pytest.raises(TaskFileError, match="3 tasks, divided 2:1:7: nothing is left for sel"):
        load_splits(RatioSplit(path="all.jsonl"), tmp_path)


def test_split_dir_is_read_as_skillopt_does(tmp_path, write):
    for folder, name in (("train", "a"), ("val", "b"), ("test", "c")):
        item = {"id": name, "question": f"{name}?", "context": "ctx", "answers": [name]}
        write(f"splits/{folder}/1.json", json.dumps([item]))
        write(f"splits/{folder}/2.json", "not read")
        write(f"splits/{folder}/._1.json", "hidden")
    splits = load_splits(SplitDir(split_dir="splits"), tmp_path)
    parts = (splits.train, splits.selection, splits.test)
    assert [ids(part) for part in parts] == [["a"], ["b"], ["c"]]
    assert splits.selection[0].references == ("b",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["train/a.csv"], "has no folder val or selection or valid_seen"),
        (["train/a.txt"], "no .json"),
    ],
)
def test_incomplete_split_dir_is_refused(tmp_path, write, files, message):
    for file in files:
        write(f"splits/{file}", "[]")
    with pytest.raises(TaskFileError, match=message):
        load_splits(SplitDir(split_dir="splits"), tmp_path)


WEIGHTS = st.lists(st.integers(1, 50), min_size=3, max_size=3)


@given(st.integers(0, 500), WEIGHTS)
def test_counts_add_up_and_stay_within_one_of_the_share(total, weights):
    counts = split_counts(total, weights)
    assert sum(counts) == total
    shares = [total * weight / sum(weights) for weight in weights]
    assert all(abs(count - share) < 1 for count, share in zip(counts, shares, strict=True))


@given(st.integers(0, 60), WEIGHTS, st.integers())
def test_division_loses_and_repeats_nothing(total, weights, seed):
    assume(all(split_counts(total, weights)))
    parts = divide(range(total), ":".join(map(str, weights)), seed).values()
    assert sorted(item for part in parts for item in part) == list(range(total))


@pytest.mark.parametrize(
    ("total", "weights", "counts"),
    [
        (10, [2, 1, 7], (2, 1, 7)),
        (3, [2, 1, 7], (1, 0, 2)),
        (4, [1, 3, 4], (0, 2, 2)),
        (1, [1, 1, 1], (1, 0, 0)),
        (5, [1, 3, 2], (1, 2, 2)),
    ],
)
def test_largest_remainder_wins_and_ties_go_to_the_larger_weight(total, weights, counts):
    assert split_counts(total, weights) == counts
