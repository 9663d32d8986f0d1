from pathlib import Path

from skillopt_ci.demo.models import SHELL_CONVENTIONS
from skillopt_ci.demo.shell_tasks import task_files

EXAMPLE = Path(__file__).parents[4] / "examples" / "shell"


def test_the_example_has_the_tasks_that_its_seed_makes() -> None:
    for name, text in task_files().items():
        assert (EXAMPLE / name).read_text(encoding="utf-8") == text


def test_the_checker_words_its_faults_as_the_conventions_do() -> None:
    checker = (EXAMPLE / "grading" / "check.sh").read_text(encoding="utf-8")
    for convention in SHELL_CONVENTIONS:
        assert f"{convention.name}) check '{convention.failure}'" in checker
