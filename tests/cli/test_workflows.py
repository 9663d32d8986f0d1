from pathlib import Path, PurePosixPath

import pytest
import yaml

from skillopt_ci.cli.scaffold import WORKFLOWS, Place, workflow_files

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"
PLACE = Place(PurePosixPath("skillopt.yaml"), PurePosixPath("skills/a/SKILL.md"), key="A_KEY")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_is_an_example_with_other_values(name: str) -> None:
    text = workflow_files(PLACE)[f".github/workflows/skillopt-{name}.yml"]
    example = (EXAMPLES / f"{name}.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["jobs"].keys() == yaml.safe_load(example)["jobs"].keys()
    assert len(text.splitlines()) == len(example.splitlines())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_of_the_example_run_is_left(name: str) -> None:
    text = workflow_files(PLACE)[f".github/workflows/skillopt-{name}.yml"]
    assert "OPENAI_API_KEY" not in text
    assert '"skills/**"' not in text
    assert "A_KEY: ${{ secrets.A_KEY }}" in text


def test_a_model_without_a_key_needs_no_secret() -> None:
    place = Place(PurePosixPath("skillopt.yaml"), PurePosixPath("SKILL.md"))
    for text in workflow_files(place).values():
        assert "secrets." not in text
        yaml.safe_load(text)


def test_the_report_is_published_only_where_that_is_asked_for() -> None:
    name = ".github/workflows/skillopt-pages.yml"
    assert name not in workflow_files(PLACE)
    place = Place(PurePosixPath("a/skillopt.yaml"), PurePosixPath("SKILL.md"), key="A_KEY")
    files = workflow_files(place, pages=True)
    jobs = yaml.safe_load(files[name])["jobs"]
    assert "secrets." not in files[name]
    assert jobs["report"]["steps"][2]["with"] == {"config": "a/skillopt.yaml", "command": "report"}
    followed = yaml.safe_load(files[name])[True]["workflow_run"]["workflows"]
    names = {yaml.safe_load(text)["name"] for text in files.values()}
    assert set(followed) <= names


def test_names_with_quotes_stay_one_value() -> None:
    place = Place(PurePosixPath("it's/skillopt.yaml"), PurePosixPath("it's/SKILL.md"), "o'clock")
    train = yaml.safe_load(workflow_files(place)[".github/workflows/skillopt-train.yml"])
    push = train[True]["push"]  # YAML 1.1 reads the key `on` as true
    assert push == {"branches": ["o'clock"], "paths": ["it's/skillopt.yaml", "it's/tasks/**"]}
