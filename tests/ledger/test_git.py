import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import objects
from skillopt_ci.git.process import Git, redact


def read_line(answers: IO[bytes]) -> bytes:
    return answers.readline()


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
        "from pathlib import Path\nfrom skillopt_ci.git.process import Git\n"
        "from skillopt_ci.errors import RepositoryError\n"
        "try: Git(Path('.')).run('version')\nexcept RepositoryError as error: print(error.message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, check=True
    )
    assert done.stdout == b"git is not installed\n"


def test_process_that_stays_answers_each_request(repository: Path) -> None:
    git = Git(repository)
    names = [
        git.ask("cat-file", "--batch-check", request=name + b"\n", answer=read_line)
        for name in (b"HEAD", b"nowhere")
    ]
    assert names[0].split()[1] == b"commit"
    assert names[1] == b"nowhere missing\n"


def test_process_that_cannot_answer_says_command_folder_and_git_s_words(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=rf"git cat-file failed in {tmp_path}: fatal: not a"):
        objects.find(Git(tmp_path), "HEAD")


def test_setting_is_asked_for_once(repository: Path) -> None:
    git = Git(repository)
    assert git.remember("config", "demo.key").status == 1
    git.run("config", "demo.key", "x")
    assert git.remember("config", "demo.key").status == 1
    assert Git(repository).remember("config", "demo.key").text == "x"


def test_git_speaks_english_to_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "de")
    said = Git(tmp_path).text("-c", "alias.said=!echo $LANGUAGE $LC_ALL", "said")
    assert said == "C C"
