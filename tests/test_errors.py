from pathlib import Path

import pytest

from skillopt_ci import errors
from skillopt_ci.errors import ConfigError, SkilloptError


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UsageError", 2),
        ("ConfigError", 2),
        ("TaskFileError", 2),
        ("SkillError", 2),
        ("RepositoryError", 2),
        ("ModelSetupError", 2),
        ("BudgetExhausted", 4),
        ("InfrastructureError", 5),
        ("TooManyErrors", 5),
        ("PushRefused", 5),
        ("LostRace", 6),
    ],
)
def test_every_error_ends_with_its_documented_exit_code(name, code):
    error = getattr(errors, name)("what happened")
    assert isinstance(error, SkilloptError)
    assert error.exit_code == code


def test_the_hint_follows_the_message():
    error = SkilloptError("It broke.", hint="Mend it.")
    told = (error.message, error.hint, str(error))
    assert told == ("It broke.", "Mend it.", "It broke.\nMend it.")
    assert str(SkilloptError("It broke.")) == "It broke."


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        (Path("a.yaml"), 3, "a.yaml:3: wrong"),
        (Path("a.yaml"), None, "a.yaml: wrong"),
        (None, 3, "wrong"),
    ],
)
def test_a_located_error_begins_with_its_place(file, line, expected):
    error = ConfigError("wrong", file=file, line=line)
    assert error.message == expected
    assert (error.file, error.line) == (file, line)
