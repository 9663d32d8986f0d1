from importlib import resources
from pathlib import Path

import pytest

from skillopt_ci.config.loading import load
from skillopt_ci.demo import EXAMPLE_FILES, write_example
from skillopt_ci.skill.validation import problems

CONFIGS = Path(__file__).parents[2] / "configs"
BUNDLED = Path(str(resources.files("skillopt_ci.demo"))) / "files"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    write_example(tmp_path / "example")
    return tmp_path / "example"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_write_example_writes_all_that_is_bundled(example):
    assert _files(example) == set(EXAMPLE_FILES) == _files(BUNDLED)
    for name in EXAMPLE_FILES:
        assert (example / name).read_bytes() == (BUNDLED / name).read_bytes()


def test_example_is_the_run_of_configs_quickstart(example):
    ours, bundled = load(CONFIGS / "quickstart.yaml"), load(example / "skillopt.yaml")
    assert ours.config == bundled.config
    assert ours.warnings == bundled.warnings == ()


def test_example_skill_is_valid(example):
    path = example / "skills/ledger/SKILL.md"
    assert problems(path.read_text(encoding="utf-8"), path) == ()
