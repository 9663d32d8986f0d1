"""Secrets planted wherever a run hears something, and a search through all that it leaves."""

import base64
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import forked
import pytest
from github_server.state import Hub

from skillopt_ci.redaction import HIDDEN
from skillopt_ci.rollout.store import unpacked
from tests.conftest import Checkout, ModelServer, Workshop

pytestmark = pytest.mark.end_to_end
#: One of the environment, one of a file, one of a program's, one of the code host's.
SECRETS = {
    "DEMO_KEY": 'planted/3c9f"1e77+key\\of%model',
    "the key file": "planted-in-a-file-5d02b8a1-ÄÖ".replace("ÄÖ", "xq"),
    "GRADER_TOKEN": "planted=of&the?grader 88aa41c0",
    "GITHUB_TOKEN": "planted_job_token_77e1f2aa90",
}
GRADER = """\
import json, os, sys
folder = sys.argv[1]
task = json.load(open(f"{folder}/task.json"))
said = open(f"{folder}/answer.txt").read().strip()
print("graded with", os.environ["GRADER_TOKEN"], file=sys.stderr)
sys.exit(0 if said in task["references"] else 1)
"""


def spellings(secret: str) -> Iterator[str]:
    """The secret as programs write it, and the inside of it in base64 at every alignment."""
    yield from (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    for shift in range(3):
        yield base64.b64encode(b"-" * shift + secret.encode()).decode()[4:-4]
        yield base64.urlsafe_b64encode(b"-" * shift + secret.encode()).decode()[4:-4]


def said(secret: str) -> Iterator[str]:
    yield from (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    for before in (b"", b"u", b"me", b"me:", b"user:"):
        yield f"Basic {base64.b64encode(before + secret.encode()).decode()}"
        yield base64.urlsafe_b64encode(before + secret.encode() + b"!").decode()


def chatter() -> str:
    return " ; ".join(f"{name}: {' '.join(said(secret))}" for name, secret in SECRETS.items())


def found_in(content: bytes) -> list[str]:
    known = [(name, one) for name, secret in SECRETS.items() for one in spellings(secret)]
    return [f"{name}: {spelling}" for name, spelling in known if spelling.encode() in content]


@pytest.fixture
def planted(
    pushed: Checkout,
    workshop: Workshop,
    github_hub: Hub,
    model_server: ModelServer,
    monkeypatch: Any,
) -> Checkout:
    """A repository on a GitHub, whose models, server and grader cannot keep a secret."""
    pushed.write("grade.py", GRADER)
    pushed.git("add", "grade.py")
    pushed.git("commit", "--quiet", "--message", "Grade by a program")
    pushed.git("push", "--quiet", "origin", "main")
    github_hub.tokens = {SECRETS["GITHUB_TOKEN"]: "github-actions[bot]"}
    (workshop.folder / "secrets").mkdir()
    key = workshop.folder / "secrets" / "key"
    key.write_text(SECRETS["the key file"] + "\n", encoding="utf-8")
    answer = model_server.answer

    def indiscreet(system: str, prompt: str) -> str:
        text = answer(system, prompt)
        if not text.startswith("{"):
            return f"{chatter()}\n{text}"
        reply = json.loads(text)
        reply["patch"]["reasoning"] = chatter()
        for edit in reply["patch"]["edits"]:
            edit["justification"] = chatter()
        return json.dumps(reply)

    monkeypatch.setattr(model_server, "answer", indiscreet, raising=False)
    model_server.edit = lambda line: {"op": "append", "content": f"- {line}"}
    echo = (500, f"cannot serve: {chatter()}")
    model_server.trouble = lambda prompt: echo if prompt.endswith("Item 3 of kind d") else None
    return pushed


def options(workshop: Workshop) -> list[str]:
    grader = [sys.executable, "grade.py", "{dir}"]
    scorer = {"type": "command", "command": grader, "answer": "tag", "env": ["GRADER_TOKEN"]}
    settings = {
        "scorer": json.dumps(scorer),
        "model.optimizer.api_key_env": "null",
        "model.optimizer.api_key_file": str(workshop.folder / "secrets" / "key"),
        "train.num_epochs": "1",
        "train.batch_size": "8",
        "evaluation.max_error_rate": "0.5",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def leftovers(workshop: Workshop, hub: Hub) -> Iterator[tuple[str, bytes]]:
    """All files of the repositories, caches and folders for temporary files, and git's objects."""
    hidden = workshop.folder / "secrets"
    for path in sorted(workshop.folder.rglob("*")):
        if path.is_file() and hidden not in path.parents:
            yield str(path), path.read_bytes()
    for folder in (workshop.folder / "repository", hub.bare.folder):
        objects = Checkout(folder).git("cat-file", "--batch-all-objects", "--batch", "--buffer")
        yield f"objects of {folder}", objects.encode("utf-8", "surrogateescape")
    shown = [hub.pulls, hub.comments, hub.reviews, hub.checks, hub.statuses, hub.events]
    yield "what GitHub shows", json.dumps(shown, default=str, ensure_ascii=False).encode()


@pytest.fixture
def environ(workshop: Workshop) -> dict[str, str]:
    """What only the environment has of the secrets, and a folder for temporary files."""
    temporary = workshop.folder / "tmp"
    temporary.mkdir()
    known = {name: SECRETS[name] for name in ("DEMO_KEY", "GRADER_TOKEN", "GITHUB_TOKEN")}
    no_proxy = os.environ.get("NO_PROXY", "") or "127.0.0.1"
    return {**known, "TMPDIR": str(temporary), "NO_PROXY": no_proxy}


def test_no_secret_is_left_anywhere(planted, workshop, github_hub, model_server, command, environ):
    note = {"id": "n1", "author": "ada", "text": f"Use this: {chatter()}", "url": "", "path": ""}
    notes = workshop.folder / "secrets" / "notes.json"
    notes.write_text(json.dumps({"notes": [note]}), encoding="utf-8")
    environ |= {"GITHUB_REPOSITORY": "octo/skills", "GITHUB_API_URL": github_hub.url}
    told = {}
    for words in (
        ("run", "-v", "--notes", str(notes)),
        ("show", "1"),
        ("report", "--json"),
        ("check", "--probe", "--json"),
        ("comment", "--publish"),
    ):
        done = command(planted, *words, *options(workshop), **environ)
        told[words[0], words[-1]] = done
        assert found_in((done.stdout + done.stderr).encode()) == [], words
    for words, done in told.items():
        assert done.returncode == 0 or words[0] == "check", done.stderr
    # the secrets were in use, and they were really said
    used = (SECRETS["DEMO_KEY"], SECRETS["the key file"])
    assert model_server.keys == {f"Bearer {key}" for key in used}
    assert planted.record(1).proposal.rollout.errors == 1
    assert HIDDEN in planted.record(1).model_dump_json()
    assert github_hub.comments
    page = (workshop.folder / "repository" / "skillopt-report.html").read_text(encoding="utf-8")
    assert HIDDEN in page.partition('id="trajectories"')[2]
    for where, content in leftovers(workshop, github_hub):
        assert found_in(content) == [], where
    # what one model blurted out is not told to another
    assert found_in("\n".join(model_server.prompts).encode()) == []
    assert any(HIDDEN in prompt for prompt in model_server.optimizer_prompts)


def test_no_secret_that_an_agent_reads_is_left_anywhere(
    planted, workshop, github_hub, command, environ
):
    """Its commands print them, and it leaves them behind in files of text and of bytes."""
    loot = workshop.folder / "secrets" / "loot"
    loot.write_text(chatter(), encoding="utf-8")
    solver = {
        "type": "scripted",
        "commands": [
            f"cat {loot}",
            f"cat {loot} > out.txt; printf 'b\\377' | cat - {loot} > out.bin; cat out.bin >&2",
        ],
        "answer": f"<answer>a0</answer> {chatter()}",
    }
    agent = {
        "rollout.solver": json.dumps(solver),
        "rollout.computer": "{type: unconfined}",
        "rollout.programs_can_read_secrets": "true",
        "rollout.task": "{artifacts: ['**']}",
    }
    given = [word for key, value in agent.items() for word in ("-o", f"{key}={value}")]
    for words in (("step", "-v"), ("trace", "a0")):
        done = command(planted, *words, *options(workshop), *given, **environ)
        assert done.returncode == 0, done.stderr
        assert found_in((done.stdout + done.stderr).encode()) == [], words
    private = planted.folder / ".git" / "skillopt-ci"
    assert HIDDEN in "".join([file.read_text("utf-8") for file in private.rglob("*.jsonl")])
    kept = sqlite3.connect(next(private.glob("*-attempts.sqlite")))
    blobs = kept.execute("SELECT artifacts FROM attempts").fetchall()
    kept.close()
    assert blobs
    for (packed,) in blobs:
        artifacts = unpacked(packed)
        assert HIDDEN.encode() in artifacts
        assert found_in(artifacts) == []
    for where, content in leftovers(workshop, github_hub):
        assert found_in(content) == [], where


# A key stays where it came from, whatever servers echo and however a command ends.

KEY = "planted-3c9f1e77-secret"


@pytest.mark.parametrize(("status", "code"), [(401, 2), (404, 2), (500, 5)])
def test_key_that_a_server_echoes_is_not_told(checkout, command, model_server, status, code):
    model_server.trouble = lambda prompt: (status, f"no such key: {KEY}")
    done = command(checkout, "step", "--json", "-v", DEMO_KEY=KEY)
    assert done.returncode == code
    assert "no such key" in done.stderr
    assert KEY not in done.stdout + done.stderr


def test_key_is_not_in_the_report_of_a_crash(checkout):
    environ = {**os.environ, "DEMO_KEY": KEY, "CI": "true"}
    done = forked.run(["-c", CRASH], cwd=checkout.folder, env=environ)
    assert done.returncode == 1
    assert "planted defect" in done.stderr
    assert KEY not in done.stderr


CRASH = f"""\
import sys
import skillopt_ci.cli.build as build
from skillopt_ci.cli.main import main
def fail(*args):
    raise RuntimeError("planted defect with {KEY}")
assert build.open_run
build.open_run = fail
sys.exit(main(["step"]))
"""
