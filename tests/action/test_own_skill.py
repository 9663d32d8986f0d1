"""Our own skill can be trained by our own workflow."""

from pathlib import Path

import yaml

from skillopt_ci.config.loading import load
from skillopt_ci.skill.validation import problems
from skillopt_ci.tasks.loading import load_splits

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".agents" / "skills" / "operate-skillopt-ci"


def test_its_configuration_tasks_and_document_are_in_order():
    loaded = load(FOLDER / "skillopt.yaml")
    splits = load_splits(loaded.config.tasks, loaded.root)
    assert loaded.warnings == ()
    assert min(map(len, (splits.train, splits.selection, splits.test))) >= 10
    skill = FOLDER / loaded.config.skill
    assert problems(skill.read_text(encoding="utf-8"), skill) == ()


def test_the_workflow_trains_it_with_the_key_that_it_asks_for():
    text = (ROOT / ".github" / "workflows" / "train-own-skill.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["train"]["steps"]
    ours = next(step for step in steps if step.get("uses") == "./")
    assert ROOT / ours["with"]["config"] == FOLDER / "skillopt.yaml"
    target = load(FOLDER / "skillopt.yaml").config.model.target
    assert target.api_key_env in ours["env"]
