"""Text that people outside may write must not keep a command busy, however long or deep it is."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest
from command_line import in_process, overrides, skillopt_ci

from skillopt_ci.agents.builtin import BadArguments, submitted
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.providers import parsed
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.sanitize import harmless
from skillopt_ci.scorers.code import parse_score
from skillopt_ci.skill.diff import diff_rows
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.skill.regions import protected_parts, reading, unprotected
from skillopt_ci.skill.validation import problems
from skillopt_ci.training.guard import order_to_the_optimizer

#: Aliases of aliases: nine levels of nine, which expand to hundreds of millions of texts.
_LEVELS = "abcdefghi"
LAUGHS = ", ".join(
    ["a: &a [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    + [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(_LEVELS)]
)


class OutOfTime(BaseException):
    """Something took too long; no command takes it for an error of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime from what computes longer, however busy the machine is."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"not done within {seconds} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_a_pathological_pattern_of_the_regex_scorer_ends_in_time(checkout, model_server):
    model_server.answer = lambda system, prompt: "a" * 60 + "!"
    one = overrides('scorer={type: regex, pattern: "^(a+)+$"}', "evaluation.test_env_num=1")
    line = ("eval", "skills/SKILL.md", "--json", *one)
    done = skillopt_ci(checkout.folder, *line)
    assert done.returncode == 0, done.stderr


def test_a_text_of_blank_lines_is_made_harmless_in_time():
    text = "a0" + "\n" * 50_000 + "end"
    with time_limit(5):
        assert harmless(text) == text


@pytest.mark.parametrize("line", ["\n", "\n- ", "\n```\n"])
def test_the_guard_judges_a_long_addition_in_time(line):
    with time_limit(5):
        assert order_to_the_optimizer("Begin" + line * 30_000 + "end", "") == ""


def test_a_skill_with_a_long_run_of_spaces_is_read_in_time():
    text = "Begin" + " " * 100_000 + "end"
    edit = Edit("insert_after", "end", "b")
    with time_limit(5):
        assert reading(text) == text
        assert apply_edits(f"{' ' * 100_000}\n{text}", [edit])[0].endswith("end\n\nb\n")


NESTED = "<!-- SLOW_UPDATE_" * 3_000 + "<!-- SLOW_UPDATE_START -->" + "START -->" * 3_000


@pytest.mark.parametrize("text", ["<!-- SLOW_UPDATE_START -->\n" * 8_000, NESTED])
def test_a_skill_with_many_markers_is_read_in_time(text):
    with time_limit(5):
        assert "SLOW_UPDATE_START" not in unprotected(text)
        assert reading(text) == text.strip()
        assert protected_parts(text)


@pytest.mark.parametrize(
    ("front", "told"),
    [
        ("".join(f"key{number}: v\n" for number in range(10_000)), "was not checked"),
        ("? " * 3_000, "nested too deeply"),
        ("name: " + "[" * 9_000, "Invalid YAML"),
        ("name: &a [x]\ndescription: *a", "'name' must be a non-empty string"),
    ],
)
def test_front_matter_of_strangers_is_checked_in_time(front, told):
    with time_limit(10):
        found = problems(f"---\n{front}\n---\nBody.\n", Path("skills/x/SKILL.md"))
    assert any(told in problem.message for problem in found)


def test_json_nested_too_deeply_is_the_fault_of_who_wrote_it():
    deep = "[" * 100_000
    with pytest.raises(BadArguments, match="not JSON"):
        submitted(ToolCall("1", "submit", deep))
    with pytest.raises(TransientFailure):
        parsed(deep.encode())
    for reply in (deep, '[{"' * 50_000):
        with time_limit(40), pytest.raises(ValueError, match=r"score|nesting"):
            parse_score(reply)


@pytest.mark.parametrize("line", ["\n", "ab "])
def test_texts_that_repeat_are_compared_in_time(line):
    with time_limit(10):
        rows = diff_rows("Begin" + line * 30_000, "Begin" + line * 30_000 + "end")
    assert [row for row in rows if row.kind == "added"]


@pytest.mark.parametrize("words", [("check",), ("check", "-o", f"train={{{LAUGHS}}}")])
def test_aliases_that_expand_past_a_limit_are_refused(checkout, words):
    if len(words) == 1:
        checkout.write("skillopt.yaml", f"{{{LAUGHS}}}")
    with time_limit(5):
        done = in_process(checkout.folder, *words)
    assert done.returncode == 2, done.stderr
    assert "alias" in done.stdout + done.stderr


def test_aliases_of_a_task_file_are_refused_as_well(checkout):
    task = f"{{id: a0, prompt: Item 0 of kind a, references: a0, metadata: {{{LAUGHS}}}}}"
    checkout.write("tasks/train.yaml", f"[{task}]")
    # in a process of its own: texts are joined where no signal is heard
    line = ("check", "-o", "tasks.train=tasks/train.yaml")
    done = skillopt_ci(checkout.folder, *line)
    assert done.returncode == 2, done.stderr
    assert "alias" in done.stdout + done.stderr
