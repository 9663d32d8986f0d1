from pathlib import Path

from skillopt_ci.config.yaml import InvalidConfigError, Mark, Problem, nearest
from skillopt_ci.errors import ExitCode

FILE = Path("a.yaml")


def test_one_line_for_each_problem_in_reading_order() -> None:
    error = InvalidConfigError(
        [
            Problem(Mark(override="x.y"), "x.y", "third"),
            Problem(Mark(FILE, 9), "b", "second"),
            Problem(Mark(FILE, 2), "", "first"),
        ]
    )
    assert str(error) == "a.yaml:2: first\na.yaml:9: b: second\n-o x.y: third"
    assert (error.file, error.line, error.exit_code) == (FILE, 2, ExitCode.USAGE)


def test_an_override_of_a_whole_section_names_the_key_inside() -> None:
    problem = Problem(Mark(override="x"), "x.y", "wrong")
    assert problem.with_place() == "-o x: x.y: wrong"


def test_the_file_alone_is_a_place() -> None:
    assert Problem(Mark(FILE), "", "empty").with_place() == "a.yaml: empty"


def test_nearest_suggests_only_what_is_near() -> None:
    assert nearest("batchsize", ["seed", "batch_size"]) == "; did you mean 'batch_size'?"
    assert nearest("zzz", ["seed", "batch_size"]) == ""
