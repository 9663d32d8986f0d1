"""What a machine can hold in store: files that are none, closed outputs, stray characters in keys.

Each is told in a sentence, and ends with 2 or 5 (or with 0, where nothing is lost by it).
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Done, overrides, skillopt_ci
from programs import ORDINARY

from tests.conftest import Checkout

LONG = "a" * 300
TEST = ("eval", "skills/SKILL.md", "--split", "test")


def printed(checkout: Checkout, words: str, into="", before="", **env: str) -> tuple[int, str]:
    """Run a command by a shell, which does this before and puts its output there."""
    done = subprocess.run(
        ["sh", "-c", f'{before} "$0" -m skillopt_ci {words} {into}', sys.executable],
        cwd=checkout.folder,
        env={**os.environ, **env},
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stderr.decode("utf-8", errors="replace")


def is_told(code: int, told: str) -> bool:
    """Whether something was said to a person instead of to a maintainer."""
    return code in (2, 5) and "itself failed" not in told and "Traceback" not in told


def said(done: Done) -> str:
    return f"exit {done.code}\n{done.out}{done.err}"


# --- files that never end ------------------------------------------------------------------------


def test_who_waits_for_the_cache_can_be_stopped(checkout):
    from filelock import FileLock

    place = checkout.folder.parent
    # The folder `begun` is made on the way to the file, just before its lock is asked for.
    cache = f"{place}/begun/../calls.sqlite"
    words = [sys.executable, "-m", "skillopt_ci", *TEST, "-o", f"cache.path={cache}"]
    held = FileLock(place / "calls.sqlite.lock")  # as a suspended process would hold it
    with held, subprocess.Popen(words, cwd=checkout.folder) as process:
        give_up = time.monotonic() + 120
        while not (place / "begun").exists() and process.poll() is None:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code in (2, 5, 6, 130)


def test_a_pipe_is_no_file(checkout):
    names = ("pipe.yaml", "pipe.jsonl", "prompts/target.md", "key")
    for name in names:
        (checkout.folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(checkout.folder / name)
    key = ("model.target.api_key_env=null", "model.target.api_key_file=key")
    words = overrides("skill=key", "tasks.train=pipe.jsonl", "prompts=prompts", *key)
    done = skillopt_ci(checkout.folder, "check", "--quiet", *words)
    assert done.returncode == 2
    assert done.stdout.count("It is a pipe or a device, not a file") == 4, done.stdout
    done = skillopt_ci(checkout.folder, "check", "--quiet", "-c", "pipe.yaml")
    assert is_told(done.returncode, done.stderr), done.stderr


def test_a_device_is_no_skill(checkout):
    code, told = printed(checkout, "check --quiet -o skill=/dev/zero", before="ulimit -v 1000000;")
    assert is_told(code, told), told


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stray",
    ["\u200b", "…", "\ufeff", "\n", "ä"],
    ids=["zero-width space", "ellipsis", "byte order mark", "line break", "letter"],
)
def test_a_stray_character_in_a_key_is_named_with_its_place(checkout, cli, monkeypatch, stray):
    monkeypatch.setenv("DEMO_KEY", f"sk-{'d' * 37}{stray}key")
    done = cli(checkout.folder, *TEST)
    assert (done.code, "DEMO_KEY" in done.err) == (2, True), said(done)
    # The forty-first, or number 40 for those who count from 0.
    assert re.search(r"\b4[01]\b", done.err)


# --- outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "into"),
    [
        ("config", ">&-"),
        ("config", ">/dev/full"),
        ("config", "1</dev/null"),
        ("step", ">/dev/full"),
        ("--help", ">&-"),
    ],
)
def test_an_output_that_takes_nothing_is_told(checkout, words, into):
    code, told = printed(checkout, words, into)
    assert is_told(code, told) or (code == 0 and into == ">&-"), told


def test_a_disk_without_room_for_temporary_files_is_told(checkout):
    code, told = printed(checkout, "step", before="ulimit -f 0;")
    words = ("Traceback", "Exception ignored", "temporary directory", "TMPDIR")
    assert (code, [word in told for word in words]) == (5, [False, False, True, True]), told


@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_an_output_in_ascii_is_written_to(checkout, encoding):
    code, told = printed(checkout, "check", PYTHONIOENCODING=encoding)
    assert code == 0, told


def test_a_skill_that_the_output_cannot_hold_is_not_printed(checkout, cli, monkeypatch):
    checkout.write("skills/SKILL.md", "# Straße\n")
    checkout.git("commit", "-aqm", "Umlauts")
    assert cli(checkout.folder, "step", "-o", "train.batch_size=1").code == 0
    for words in ("best", "report -O-"):
        code, told = printed(checkout, words, PYTHONIOENCODING="ascii")
        assert (code, "--output FILE" in told) == (2, True), told


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("-c", f"{LONG}.yaml", "check"),
        ("-o", f"skill={LONG}.md", "check"),
        ("init", "--yes", "-c", "x.yaml", "--skill", f"{LONG}.md"),
        ("-o", r'skill="a\0b"', "check"),
        ("-o", r'tasks.train="a\0b.jsonl"', "check"),
        ("-o", r'cache.path="a\0b"', *TEST),
        ("-o", "cache.path=/proc/x", *TEST),
        ("-o", "skill=loop", "check"),
        ("-o", r'git.author_name="a\0b"', "step"),
        ("-o", r'git.base="a\0b"', "check"),
        ("step", "--notes", "/dev/zero"),
        ("step", "--rollouts", "/dev/zero"),
        ("eval", LONG, "--split", "test"),
        ("diff", LONG),
        ("export", "--format", "skillopt", LONG),
    ],
    ids=lambda words: " ".join(words).replace(LONG, "long")[:40].replace("\\", ""),
)
def test_a_name_that_no_file_can_have_is_told(checkout, cli, words):
    (checkout.folder / "loop").symlink_to("loop")
    done = cli(checkout.folder, *words)
    assert is_told(done.code, done.out + done.err), said(done)


# --- contents ------------------------------------------------------------------------------------


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1234\n"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("more.jsonl", "check -o tasks.test=more.jsonl"),
        ("other.md", "eval other.md --split test"),
        ("skills/SKILL.md", "check"),
        ("skills/SKILL.md", "step -o train.batch_size=1 -o tasks.limit=2"),
    ],
)
def test_a_pointer_of_git_lfs_is_neither_tasks_nor_a_skill(checkout, workshop, cli, file, words):
    checkout.write(file, POINTER)
    checkout.git("add", file)
    checkout.git("commit", "--quiet", "-m", "Point")
    done = cli(checkout.folder, *words.split())
    assert (done.code, "git lfs pull" in done.out + done.err) == (2, True), said(done)
    assert workshop.server.answered.total() == 0


def test_a_skill_that_git_lfs_keeps_is_told_where_it_was_fetched(workshop, cli):
    checkout = workshop.checkout(skill=POINTER)
    checkout.write("skills/SKILL.md", "# The skill\n")
    done = cli(checkout.folder, "check")
    found = [word in done.out for word in ("is a Git LFS pointer", ".gitattributes")]
    assert (done.code, found) == (2, [True, True]), said(done)


def test_a_deeply_nested_event_is_passed_over(checkout, cli):
    assert cli(checkout.folder, *TEST).code == 0
    logs = [*(checkout.folder / ".git" / "skillopt-ci").rglob("*.jsonl")]
    assert logs
    for log in logs:
        with log.open("a", encoding="utf-8") as file:
            file.write("[" * 100_000 + "]" * 100_000 + "\n")
    done = cli(checkout.folder, "trace", "a200")
    assert done.code == 0, said(done)


@pytest.mark.parametrize(
    ("command", "read_only"), [("step", ".git"), ("check", ".git/objects"), ("step", ".git/refs")]
)
def test_a_repository_for_reading_alone_is_told(checkout, command, read_only):
    for folder, _, files in os.walk(checkout.folder / read_only):
        for path in (Path(folder), *(Path(folder, name) for name in files)):
            path.chmod(path.stat().st_mode & ~0o222)
    code, told = printed(checkout, command, before=ORDINARY)
    assert is_told(code, told), told


def test_places_where_an_ordinary_user_may_not_look_are_passed_over(checkout):
    """As /run/containerd, or root's programs on the PATH of an image with a user of its own."""
    closed, scorer = checkout.folder.parent / "closed", '{type: command, command: ["true"]}'
    closed.mkdir(mode=0)
    env = {"PATH": f"{os.environ['PATH']}:{closed}/bin", "DOCKER_HOST": f"unix://{closed}/engine"}
    assert printed(checkout, f"check -o 'scorer={scorer}'", before=ORDINARY, **env) == (0, "")
