import io
import json
from itertools import count
from pathlib import Path, PurePath
from typing import Any

import pytest
from action_world import obeyed
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.action.inputs import Command, Inputs, read_inputs
from skillopt_ci.action.outputs import JobLog, Outputs, append_outputs, command, fold
from skillopt_ci.errors import UsageError


def test_nothing_given_means_the_defaults():
    assert read_inputs({}) == Inputs()
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
    assert (inputs.overrides, inputs.shards) == (("train.batch_size=8", "budget.step.calls=9"), 12)


def test_every_problem_is_told_at_once():
    with pytest.raises(UsageError) as caught:
        read_inputs({"INPUT_COMMAND": "stepp", "INPUT_SHARDS": "0", "INPUT_DIRECTORY": "/etc"})
    message = str(caught.value)
    for words in ("Did you mean 'step'?", "shards", "directory"):
        assert words in message


@pytest.mark.parametrize("value", ["..", "a/../../b", "/tmp", "-1", "many", "²", "1.5"])
def test_a_directory_is_in_the_workspace_and_shards_are_a_positive_number(value):
    name = "directory" if "/" in value or value == ".." else "shards"
    with pytest.raises(UsageError, match=name):
        read_inputs({f"INPUT_{name.upper()}": value})


def test_the_token_and_keys_are_not_shown():
    given = read_inputs({"INPUT_TOKEN": "sesame", "INPUT_KEYS": "A=sesame=\n\nB=\n C = sesame "})
    assert given.keys == (("A", "sesame="), ("C", "sesame"))
    assert "sesame" not in repr(given)
    with pytest.raises(UsageError, match="lines of NAME=value") as caught:
        read_inputs({"INPUT_KEYS": "sesame"})
    assert "sesame" not in str(caught.value)


SCORES = {"score_before": 0.5, "score_after": 0.625}
STEP = {"step": 1, "action": "accept", "commit": "c1", "cost_usd": 0.25, **SCORES}


def step(**other: Any) -> dict[str, Any]:
    return {**STEP, **other}


def test_a_step():
    scores = {"score_before": "0.5", "score_after": "0.625", "improved": "true"}
    wanted = Outputs(action="accept", step="1", commit="c1", cost_usd="0.25", **scores)
    assert fold([STEP]) == wanted


def test_steps_are_told_from_the_first_score_to_the_last():
    second = step(step=2, action="reject", score_before=0.625, score_after=0.5, commit="c2")
    outputs = fold([STEP, second])
    assert (outputs.score_before, outputs.score_after) == ("0.5", "0.5")
    assert (outputs.step, outputs.action, outputs.commit) == ("2", "reject", "c2")
    assert (outputs.improved, outputs.cost_usd) == ("true", "0.5")


def test_a_reverted_step_did_not_improve():
    assert fold([step(action="reject")]).improved == "false"
    # at an open gate, merged is not better
    assert fold([step(action="force_accept", score_after=0.0)]).improved == "false"
    assert fold([step(action="force_accept", score_after=1.0)]).improved == "true"
    assert fold([step(action="skip_no_patches", score_after=None)]).score_after == ""
    assert fold([STEP, step(cost_usd=None)]).cost_usd == ""


def test_a_comparison():
    result = {"skills": [{"hard": 0.1}, {"hard": 0.3}], "difference": {"hard": 0.2}, "cost_usd": 0}
    outputs = fold([result])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("0.1", "0.3", "true")
    outputs = fold([{"skills": [{"hard": 0.1}], "difference": None, "cost_usd": 0}])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("", "0.1", "")


def test_a_matrix_is_one_line_of_json():
    outputs = fold([{"matrix": {"shard": ["1/2", "2/2"]}, "phase": "rollout"}])
    assert json.loads(outputs.matrix) == {"shard": ["1/2", "2/2"]}
    assert "\n" not in outputs.matrix
    assert outputs.phase == "rollout"


def test_where_training_stands():
    result = {"score_initial": 0.1, "score_current": 0.4, "step": 3, "commit": "c3"}
    assert fold([result]).improved == "true"
    assert fold([{**result, "score_initial": None}]).improved == ""
    assert fold([]) == Outputs()


def test_the_end_of_a_run_compares_on_the_test_tasks():
    tests = {"initial": {"test": {"hard": 0.1}}, "best": {"test": {"hard": 0.9}}}
    end = {"step": 9, "commit": "c9", "best_gain": {"mean": 0.8}, **tests}
    outputs = fold([end])
    assert (outputs.score_before, outputs.score_after, outputs.improved) == ("0.1", "0.9", "true")
    assert fold([{**end, "best": {"test": None}, "best_gain": None}]).improved == ""


def test_a_run_that_ends_is_told_by_its_steps():
    end = {"step": 9, "commit": "c9", "initial": {}, "best": {}, "best_gain": None}
    outputs = fold([STEP, end])
    assert (outputs.action, outputs.commit, outputs.cost_usd) == ("accept", "c9", "0.25")


def written(outputs: dict[str, str], file: Path) -> str:
    file.write_text("", encoding="utf-8")
    append_outputs(file, outputs, map(str, count()).__next__)
    return file.read_text(encoding="utf-8")


def test_each_output_that_is_not_empty_stands_between_its_own_delimiters(tmp_path):
    text = written({"a": "1", "b": "2\n3", "c": ""}, tmp_path / "output")
    assert text == "a<<skillopt_0\n1\nskillopt_0\nb<<skillopt_1\n2\n3\nskillopt_1\n"
    text = written({"a": "skillopt_0\nimproved=true"}, tmp_path / "output")
    assert text.startswith("a<<skillopt_1\n")


@given(value=st.text(alphabet="skilopt_01<=\n"))
def test_no_value_forges_an_output(tmp_path_factory, value):
    text = written({"a": value}, tmp_path_factory.getbasetemp() / "forged-output")
    if value:
        delimiter = text.partition("\n")[0].removeprefix("a<<")
        assert text == f"a<<{delimiter}\n{value}\n{delimiter}\n"
        assert delimiter not in value


ANY_TEXT = st.text() | st.text(alphabet=":#[]%\r\n,=abc")


def make() -> tuple[JobLog, io.StringIO]:
    stream = io.StringIO(newline="")
    return JobLog(stream, lambda: "f00d"), stream


def test_a_command_with_properties():
    text = command("error", "100 %\nof it", file="a:b,c", line="")
    assert text == "::error file=a%3Ab%2Cc::100 %25%0Aof it"


@given(ANY_TEXT, ANY_TEXT)
def test_an_annotation_is_one_command(message, title):
    log, stream = make()
    log.annotate("error", message, title=title, file=PurePath("a.py"), line=3)
    assert obeyed(stream.getvalue()) == ["error"]


@given(ANY_TEXT)
def test_untrusted_text_starts_no_command(text):
    log, stream = make()
    with log.untrusted("work") as inside:
        inside.write(text)
    log.annotate("notice", "afterwards")
    assert obeyed(stream.getvalue()) == ["group", "stop-commands", "endgroup", "notice"]


def test_commands_are_obeyed_again_after_a_failure():
    log, stream = make()
    try:
        with log.untrusted("work") as inside:
            inside.write("::set-env name=PATH::/evil without a line's end")
            raise ValueError  # noqa: TRY301
    except ValueError:
        log.annotate("error", "failed")
    assert obeyed(stream.getvalue()) == ["group", "stop-commands", "endgroup", "error"]


def test_every_line_of_a_secret_is_masked():
    log, stream = make()
    log.mask("first\n\nsecond 100%")
    assert stream.getvalue() == "::add-mask::first\n::add-mask::second 100%25\n"
