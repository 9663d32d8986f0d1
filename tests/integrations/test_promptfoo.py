import asyncio
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from skillopt_ci.confinement import confine
from skillopt_ci.errors import UsageError
from skillopt_ci.integrations.promptfoo import read_tests
from skillopt_ci.messages import Message
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task

#: Answers with assertions, and what promptfoo 0.123.1 said of them (its echo provider).
FILE = Path(__file__).parent / "data" / "promptfoo_verdicts.json"
VERDICTS = json.loads(FILE.read_text(encoding="utf-8"))


def write(folder: Path, **config: Any) -> Path:
    whole = {"prompts": ["{{q}}"], "providers": ["echo"], **config}
    file = folder / "promptfooconfig.yaml"
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return file


def graded(task: Task, answer: str, says: str = "") -> Score:
    async def judge(prompt: str) -> str:
        assert answer in prompt
        return says

    scorers = TaskScorers(None, judge=judge, root=Path(), functions=Functions({}))
    return asyncio.run(scorers.grade(task, Attempt((), answer)))


def judged(folder: Path, assertions: list[dict[str, Any]], answer: str, says: str = "") -> Score:
    (task,) = read_tests(write(folder, tests=[{"vars": {"q": "q"}, "assert": assertions}]))
    return graded(task, answer, says)


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: json.dumps(case["assert"])[:60])
def test_verdicts_are_promptfoos(case, tmp_path):
    checks = {"assert": case["assert"], "threshold": case.get("threshold")}
    test = {"vars": {"answer": case["answer"]}, "options": {"disableVarExpansion": True}, **checks}
    (read,) = read_tests(write(tmp_path, prompts=["{{answer | safe}}"], tests=[test]))
    assert read.messages == (Message("user", case["answer"]),)
    score = graded(read, case["answer"])
    assert (score.hard, score.soft) == (case["pass"], pytest.approx(case["score"]))


def test_every_deterministic_type_and_its_negation_is_among_the_cases():
    assert {one["type"].removeprefix("not-") for case in VERDICTS for one in case["assert"]} >= {
        *("equals", "contains", "icontains", "contains-any", "icontains-any", "contains-all"),
        *("icontains-all", "regex", "starts-with", "is-json", "levenshtein", "assert-set"),
    }


def test_a_pathological_pattern_scores_0_in_time_also_if_it_is_not_to_match(tmp_path):
    score = judged(tmp_path, [{"type": "not-regex", "value": '"(a|aa)+$'}], f'"{"a" * 80}!"')
    assert (score.hard, "takes more than 1 s" in score.reason) == (0, True)


@pytest.mark.parametrize("value", [{"pattern": "^(a|aa)+$"}, {"type": "array"}])
def test_what_a_schema_refuses_is_decided(tmp_path, value):
    answer = f'"{"a" * 80}!"' if "pattern" in value else "[" * 100_000
    assert not judged(tmp_path, [{"type": "is-json", "value": value}], answer).hard


def test_texts_are_looked_for_as_they_are_across_lines(tmp_path):
    several = [{"type": "contains-all", "value": ["a.c", "(x"]}]
    assert judged(tmp_path, several, "(x\n\na.c").hard
    assert not judged(tmp_path, [{**several[0], "weight": 3}, *OK], "(x abc").hard
    assert judged(tmp_path, [{"type": "ends-with", "value": "$ 5"}], "it is $ 5").hard
    assert judged(tmp_path, [{"type": "contains-any", "value": "a\nb, c"}], "a\nb").hard
    assert not judged(tmp_path, [{"type": "levenshtein", "value": "a", "threshold": 0}], "b").hard


def test_a_rubric_is_judged_by_the_judge(tmp_path):
    rubric = {"type": "llm-rubric", "value": "is kind"}
    good, poor = '{"score": 0.9, "reason": "kind"}', '{"score": 0.6, "reason": "cold"}'
    assert judged(tmp_path, [rubric], "hello", good).hard
    assert judged(tmp_path, [rubric], "hello", poor) == Score(0, 0.6, "cold", "hello")
    assert judged(tmp_path, [{**rubric, "threshold": 0.5}], "hello", poor).hard
    dated = {**rubric, "value": {date(2026, 1, 1): "kind"}}
    (task,) = read_tests(write(tmp_path, tests=[{"assert": [dated]}]))
    assert task.scorer.rubric == '{"2026-01-01":"kind"}'


def test_prompts_tests_and_lists_of_values_are_multiplied(tmp_path, caplog):
    tests = [
        {"vars": {"q": ["a", "b"], "who": "you"}, "description": "many"},
        {"vars": {"q": "c"}, "threshold": 0.2, "assert": [{"type": "contains", "value": "{{q}}"}]},
    ]
    default = {"vars": {"who": "me"}, "assert": OK, "threshold": 0.9}
    prompts = ["{{who}}: {{q}}", "{# {{_conversation}} #}{{q}}?", "{{_conversation}}", "{{env.X}}"]
    found = read_tests(write(tmp_path, prompts=prompts, tests=tests, defaultTest=default))
    assert "test 2: prompts that use _conversation" in caplog.messages[1]
    assert [(test.id, test.messages[0].content) for test in found] == [
        ("test-1-vars-1-prompt-1", "you: a"),
        ("test-1-vars-1-prompt-2", "a?"),
        ("test-1-vars-2-prompt-1", "you: b"),
        ("test-1-vars-2-prompt-2", "b?"),
        ("test-2-prompt-1", "me: c"),
        ("test-2-prompt-2", "c?"),
    ]
    first, last = (yaml.safe_load(found[n].reference_text) for n in (0, -1))
    assert ([one["value"] for one in last], first) == (["x", "c"], default["assert"])
    tests[1]["options"] = {"disableDefaultAsserts": True}
    alone = read_tests(write(tmp_path, tests=tests, defaultTest=default))[-1]
    assert yaml.safe_load(alone.reference_text) == last[1:]
    half = graded(found[-1], "c alone")
    assert (half.hard, half.soft) == (1, 0.5)


def test_values_may_name_others_and_hold_what_json_escapes(tmp_path):
    turns = (("system", "{{hi}}"), ("assistant", None), ("user", "{{q}}{{env.X}}"))
    prompt = json.dumps([{"role": role, "content": text} for role, text in turns])
    named = {"hi": "Hello {{ who }}, {{nobody}}", "who": "{{ name }}", "name": "Ann"}
    values = {**named, "env": {"X": 1}, "q": 'a "b"\n\n'}  # promptfoo drops the last line break
    test = {"vars": values, "assert": [{"type": "contains", "value": "{{hi}}"}]}
    (task,) = read_tests(write(tmp_path, prompts=[prompt], tests=[test]))
    assert [one.content for one in task.messages] == ["Hello Ann, {{nobody}}", "", 'a "b"\n1']
    assert graded(task, "Hello Ann, {{nobody}}").hard


def test_files_are_read_from_beside_the_configuration(tmp_path):
    (tmp_path / "p.txt").write_text("one {{q}}\n---\ntwo {{q}}\n")
    (tmp_path / "chat.json").write_text(
        '[{"role": "developer", "content": "{{q}}"}, {"role": "user", "content": "go"}]'
    )
    (tmp_path / "q.txt").write_text("from a file")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    schema = {"type": "is-json", "value": "file://schema.json"}
    tests = [{"vars": {"q": "file://q.txt"}, "assert": [schema]}]
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    (tmp_path / "more.jsonl").write_text(json.dumps(tests[0]) + "\n")
    (tmp_path / "parts.json").write_text(PICTURE.replace('"image_url"', '"text", "text": "{{q}}"'))
    about = {"q": "😀", "day": date(2026, 1, 1)}
    (tmp_path / "tests.json").write_text(json.dumps({"vars": about, "assert": OK}, default=str))
    read = write(tmp_path, prompts=["file://parts.json"], tests=["file://tests.json"])
    assert [one.messages[0].content for one in read_tests(read)] == ["😀"]
    (dated,) = read_tests(write(tmp_path, tests=[{"vars": about, "assert": OK}]))
    assert dated.metadata["vars"]["day"] == "2026-01-01"
    file = write(
        tmp_path,
        prompts=["p.txt", {"raw": "file://c*.json", "label": "chat"}],
        tests=["file://te*.yaml", "file://more.jsonl"],
    )
    found = read_tests(file)
    assert len(found) == 6
    assert found[0].messages[0].content == "one from a file"
    said = [(one.role, one.content) for one in found[2].messages]
    assert said == [("system", "from a file"), ("user", "go")]
    assert [graded(found[0], answer).hard for answer in ("{}", "[]")] == [1, 0]


OK, SERVER = [{"type": "contains", "value": "x"}], [{"type": "latency"}, {"type": "cost"}]
ESCAPE = "{{ 'a'.__class__.__mro__[1].__subclasses__() }}"
CYCLE = {"a": "{{ b }}" * 9, "b": "{{ a }}" * 9 + "x" * 99}
MANY = {name: list(range(11)) for name in "abcd"}
PICTURE = '[{"role": "user", "content": [{"type": "image_url"}]}]'


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"tests": [{"assert": OK}], "prompts": ["{{ _conversation }}"]}, "no test that can be"),
        ({"tests": [{"assert": OK, "vars": {"q": "file://q.js"}}]}, "that a program makes"),
        ({"tests": [{"assert": OK}], "prompts": ["file://p.py:f"]}, "that a program makes"),
        ({"tests": [{"path": "file://t.py:f", "config": {}}]}, "that a program makes"),
        ({"tests": [{"assert": OK, "vars": {"q": "file:///etc/hosts"}}]}, "not a file of the repo"),
        ({"tests": [{"assert": OK}], "prompts": ["{{ q"]}, "test 1: the template '{{ q' cannot"),
        ({"tests": [{"assert": OK}], "prompts": ["torn.jsonl"]}, "prompts are read from .txt"),
        ({"tests": [{"assert": OK}], "prompts": [ESCAPE]}, "object is unsafe"),
        ({"tests": "file://tests.csv"}, "tests are read from .yaml"),
        ({"tests": "file://torn.jsonl"}, "torn.jsonl: Expecting value: line 2"),
        ({"tests": [{"assert": [{**OK[0], "threshold": float("nan")}]}]}, "a finite number"),
        ({"tests": [{"assert": OK}], "prompts": [PICTURE]}, "part that is not text"),
        ({"tests": [{"assert": "x"}]}, "promptfooconfig.yaml: tests"),
        ({"scenarios": [{}]}, "scenarios are not supported"),
        ({"tests": [{"assert": [{"type": "cost"}]}]}, "no test that can be graded here"),
        ({"tests": [{"assert": OK, "vars": CYCLE}]}, "test 1: the variable 'a' grows beyond"),
        ({"tests": [{"assert": OK, "vars": MANY}]}, "test 1: the lists of a, b, c, d make"),
    ],
)  # fmt: skip
def test_read_tests_rejects_files_it_cannot_use(tmp_path, config, said):
    confine(tmp_path, {})
    (tmp_path / "torn.jsonl").write_text('{}\n{"vars": ')
    with pytest.raises(UsageError) as error:
        read_tests(write(tmp_path, **config))
    assert said in str(error.value)
    assert "tests.0.str" not in str(error.value)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ({"assert": None, "description": None}, "has no assertions, so that every answer would"),
        ({"assert": [{"type": "javascript", "value": "1"}]}, "'javascript' is not supported"),
        ({"assert": [{"$ref": "#/assertionTemplates/a"}]}, "assertion '#/assertionTemplates/a'"),
        ({"assert": [{"type": "contain", "value": "x"}]}, "did you mean 'contains'?"),
        ({"assert": [{"type": "not-is-json"}]}, "no scorer turns it around"),
        ({"assert": [{"type": "iequals", "value": "x"}]}, "the assertion 'iequals'"),
        ({"assert": [{"type": "contains-any", "value": []}]}, "names no text"),
        ({"assert": [{"type": "regex"}]}, "regex has no value"),
        ({"assert": [{"type": "contains", "value": ["x", "y"]}]}, "contains looks for a text"),
        ({"assert": [{"type": "is-json", "value": True}]}, "must be a mapping"),
        ({"assert": [{"type": "is-json", "value": "{["}]}, "while parsing"),
        ({"assert": [{"type": "llm-rubric", "value": "x", "threshold": 2}]}, "less than or equal"),
        ({"assert": [{**OK[0], "weight": 0}]}, "no assertion has a weight"),
        ({"assert": [{"type": "is-json", "value": {"type": 7}}]}, "not a JSON Schema"),
        ({"assert": [{"type": "regex", "value": "("}]}, "left out: not a regular expression"),
        ({"assert": [{**OK[0], "transform": "x"}]}, "transform is not supported"),
        ({"assert": [{"type": "assert-set", "assert": [{"type": "cost"}]}]}, "'cost' is not"),
        ({"assert": OK, "options": {"transform": "x"}}, "options.transform"),
        ({"assert": OK, "assertScoringFunction": "file://x.py"}, "assertScoringFunction is"),
        ({"assert": OK, "prompts": ["chat"]}, "prompts is not supported"),
        ({"assert": [{"type": "llm-rubric"}]}, "llm-rubric has no value"),
        ({"assert": [{**OK[0], "value": "{{ env.X }}"}]}, "env exists only in promptfoo"),
    ],
)  # fmt: skip
def test_read_tests_leaves_out_a_test_that_no_scorer_grades(tmp_path, caplog, test, why):
    found = read_tests(write(tmp_path, prompts=["a", "b"], tests=[test, {"assert": OK}]))
    assert [one.id for one in found] == ["test-2-prompt-1", "test-2-prompt-2"]
    (warning,) = caplog.messages
    assert all(said in warning for said in ("test 1 is left out", why))


def test_what_judges_the_server_is_left_out_of_tests_where_all_must_pass(tmp_path, caplog):
    server, tests = {"assert": SERVER}, [{"assert": OK}, {"assert": OK, "threshold": 0.5}, {}]
    (task,) = read_tests(write(tmp_path, tests=tests, defaultTest=server))
    assert (task.id, yaml.safe_load(task.reference_text)) == ("test-1", OK)
    told = "latency and cost are not graded: they judge the server" in caplog.messages[0]
    assert (told, caplog.text.count("'latency' is not supported")) == (True, 2)


def test_values_are_written_as_javascript_and_nunjucks_write_them(tmp_path):
    plain = {"yes": True, "five": 5.0, "none": None, "part": 0.5, "block": "line\n"}
    values = {**plain, "row": {"tags": ["a", None, True, [1, 2.5]], "more": {"ü": 1}}}
    shown = (
        "{{yes}} {{five}} [{{none}}] {{part}} {{ 4 / 2 }} {{missing.key}}. {{block}} {{row.tags}}"
        " {{row.more}} {{row.tags | dump}} {{row.more | dump(1)}}"
    )
    checks = [{"type": "contains", "value": "{{row.tags}}"}, {"type": "equals", "value": shown}]
    tests = [{"vars": values, "assert": checks}]
    (task,) = read_tests(write(tmp_path, prompts=[shown], tests=tests))
    asked = "true 5 [] 0.5 2 . line a,,true,1,2.5 [object Object] "
    asked += '["a",null,true,[1,2.5]] {\n "ü": 1\n}'
    assert task.messages[0].content == asked
    assert graded(task, asked).hard


@pytest.mark.parametrize("text", ["README", "Why?", '["r"]', "* a/b" * 999, "*\0/"])
def test_texts_that_glob_takes_for_names_are_asked(tmp_path, text):
    for name in ("README", "Why1", "r"):
        (tmp_path / name).touch()
    (task,) = read_tests(write(tmp_path, prompts=[text], tests=[{"assert": OK, "prompts": ["*"]}]))
    assert task.messages[0].content == text


def test_an_environment_of_tests(tmp_path, opened):
    tests = [
        {
            "vars": {"q": f"Capital {n}?"},
            "assert": [{"type": "equals", "value": f"C{n}"}, {"type": "contains", "value": "C"}],
            "metadata": {"task_type": "capitals"},
        }
        for n in range(8)
    ]
    with pytest.raises(UsageError, match=r"promptfooconfig\.yaml: cannot be read"):
        opened({"type": "promptfoo"})
    write(tmp_path, tests=tests)
    found = opened({"type": "promptfoo", "split": "2:1:1"})
    tasks = list(found.tasks("train"))
    assert [len(list(found.tasks(name))) for name in ("train", "selection", "test")] == [4, 2, 2]
    task = tasks[0]
    assert task.task_type == "capitals"
    assert "type: contains" in task.reference_text
    assert not found.grades
    whole, half = graded(task, task.references[0]), graded(task, "C")
    assert (whole.hard, whole.soft, half.hard, half.soft) == (1.0, 1.0, 0.0, 0.5)
