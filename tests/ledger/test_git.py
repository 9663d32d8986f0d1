import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.git import Git, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to https://me:t0ken@host/x y", "to https://***@host/x y"),
        ("https://t0ken@a and ssh://git@b", "https://***@a and ssh://***@b"),
        ("https://host/a@b ada@example.org", "https://host/a@b ada@example.org"),
        ("\udce9", "?"),
    ],
)
def test_redaction_takes_secrets_out_of_urls(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_failure_says_command_folder_and_git_s_words(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=rf"git log failed in {tmp_path}: fatal: not a git"):
        Git(tmp_path).run("log")


def test_standard_input_reaches_git(tmp_path: Path) -> None:
    assert Git(tmp_path).text("stripspace", stdin=b"a  \n\n\n\nb\n") == "a\n\nb"


def test_no_is_not_an_error_but_failure_is(tmp_path: Path) -> None:
    git = Git(tmp_path)
    assert git.succeeds("check-ref-format", "refs/heads/x")
    assert not git.succeeds("check-ref-format", "..")
    with pytest.raises(RepositoryError):
        git.succeeds("log")


def test_missing_git_is_said(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom skillopt_ci.ledger.git import Git\n"
        "from skillopt_ci.errors import RepositoryError\n"
        "try: Git(Path('.')).run('version')\nexcept RepositoryError as error: print(error.message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, check=True
    )
    assert done.stdout == b"git is not installed\n"


def test_import_does_not_load_gitpython() -> None:
    code = "import sys, skillopt_ci.ledger.ledger; print('git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"
