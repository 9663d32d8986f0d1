"""A process that stays answers what it was asked, whatever happens, and never lingers."""

import os
import select
import signal
import subprocess
import sys
from typing import IO

import pytest
from programs import write_program

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import objects, refs
from skillopt_ci.git.process import BatchProcess, Git, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to 'https://me:t0/k@en@host/x' y", "to 'https://***@host/x' y"),
        ('"https://m:t0ken@a/","b@c" ssh://git@b', '"https://***@a/","b@c" ssh://***@b'),
        ("https://h/a@b http://h:80/a@b a@b.org", "https://h/a@b http://h:80/a@b a@b.org"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("\udce9", "?"),
    ],
)
def test_redaction_takes_secrets_out_of_urls(text, shown):
    assert redact(text) == shown


def test_failure_says_command_folder_and_git_s_words_or_the_signal(tmp_path, monkeypatch):
    with pytest.raises(RepositoryError, match=rf"git log failed in {tmp_path}: fatal: not a git"):
        Git(tmp_path).run("-c", "core.hooksPath=/dev/null", "log")
    with pytest.raises(RepositoryError, match=rf"git cat-file failed in {tmp_path}: fatal: not a"):
        objects.find(Git(tmp_path), "HEAD")
    write_program(tmp_path / "git", "kill -KILL $$")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RepositoryError, match=r": git was ended by signal 9 \(Killed\)$"):
        Git(tmp_path).run("status")
    write_program(tmp_path / "git", "exit 3")
    with pytest.raises(RepositoryError, match=rf"^{tmp_path}: git exited with 3$"):
        refs.toplevel(tmp_path)
    # reads first, since an interrupt that comes while git is being started is Python's own affair
    interrupts = f"read -r line; echo $$ > {tmp_path}/pid; kill -INT $PPID; exec sleep 60"
    write_program(tmp_path / "git", interrupts)
    with pytest.raises(KeyboardInterrupt):
        Git(tmp_path).run("fetch")
    assert is_gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_standard_input_reaches_git(tmp_path):
    git = Git(tmp_path)
    assert git.run("stripspace", stdin=b"a  \n\n\n\nb\n").text == "a\n\nb"
    assert [git.succeeds("check-ref-format", x) for x in ("refs/heads/x", "..")] == [True, False]
    with pytest.raises(RepositoryError):
        git.succeeds("log")


def test_missing_git_is_said(tmp_path):
    code = (
        "from pathlib import Path\nfrom skillopt_ci.cli.init import make_repository\n"
        "from skillopt_ci.errors import RepositoryError\n"
        f"try: make_repository(Path('{tmp_path}/new'))\n"
        "except RepositoryError as error: print(error.message)"
    )
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, env={"PATH": str(tmp_path)}, capture_output=True, check=True)
    assert (done.stdout, (tmp_path / "new").exists()) == (b"git is not installed\n", False)


def test_ask_answers_each_request(repository):
    git = Git(repository)
    names = [
        git.ask("cat-file", "--batch-check", request=name + b"\n", read=lambda out: out.readline())
        for name in (b"HEAD", b"nowhere")
    ]
    assert (names[0].split()[1], names[1]) == (b"commit", b"nowhere missing\n")


def test_setting_is_asked_for_once(repository):
    git = Git(repository)
    assert git.remember("config", "demo.key").status == 1
    git.run("config", "demo.key", "x")
    assert git.remember("config", "demo.key").status == 1
    assert Git(repository).remember("config", "demo.key").text == "x"


def test_git_speaks_english_to_us_and_gives_up_a_remote_that_stalls(tmp_path, monkeypatch):
    assert Git(tmp_path).run("config", "http.lowSpeedTime").text == "600"
    monkeypatch.setenv("LANGUAGE", "de")
    assert Git(tmp_path).run("-c", "alias.said=!echo $LANGUAGE $LC_ALL", "said").text == "C C"


#: Answers each line with its process id and the line.
ECHO = ("sh", "-c", 'while read -r line; do echo "$$ $line"; done')


def read_echo(answers: IO[bytes]) -> tuple[int, bytes]:
    line = answers.readline()
    if not line:
        raise EOFError
    process, _, said = line.rstrip(b"\n").partition(b" ")
    return int(process), said


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_batch_process_answers_all_requests_and_restarts_after_a_kill():
    echo = BatchProcess(ECHO, os.environ)
    answers = [echo.ask(f"{number}\n".encode(), read_echo) for number in range(3)]
    assert [said for _, said in answers] == [b"0", b"1", b"2"]
    (first,) = {process for process, _ in answers}
    os.kill(first, signal.SIGKILL)
    second, said = echo.ask(b"two\n", read_echo)
    assert (said, second != first) == (b"two", True)


def test_batch_process_drops_an_interrupted_answer():
    def interrupt(answers: IO[bytes]) -> tuple[int, bytes]:
        raise KeyboardInterrupt

    echo = BatchProcess(ECHO, os.environ)
    first, _ = echo.ask(b"one\n", read_echo)
    with pytest.raises(KeyboardInterrupt):
        echo.ask(b"two\n", interrupt)
    assert is_gone(first)
    assert echo.ask(b"three\n", read_echo)[1] == b"three"


def test_batch_process_retries_once_and_reports_stderr(tmp_path):
    script = 'read -r line; echo "$line" >> asked; echo no such luck >&2; exit 1'
    stubborn = BatchProcess(("env", "-C", str(tmp_path), "sh", "-c", script), os.environ)
    with pytest.raises(EOFError, match=r"^no such luck$"):
        stubborn.ask(b"please\n", read_echo)
    assert (tmp_path / "asked").read_text() == "please\nplease\n"


def test_batch_process_is_not_blocked_by_stderr_and_ends_when_dropped():
    noisy = BatchProcess(
        ("sh", "-c", 'while read -r line; do seq 40000 >&2; echo "$$ $line"; done'), os.environ
    )
    assert noisy.ask(b"one\n", read_echo)[1] == b"one"
    echo = BatchProcess(ECHO, os.environ)
    process, _ = echo.ask(b"one\n", read_echo)
    del echo
    assert is_gone(process)


def test_batch_process_ends_when_we_are_killed(repository):
    code = (
        "import sys, time; from pathlib import Path; from skillopt_ci.git import objects\n"
        "from skillopt_ci.git.process import Git\n"
        "git = Git(Path(sys.argv[1])); objects.find(git, 'HEAD')\n"
        "(batch,) = git.batches.values()\n"
        "print(batch.process.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, repository], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as trainer:
        git = os.pidfd_open(int(trainer.stdout.readline()))
        trainer.kill()
        assert select.select([git], [], [], 60)[0], "git is still there"
        os.close(git)
