"""Whole training runs on environments: a class of one's own, promptfoo, SkillOpt."""

import json
import re
from importlib.util import find_spec
from typing import Any

import pytest
import yaml
from command_line import in_process, skillopt_ci

from skillopt_ci.errors import TooManyErrors, UsageError
from tests.conftest import HARMFUL, RULES, Checkout, ModelServer, Workshop

QUESTION = re.compile(r"Item (\d+) of kind (\w)")
SPLITS = {"train": 0, "val": 100, "test": 200}

CLASS = """
from skillopt_ci.environments.api import Environment, Score, task_of

class Items(Environment):
    def tasks(self, split):
        start = {"train": 0, "selection": 100, "test": 200}[split]
        for n in range(start, start + 8):
            kind = "abcd"[n % 4]
            yield task_of({"id": f"{kind}{n}", "prompt": f"Item {n} of kind {kind}"}, self.root)

    async def grade(self, task, attempt, parts):
        right = f"<answer>{task.id}</answer>" in attempt.response
        return Score(right, right, "as in the register" if right else "not in the register", "")

    def solver(self, parts):
        facts = {"name": "own", "needs_computer": False, "identity": lambda: {"at": self.root}}
        return __import__("types").SimpleNamespace(solve=parts.solver.solve, **facts)
"""


def items(start: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{n}",
            "question": f"Item {n} of kind {'abcd'[n % 4]}",
            "context": "[DOC] The register of items.",
            "answers": [f"{'abcd'[n % 4]}{n}"],
        }
        for n in range(start, start + 8)
    ]


def configure(checkout: Checkout, environment: object, files: dict[str, str]) -> None:
    """Let the run of ``checkout`` work on ``environment`` instead of its task files."""
    config = yaml.safe_load((checkout.folder / "skillopt.yaml").read_text())
    del config["tasks"], config["scorer"]
    config["environment"] = environment
    checkout.write("skillopt.yaml", yaml.safe_dump(config))
    for path, text in files.items():
        checkout.write(path, text)
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "-m", "Use an environment")


def answer_questions(server: ModelServer) -> None:
    """Make the scripted target answer an item wherever its question stands."""
    scripted = server.answer

    def answer(system: str, prompt: str) -> str:
        found = QUESTION.search(prompt)
        if found is None or "Trajector" in prompt:
            return scripted(system, prompt)
        letter = found[2] if RULES[found[2]] in system else ""
        return f"<answer>{'' if HARMFUL in system else letter + found[1]}</answer>"

    server.answer = answer


def assert_learned(checkout: Checkout) -> None:
    """Assert that a run of two steps kept what helps and nothing that harms."""
    checkout.run("train.num_epochs=1")
    skill = checkout.show("skillopt/demo")
    assert RULES["a"] in skill
    assert HARMFUL not in skill
    assert checkout.state().best.measurement.hard > 0


def test_a_class_of_ones_own(workshop):
    answer_questions(workshop.server)
    checkout = workshop.checkout()
    configure(checkout, "items.py:Items", {"items.py": CLASS})
    assert_learned(checkout)
    checked = in_process(checkout.folder, "check", "-o", "prompts=nowhere").stdout
    assert "`environment` runs inside skillopt-ci" in " ".join(checked.split())
    assert (in_process(checkout.folder, "status").returncode, checked.count("nowhere")) == (0, 1)
    checkout.write("items.py", f"{CLASS}\n    def close(self): {{}}['lost']\n")
    closed = skillopt_ci(checkout.folder, "check", "--files")
    told = r"! warning: environment: Items\.close raised KeyError: 'lost' \(.*items\.py:\d+\)\n"
    assert re.fullmatch(told, closed.stderr), closed
    assert closed.returncode == 0


def test_a_broken_environment_is_never_scored(workshop):
    answer_questions(workshop.server)
    checkout = workshop.checkout()
    broken = CLASS.replace("right = ", "right = {}['nothing'] or ")
    configure(checkout, "items.py:Items", {"items.py": broken})
    with pytest.raises(TooManyErrors, match=r"Items\.grade raised KeyError: 'nothing' \("):
        checkout.step()
    assert not checkout.ref("skillopt/demo")


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("solver(self, _): return _.nothing", r"solver raised AttributeError: .*items\.py:\d+"),
        ("solver(self, _): return self", r"Items\.solver returned Items, expected an object with"),
        ("solver(self, _): return Odd()", "Items.solver raised ZeroDivisionError"),
        ("prompts(self): return None", "must return texts by name: TypeError: 'None"),
        ("prompts(self): return {'analist': ''}", "'analist' names no prompt"),
        ("identity(self): return {'set': {1}}", "must return JSON facts: TypeError: "),
        ("grade(self, *_): return Score(1, 1, '', '')", r"Items\.grade must be an `async def`"),
    ],
)
def test_a_part_that_cannot_be_used_is_the_environments(workshop, method, told):
    checkout = workshop.checkout()
    broken = f"{CLASS}\n    def {method}\nclass Odd:\n    name = property(lambda _: 1 / 0)\n"
    configure(checkout, "items.py:Items", {"items.py": broken})
    with pytest.raises(UsageError, match=told):
        checkout.step()
    checked = in_process(checkout.folder, "check").stdout
    assert method.startswith("grade") or "environment:" in checked


def test_promptfoos_tests(workshop):
    answer_questions(workshop.server)
    checkout = workshop.checkout()
    tests = [
        {
            "vars": {"n": item["question"]},
            "assert": [{"type": "contains", "value": item["answers"][0]}],
        }
        for start in SPLITS.values()
        for item in items(start)
    ]
    file = yaml.safe_dump({"prompts": ["{{n}}"], "providers": [], "tests": tests})
    environment = {"type": "promptfoo", "file": "evals.yaml", "split": "1:1:1"}
    configure(checkout, environment, {"evals.yaml": file})
    assert_learned(checkout)


def with_searchqa(workshop: Workshop, prompts: dict[str, str], **options: str) -> Checkout:
    """A repository that trains on SkillOpt's adapter for SearchQA with ``prompts`` of its own."""
    answer_questions(workshop.server)
    checkout = workshop.checkout()
    files = {f"data/{split}/items.json": json.dumps(items(n)) for split, n in SPLITS.items()}
    prompts = {"rollout_system": "{skill_section}Use <answer></answer>.", **prompts}
    files |= {f"prompts/searchqa/{name}.md": text for name, text in prompts.items()}
    environment = {
        "type": "skillopt",
        "adapter": "searchqa",
        "config": {"split_mode": "split_dir", "split_dir": "data"},
        "prompt_files": "prompts",
        **options,
    }
    configure(checkout, environment, files)
    return checkout


@pytest.mark.skipif(find_spec("skillopt") is None, reason="the extra `skillopt` is not installed")
def test_skillopts_own_searchqa_adapter(workshop):
    own = {"analyst_error": "SearchQA's analyst. Stage: analyst_error."}
    checkout = with_searchqa(workshop, own)
    checkout.step()
    assert RULES["a"] in checkout.show("skillopt/demo")
    prompts = workshop.server.prompts
    assert any(prompt.startswith("SearchQA's analyst") for prompt in prompts)
    assert any("## Question\nItem" in prompt for prompt in prompts)
    assert (workshop.server.keys, workshop.server.most_answers) == ({"Bearer sk-demo-key"}, 1)


ANALYST = "SearchQA's analyst. Stage: {name}. Reply with JSON: `patch`, in it `edits`."


@pytest.mark.skipif(find_spec("skillopt") is None, reason="the extra `skillopt` is not installed")
def test_searchqa_reflecting_with_skillopts_own_analysts(workshop):
    prompts = {name: ANALYST.format(name=name) for name in ("analyst_error", "analyst_success")}
    checkout = with_searchqa(workshop, prompts, reflect="adapter")
    assert_learned(checkout)
    asked = [prompt for prompt in workshop.server.prompts if "Failed Trajectories" in prompt]
    assert asked
    for prompt in asked:
        assert prompt.startswith("SearchQA's analyst. Stage: analyst_error.")
        assert "[verification] [EVALUATION RESULT]" in prompt  # SkillOpt's own rendering
    assert workshop.server.keys == {"Bearer sk-demo-key"}  # through the run's client
    # what it cost is the run's, call by call
    steps = [one.step for one in checkout.history() if one.kind == "step"]
    calls = [checkout.record(step).proposal.usage for step in steps]
    analysts = [prompt for prompt in workshop.server.prompts if "Trajectories (" in prompt]
    assert sum(usage["analyst"].calls for usage in calls if "analyst" in usage) == len(analysts)
