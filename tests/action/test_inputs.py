import pytest

from skillopt_ci.action.inputs import Command, Inputs, read_inputs
from skillopt_ci.errors import UsageError


def test_nothing_given_means_the_defaults():
    assert read_inputs({}) == Inputs()


def test_the_runner_hands_over_empty_values_for_what_is_not_given():
    assert read_inputs({"INPUT_CONFIG": "", "INPUT_SHARDS": " "}) == Inputs()


def test_values_are_read():
    inputs = read_inputs(
        {
            "INPUT_COMMAND": "slow-update",
            "INPUT_OVERRIDES": "train.batch_size=8\n\n  budget.step.calls=9\n",
            "INPUT_SHARDS": "12",
        }
    )
    assert inputs.command is Command.SLOW_UPDATE
    assert inputs.overrides == ("train.batch_size=8", "budget.step.calls=9")
    assert inputs.shards == 12


def test_every_problem_is_told_at_once():
    with pytest.raises(UsageError) as caught:
        read_inputs({"INPUT_COMMAND": "stepp", "INPUT_SHARDS": "0", "INPUT_DIRECTORY": "/etc"})
    message = str(caught.value)
    assert "Did you mean 'step'?" in message
    assert "shards" in message
    assert "directory" in message


@pytest.mark.parametrize("folder", ["..", "a/../../b", "/tmp"])
def test_no_directory_is_outside_of_the_workspace(folder):
    with pytest.raises(UsageError, match="directory"):
        read_inputs({"INPUT_DIRECTORY": folder})


@pytest.mark.parametrize("shards", ["-1", "many", "²", "1.5"])
def test_shards_are_a_positive_number(shards):
    with pytest.raises(UsageError, match="shards"):
        read_inputs({"INPUT_SHARDS": shards})


def test_the_token_and_keys_are_not_shown():
    given = read_inputs({"INPUT_TOKEN": "sesame", "INPUT_KEYS": "A=sesame=\n\nB=\n C = sesame "})
    assert given.keys == (("A", "sesame="), ("C", "sesame"))
    assert "sesame" not in repr(given)
    with pytest.raises(UsageError, match="lines of NAME=value") as caught:
        read_inputs({"INPUT_KEYS": "sesame"})
    assert "sesame" not in str(caught.value)
