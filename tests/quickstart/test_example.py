from importlib import resources
from pathlib import Path

import pytest

from skillopt_ci.config.loading import load
from skillopt_ci.demo.models import stances
from skillopt_ci.demo.quickstart import EXAMPLE_FILES, SIZES, task_files, write_example
from skillopt_ci.errors import UsageError
from skillopt_ci.skill.validation import problems

CONFIGS = Path(__file__).parents[2] / "configs"
BUNDLED = Path(str(resources.files("skillopt_ci.demo"))) / "files"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    write_example(tmp_path / "example")
    return tmp_path / "example"


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_bundled_is_written_and_nothing_else(example: Path) -> None:
    assert _files(example) == set(EXAMPLE_FILES) == _files(BUNDLED)
    for name in EXAMPLE_FILES:
        assert (example / name).read_bytes() == (BUNDLED / name).read_bytes()


def test_an_existing_file_is_kept_and_named(tmp_path: Path) -> None:
    (tmp_path / "skillopt.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"skillopt\.yaml"):
        write_example(tmp_path)
    assert _files(tmp_path) == {"skillopt.yaml"}
    assert (tmp_path / "skillopt.yaml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", task_files())
def test_the_task_files_are_those_of_the_seed(name: str) -> None:
    current = (BUNDLED / name).read_text(encoding="utf-8")
    hint = "run `python -m skillopt_ci.demo.quickstart`"
    assert current == task_files()[name], hint


def test_the_splits_are_as_large_as_promised() -> None:
    sizes = {name: text.count("\n") for name, text in task_files().items()}
    assert sizes == {f"tasks/{split}.jsonl": size for split, size in SIZES.items()}


def test_the_example_is_the_run_of_configs_quickstart(example: Path) -> None:
    ours, bundled = load(CONFIGS / "quickstart.yaml"), load(example / "skillopt.yaml")
    assert ours.config == bundled.config
    assert ours.warnings == bundled.warnings == ()


def test_the_skill_is_a_valid_agent_skill(example: Path) -> None:
    path = example / "skills/ledger/SKILL.md"
    assert problems(path.read_text(encoding="utf-8"), path) == ()


def test_the_skill_knows_one_convention_and_lacks_the_others(example: Path) -> None:
    said = stances((example / "skills/ledger/SKILL.md").read_text(encoding="utf-8"))
    assert {name for name, taken in said.items() if taken} == {"separator"}
