"""promptfoo's files: what they ask, how answers are judged, and what is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from environments import OpenEnvironment, attempt_now
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.errors import UsageError
from skillopt_ci.integrations.promptfoo import assertion_set, read_tests
from skillopt_ci.integrations.promptfoo_assertions import AssertionShape, Grading, combined
from skillopt_ci.messages import Message
from skillopt_ci.scorers.base import GraderError, Score, verdict
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task

#: Answers with assertions, and what promptfoo 0.123.1 said of them (its echo provider).
VERDICTS = json.loads(
    (Path(__file__).parent / "data" / "promptfoo_verdicts.json").read_text(encoding="utf-8")
)


def write(folder: Path, **config: Any) -> Path:
    whole = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": [], **config}
    file = folder / "promptfooconfig.yaml"
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return file


def judged(
    assertions: list[dict[str, Any]],
    answer: str,
    *,
    folder: Path = Path(),
    threshold: float | None = None,
    says: str = "",
) -> Score:
    async def judge(prompt: str) -> str:
        assert answer in prompt
        return says

    task = Task("t", (Message("user", "q"),), metadata={"vars": {"q": "q"}})
    grading = Grading(task, answer, folder, judge, Functions({}))
    whole = {"type": "assert-set", "assert": assertions, "threshold": threshold}
    return asyncio.run(grading.score(AssertionShape.model_validate(whole)))


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: json.dumps(case["assert"])[:60])
def test_verdicts_are_promptfoos(case: dict[str, Any], tmp_path: Path) -> None:
    test = {
        "vars": {"answer": case["answer"]},
        "options": {"disableVarExpansion": True},
        "assert": case["assert"],
        "threshold": case.get("threshold"),
    }
    (read,) = read_tests(write(tmp_path, prompts=["{{answer | safe}}"], tests=[test]))
    assert read.messages == (Message("user", case["answer"]),)
    grading = Grading(read, case["answer"], tmp_path, unasked, Functions({}))
    score = asyncio.run(grading.score(assertion_set(read)))
    assert (score.hard, score.soft) == (case["pass"], pytest.approx(case["score"]))


async def unasked(prompt: str) -> str:
    raise AssertionError(prompt)


def test_every_deterministic_type_and_its_negation_is_among_the_cases() -> None:
    types = {one["type"].removeprefix("not-") for case in VERDICTS for one in case["assert"]}
    assert types >= {
        *("equals", "contains", "icontains", "contains-any", "icontains-any", "contains-all"),
        *("icontains-all", "regex", "starts-with", "is-json", "contains-json", "levenshtein"),
        "assert-set",
    }


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.floats(0, 5)), min_size=1, max_size=6),
    st.none() | st.floats(0, 1),
)
def test_a_combination_stays_within_its_parts(
    parts: list[tuple[bool, float, float]], threshold: float | None
) -> None:
    scores = [verdict(passed, "r", "a", soft=soft) for passed, soft, _ in parts]
    found = combined(scores, [weight for *_, weight in parts], threshold, "a")
    counted = [score for _, score, weight in parts if weight] or [0.0]
    assert min(counted) - 1e-9 <= found.soft <= max(counted) + 1e-9
    if threshold is None:
        assert found.hard == all(passed for passed, _, weight in parts if weight)


@pytest.mark.parametrize("kind", ["regex", "not-regex"])
def test_a_pathological_pattern_scores_0_in_time(kind: str) -> None:
    score = judged([{"type": kind, "value": '"(a|aa)+$'}], f'"{"a" * 80}!"')
    assert (score.hard, "takes more than 1 s" in score.reason) == (0, True)


@pytest.mark.parametrize(("kind", "solved"), [("is-json", 0), ("not-is-json", 1)])
def test_a_pathological_pattern_of_a_schema_is_decided(kind: str, solved: int) -> None:
    score = judged([{"type": kind, "value": {"pattern": "^(a|aa)+$"}}], f'"{"a" * 80}!"')
    assert score.hard == solved


@pytest.mark.parametrize("kind", ["is-json", "equals"])
def test_an_answer_nested_too_deeply_is_no_json(kind: str) -> None:
    assert not judged([{"type": kind, "value": {"type": "array"}}], "[" * 100_000).hard


def test_a_rubric_is_judged_by_the_judge() -> None:
    rubric = {"type": "llm-rubric", "value": "is kind"}
    good, poor = '{"score": 0.9, "reason": "kind"}', '{"score": 0.6, "reason": "cold"}'
    assert judged([rubric], "hello", says=good).hard
    assert judged([rubric], "hello", says=poor) == Score(0, 0.6, "cold", "hello")
    assert judged([{**rubric, "threshold": 0.5}], "hello", says=poor).hard
    turned = judged([{**rubric, "type": "not-llm-rubric"}], "hello", says=poor)
    assert (turned.hard, turned.soft) == (True, pytest.approx(0.4))


@pytest.mark.parametrize(
    ("returned", "more", "expected"),
    [
        ("len(output) == 2", {}, (True, 1.0)),
        ("False", {}, (False, 0.0)),
        ("0.4", {}, (True, 0.4)),
        ("0.4", {"threshold": 0.5}, (False, 0.4)),
        ("{'pass': True, 'score': 0.7, 'reason': 'fine'}", {}, (True, 0.7)),
        ("{'pass': False, 'score': 0.7}", {}, (False, 0.7)),
        ("context['vars']['q'] == 'q'", {}, (True, 1.0)),
        ("True", {"type": "not-python"}, (False, 0.0)),
    ],
)
def test_python_files_judge(
    tmp_path: Path, returned: str, more: dict[str, Any], expected: tuple[bool, float]
) -> None:
    (tmp_path / "judge.py").write_text(f"def get_assert(output, context):\n    return {returned}\n")
    found = judged([{"type": "python", "value": "file://judge.py", **more}], "ok", folder=tmp_path)
    assert (found.hard, found.soft) == expected


@pytest.mark.parametrize("body", ["return 'maybe'", "return 7", "raise KeyError('x')"])
def test_a_python_file_that_gives_no_score_is_the_graders_fault(tmp_path: Path, body: str) -> None:
    (tmp_path / "judge.py").write_text(f"def mine(output, context):\n    {body}\n")
    with pytest.raises(GraderError, match=r"judge\.py:mine"):
        judged([{"type": "python", "value": "file://judge.py:mine"}], "ok", folder=tmp_path)


def test_prompts_tests_and_lists_of_values_are_multiplied(tmp_path: Path) -> None:
    tests = [
        {"vars": {"q": ["a", "b"], "who": "you"}, "description": "many"},
        {"vars": {"q": "c"}, "threshold": 0.2, "assert": [{"type": "contains", "value": "{{q}}"}]},
    ]
    default = {
        "vars": {"who": "me"},
        "assert": [{"type": "contains", "value": "x"}],
        "threshold": 0.9,
    }
    found = read_tests(
        write(tmp_path, prompts=["{{who}}: {{q}}", "{{q}}?"], tests=tests, defaultTest=default)
    )
    assert [(test.id, test.messages[0].content) for test in found] == [
        ("test-1-vars-1-prompt-1", "you: a"),
        ("test-1-vars-1-prompt-2", "a?"),
        ("test-1-vars-2-prompt-1", "you: b"),
        ("test-1-vars-2-prompt-2", "b?"),
        ("test-2-prompt-1", "me: c"),
        ("test-2-prompt-2", "c?"),
    ]
    assert [one.value for one in assertion_set(found[-1]).assertions] == ["x", "c"]
    assert [assertion_set(found[n]).threshold for n in (0, -1)] == [0.9, 0.2]


def test_files_are_read_from_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("one {{q}}\n---\ntwo {{q}}\n")
    (tmp_path / "chat.json").write_text(
        '[{"role": "system", "content": "{{q}}"}, {"role": "user", "content": "go"}]'
    )
    (tmp_path / "q.txt").write_text("from a file")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    tests = [
        {
            "vars": {"q": "file://q.txt"},
            "assert": [{"type": "is-json", "value": "file://schema.json"}],
        }
    ]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    (tmp_path / "more.jsonl").write_text(json.dumps(tests[0]) + "\n")
    file = write(
        tmp_path,
        prompts=["file://p.txt", {"raw": "file://chat.json", "label": "chat"}],
        tests=["file://tests.yaml", "file://more.jsonl"],
    )
    found = read_tests(file)
    assert len(found) == 6
    assert found[0].messages[0].content == "one from a file"
    assert [(one.role, one.content) for one in found[2].messages] == [
        ("system", "from a file"),
        ("user", "go"),
    ]
    assert assertion_set(found[0]).assertions[0].value == {"type": "object"}


OK = [{"type": "contains", "value": "x"}]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"tests": [{"assert": []}]}, "test 1 has no assertions"),
        ({"tests": [{"assert": OK, "vars": {"q": "file://q.js"}}]}, "that a program makes"),
        ({"tests": [{"assert": OK}], "prompts": ["file://p.py"]}, "that a program makes"),
        ({"tests": [{"assert": OK}], "prompts": ["{{ q"]}, "cannot be rendered"),
        ({"tests": "file://tests.csv"}, "tests are read from .yaml"),
        ({"tests": [{"assert": "x"}]}, "promptfooconfig.yaml: tests"),
        ({"tests": [{"assert": OK}], "scenarios": [{}]}, "scenarios are not supported"),
        ({"tests": [{"assert": [{"type": "cost"}]}]}, "no test that can be judged here"),
    ],
)  # fmt: skip
def test_read_tests_rejects_files_it_cannot_use(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        read_tests(write(tmp_path, **config))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ({"assert": [{"type": "javascript", "value": "1"}]}, "only promptfoo runs"),
        ({"assert": [{"type": "similar", "value": "x"}]}, "needs an embedding model"),
        ({"assert": [{"type": "latency", "threshold": 5}]}, "judges the server"),
        ({"assert": [{"type": "cost", "threshold": 5}]}, "judges the price"),
        ({"assert": [{"type": "contain", "value": "x"}]}, "did you mean 'contains'?"),
        ({"assert": [{"type": "python", "value": "len(output) > 3"}]}, "name a file"),
        ({"assert": [{"type": "regex", "value": "("}]}, "not a regular expression"),
        ({"assert": [{**OK[0], "transform": "x"}]}, "transform is not supported"),
        ({"assert": [{"type": "assert-set", "assert": [{"type": "cost"}]}]}, "judges the price"),
        ({"assert": OK, "options": {"transform": "x"}}, "options.transform"),
    ],
)  # fmt: skip
def test_read_tests_leaves_out_a_test_that_cannot_be_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, test: dict[str, Any], why: str
) -> None:
    found = read_tests(write(tmp_path, tests=[test, {"assert": OK}]))
    assert [one.id for one in found] == ["test-2"]
    (warning,) = caplog.messages
    assert "test 1 is left out" in warning
    assert why in warning


def test_templates_cannot_reach_the_program(tmp_path: Path) -> None:
    escape = "{{ q.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(UsageError, match="cannot be rendered"):
        read_tests(write(tmp_path, prompts=[escape], tests=[{"assert": OK, "vars": {"q": "a"}}]))


def test_an_environment_of_tests(tmp_path: Path, opened: OpenEnvironment) -> None:
    tests = [
        {
            "vars": {"q": f"Capital {n}?"},
            "assert": [{"type": "equals", "value": f"C{n}"}, {"type": "contains", "value": "C"}],
            "metadata": {"task_type": "capitals"},
        }
        for n in range(8)
    ]
    write(tmp_path, tests=tests)
    found = opened({"type": "promptfoo", "split": "2:1:1"})
    tasks = list(found.tasks("train"))
    assert [len(list(found.tasks(name))) for name in ("train", "selection", "test")] == [4, 2, 2]
    task = tasks[0]
    assert task.task_type == "capitals"
    assert "type: contains" in task.reference_text
    made = attempt_now(found, task, lambda _: task.references[0])
    assert (made.score.hard, made.score.soft) == (1.0, 1.0)
    half = attempt_now(found, task, lambda _: "C")
    assert (half.score.hard, half.score.soft) == (0.0, 0.5)


def test_a_missing_file_is_named(tmp_path: Path, opened: OpenEnvironment) -> None:
    with pytest.raises(UsageError, match=r"promptfooconfig\.yaml: cannot be read"):
        opened({"type": "promptfoo"})
