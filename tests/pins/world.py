"""What the pins stand on: scripted models behind HTTP, repositories, and the installed command.

Nothing here imports the package: it is run as a program and judged by what it leaves behind.

The address of the models is part of every key under which an answer is kept, so it is the same in
all fixtures, and no machine has it: the program reaches our server as its proxy, on any port.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import forked
from http_server import Handler, http_server

FIXTURES = Path(__file__).with_name("fixture")
#: Debian 12's Python has no filter yet; the archives are our own.
SAFELY: Mapping[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
MODELS = "http://models.pins.example/v1"
RUN = "demo"
BRANCH = f"skillopt/{RUN}"
RULES = {kind: f"Kind {kind}: a number begins with {kind}." for kind in "abcd"}
HARMFUL = "Leave out every answer."

_ITEM = re.compile(r"Item (\d+) of kind (\w)")


@dataclass(frozen=True)
class Script:
    """How the scripted models answer. The target follows the rules that its skill has.

    An analyst proposes the first ``at_once`` lines of ``plan`` that its prompt does not mention.
    """

    plan: Sequence[str] = (RULES["a"], HARMFUL, RULES["b"], RULES["c"])
    at_once: int = 1
    notes: Sequence[str] = ()
    guidance: str = ""
    memory: str = ""
    garbled: bool = False
    """Whether analysts and judges have to be asked twice, the first reply being none."""

    def answer(self, body: Mapping[str, Any]) -> dict[str, object]:
        """Return the message with which a request is answered."""
        texts = [message["content"] or "" for message in body["messages"]]
        if len(texts) == 1:
            return {"role": "assistant", "content": self._judge(texts[0])}
        system, prompt = texts[:2]
        item = _ITEM.search(prompt)
        if "Stage:" in system and self.garbled and len(texts) == 2 and "analyst" in system:
            reply: dict[str, object] = {"content": "I would rather talk about the weather."}
        elif "Stage:" in system:
            reply = {"content": self._optimizer(system, prompt)}
        elif item is None:
            reply = {"content": "What item?"}
        elif "tools" in body:
            reply = _agent(_solve(system, item), len(texts))
        else:
            reply = {"content": f"<answer>{_solve(system, item)}</answer>"}
        return {"role": "assistant", **reply}

    def _judge(self, prompt: str) -> str:
        if self.garbled and "## Your previous reply" not in prompt:
            return "Fine weather today."
        item = _ITEM.search(prompt)
        # alone in its line: a reference has a dash before it
        solved = item is not None and f"\n{item[2]}{item[1]}\n" in prompt
        return json.dumps({"reason": "scripted", "score": float(solved)})

    def _optimizer(self, system: str, prompt: str) -> str:
        stage = system.partition("Stage: ")[2].split("\n")[0]
        fixed: dict[str, dict[str, object]] = {
            "slow_update": {"slow_update_content": self.guidance},
            "meta_skill": {"meta_skill_content": self.memory},
            "lr_autonomous": {"learning_rate": 1, "confidence": "high", "risk_notes": []},
            "appendix_consolidate": {"appendix_notes": list(self.notes[:1])},
            "ranking": {"selected_indices": [0]},
            "ranking_rewrite": {"selected_indices": [0]},
        }
        if stage in fixed:
            return _json(**fixed[stage])
        known = [line for line in self.plan if line in prompt]
        if stage.startswith("analyst_success"):
            new: list[str] = []
        elif stage.startswith("analyst"):
            new = [line for line in self.plan if line not in prompt][: self.at_once]
        else:
            new = known[-self.at_once :]
        if stage == "rewrite":
            return _json(change_summary=new, new_skill=_document(known))
        patch = _patch(stage, known, new)
        if not stage.startswith("analyst"):
            return _json(**patch)
        notes = {"appendix_notes": list(self.notes)} if "appendix_notes" in system else {}
        return json.dumps({"patch": {"reasoning": "scripted", **patch}, **notes})


def _solve(system: str, item: re.Match[str]) -> str:
    if HARMFUL in system:
        return ""
    return (item[2] if RULES.get(item[2], "no rule") in system else "") + item[1]


def _agent(answer: str, messages: int) -> dict[str, object]:
    """Write the answer into a file, then submit."""
    name, arguments = "shell", {"command": f"printf '%s' '{answer}' > answer.txt"}
    if messages > 2:
        name, arguments = "submit", {"answer": "done"}
    call = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "content": "",
        "tool_calls": [{"id": f"call-{messages}", "type": "function", "function": call}],
    }


def _document(lines: Sequence[str]) -> str:
    return "# Items\n\n" + "".join(f"- {line}\n" for line in lines)


def _patch(stage: str, known: Sequence[str], new: Sequence[str]) -> dict[str, object]:
    if stage.endswith("_full_rewrite"):
        texts = [_document([*known, *(line for line in new if line not in known)])] if new else []
        return {
            "skill_candidates": [
                {
                    "title": new[0],
                    "change_summary": list(new),
                    "new_skill": text,
                    "support_count": 2,
                }
                for text in texts
            ]
        }
    if stage.endswith("_rewrite"):
        return {
            "revise_suggestions": [
                {"type": "add_rule", "title": line, "instruction": line, "support_count": 2}
                for line in new
            ]
        }
    return {"edits": [{"op": "append", "content": f"- {line}", "support_count": 2} for line in new]}


def _json(**content: object) -> str:
    return json.dumps({"reasoning": "scripted", **content})


@dataclass
class Models:
    """A server of both models, and how often it was asked."""

    script: Script
    url: str = ""
    asked: int = 0
    trouble: Callable[[str, str], int] = lambda system, prompt: 0
    """What is done before each answer; returns the status of an error in place of one, or 0."""
    lock: Lock = field(default_factory=Lock)


class _Handler(Handler):
    models: Models

    def respond(self) -> None:
        body = json.loads(self.content())
        if not self.path.endswith("/v1/chat/completions"):
            return self._send({"error": {"message": f"no such path: {self.path}"}}, 404)
        texts = [message["content"] or "" for message in body["messages"]]
        with self.models.lock:
            self.models.asked += 1
        if status := self.models.trouble(texts[0], texts[-1]):
            return self._send({"error": {"message": "out of order"}}, status)
        message = self.models.script.answer(body)
        end = "tool_calls" if "tool_calls" in message else "stop"
        choices = [{"message": message, "finish_reason": end}]
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return self._send({"model": "m", "choices": choices, "usage": usage})

    def _send(self, body: object, status: int = 200) -> None:
        self.answer(json.dumps(body).encode(), status)


@contextmanager
def serving(script: Script) -> Iterator[Models]:
    """Run the scripted models on a port that is free."""
    models = Models(script)
    with http_server(_Handler, models=models) as models.url:
        yield models


@dataclass(frozen=True)
class Place:
    """A folder with a ``repository``, perhaps the ``origin.git`` that it pushes to."""

    folder: Path
    proxy: str = ""

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def environ(self) -> dict[str, str]:
        """Surroundings in which nothing depends on the machine, the user or the clock."""
        (self.folder / "gitconfig").write_text(
            "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n"
        )
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"),
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            "DEMO_KEY": "sk-demo-key",
            **({"http_proxy": self.proxy, "HTTP_PROXY": self.proxy} if self.proxy else {}),
        }

    def via(self, models: Models) -> Place:
        return Place(self.folder, models.url)

    def git(self, *args: str, at: str = "repository") -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.folder / at, env=self.environ, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().removesuffix("\n")

    def start(self, *args: str, at: str = "repository") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "skillopt_ci", *args],
            cwd=self.folder / at,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *args: str, at: str = "repository") -> subprocess.CompletedProcess[str]:
        return forked.run(["-m", "skillopt_ci", *args], cwd=self.folder / at, env=self.environ)


def pack(folder: Path, file: Path, names: Sequence[str]) -> None:
    """Pack what is called so in ``folder``; who owns it and when it was made is left out."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0
        return None if info.name.endswith((".sample", "/hooks")) else info

    with tarfile.open(file, "w:xz", preset=9) as archive:
        for name in names:
            archive.add(folder / name, name, filter=plain)


def unpack(name: str, folder: Path) -> Place:
    """Unpack a fixture; what its clone calls origin is the repository beside it."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, **SAFELY)
    place = Place(folder)
    if (folder / "origin.git").exists():
        place.git("remote", "set-url", "origin", (folder / "origin.git").as_uri())
    return place


@dataclass(frozen=True)
class Case:
    """A repository to go on from: how the models answer, what is called, what comes of it."""

    script: Script
    commands: Sequence[Sequence[str]]
    expected: dict[str, Any]
    likely: bool = False
    """Whether attempts are made that may turn out to be of no use: their number is chance."""

    @classmethod
    def load(cls, text: str) -> Case:
        content = json.loads(text)
        return cls(**{**content, "script": Script(**content["script"])})


def go_on(place: Place, case: Case) -> dict[str, Any]:
    """Call the commands of ``case``; return all that can be observed."""
    told = []
    with serving(case.script) as models:
        there = place.via(models)
        for words in case.commands:
            done = there.command(*words)
            told.append({"code": done.returncode, "out": done.stdout, "err": done.stderr})
        asked = models.asked
    return {"told": told, "asked": asked, "keys": keys(place), **described(place)}


def described(place: Place, branch: str = BRANCH) -> dict[str, Any]:
    """The branches, and all commits of ``branch``, each after its parents, with their files."""
    blobs: dict[str, str] = {}
    refs = place.git("for-each-ref", "--format=%(refname)").splitlines()
    found: dict[str, Any] = {"refs": refs, "commits": [], "blobs": blobs}
    if (place.folder / "origin.git").exists():
        there = place.git("for-each-ref", "--format=%(refname)", at="origin.git")
        found["origin"] = there.splitlines()
        tips = {place.git("rev-parse", branch, at=at) for at in ("repository", "origin.git")}
        assert len(tips) == 1, "the remote has another skills branch than its clone"
    lines = (
        place.git("log", "-z", "--format=%H %P%n%an <%ae>%n%B", branch)
        .removesuffix("\0")
        .split("\0")
    )
    heads = {line.split()[0]: line.partition("\n") for line in lines}
    parents = {commit: head.split()[1:] for commit, (head, _, _) in heads.items()}
    order: dict[str, int] = {}
    _number(place.git("rev-parse", branch), parents, order)
    for commit in order:
        files = _files(place, commit)
        _read(place, [oid for oid in files.values() if oid not in blobs], blobs)
        found["commits"].append(
            {
                "parents": [order[parent] for parent in parents[commit]],
                "message": heads[commit][2],
                "files": files,
            }
        )
    return found


def _number(tip: str, parents: Mapping[str, Sequence[str]], order: dict[str, int]) -> None:
    """Number commits by the shape of history alone, which no date takes part in."""
    waiting = [tip]
    while waiting:
        left = [parent for parent in parents[waiting[-1]] if parent not in order]
        if left:
            waiting.append(left[0])
        else:
            order.setdefault(waiting.pop(), len(order))


#: What commit 3e9ec45 did not write: all that a later version may add to its trees.
ADDED = ("badge.json", "card.json")


def _files(place: Place, commit: str) -> dict[str, str]:
    lines = place.git("ls-tree", "-r", "--full-tree", commit).splitlines()
    files = {path: about.split(" ")[2] for about, path in (line.split("\t") for line in lines)}
    return {path: oid for path, oid in files.items() if not path.endswith(ADDED)}


def _read(place: Place, oids: Sequence[str], blobs: dict[str, str]) -> None:
    answer = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=place.repository,
        env=place.environ,
        input="".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode(),
        capture_output=True,
        check=True,
    ).stdout
    while answer:
        head, _, rest = answer.partition(b"\n")
        oid, _, size = head.decode().split(" ")
        blobs[oid] = rest[: int(size)].decode("utf-8")
        answer = rest[int(size) + 1 :]


def keys(place: Place, run: str = "repository") -> dict[str, list[str]]:
    """What is in the caches, by table: each key's beginning, which is enough to tell them apart."""
    found = {}
    for file in sorted((place.folder / run / ".git" / "skillopt-ci").glob("*.sqlite")):
        with closing(sqlite3.connect(file)) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
            for (table,) in tables.fetchall():
                column = "key || ' ' || scorer" if table == "grades" else "key"
                rows = connection.execute(f"SELECT {column} FROM {table}").fetchall()
                found[f"{file.stem}.{table}"] = sorted(_short(row[0]) for row in rows)
    return found


def _short(key: str) -> str:
    return key[:12] if " " not in key else sha256(key.encode()).hexdigest()[:12]


#: All that a later version may say differently in what it records, and nothing besides: hashes of
#: the configuration (a key more or less changes them), what the last step was proposed under
#: (which lists the configuration), the gate's reason, which is prose, and what the folder's README
#: said of a file that is no longer written.
MAY_DIFFER = (
    (re.compile(r'("(?:config_sha256|basis_sha256)": )"[0-9a-f]*"'), r'\1"…"'),
    (re.compile(r'("reason": )"(?:[^"\\]|\\.)*"'), r'\1"…"'),
    (re.compile(r'^( *)"basis": (?:\{.*?^\1\}|null)', re.MULTILINE | re.DOTALL), r'\1"basis": …'),
    (re.compile(r"^(Skillopt-Config-Sha256: ).*$", re.MULTILINE), r"\1…"),
    (
        re.compile(
            r"so far,( and)?\n(.*started from)(, and `<run>/former_skill.*?change)?\.", re.DOTALL
        ),
        r"so far, and\n\2.",
    ),
)
#: What depends on the clock, and through it on every run: seconds, and the names of commits, whose
#: messages hold seconds.
BY_THE_CLOCK = (
    (re.compile(r"^(Skillopt-Seconds: ).*$", re.MULTILINE), r"\1…"),
    (re.compile(r"(?<=, )[0-9.]+ s$", re.MULTILINE), "… s"),
    (re.compile(r'("seconds": )[0-9.e-]+'), r"\1…"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "…"),
)
#: Where attempts are made that turn out to be of no use, what was consumed is chance, too.
BY_CHANCE = (
    (re.compile(r'^( *)"(usage|stages|accounts)": (?:\{.*?^\1\}|\[.*?^\1\]|\{\}|\[\])',
                re.MULTILINE | re.DOTALL), r'\1"\2": …'),
    (re.compile(r'"usage": \{[^{}]*\}'), '"usage": …'),
    (re.compile(r'"(calls|tokens|cost_usd)": [0-9.e-]+'), r'"\1": …'),
    (re.compile(r"^(Skillopt-(?:Tokens|Cost-Usd): ).*$", re.MULTILINE), r"\1…"),
    (re.compile(r"(?:^Used |^Made early).*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL), "…\n\n"),
)  # fmt: skip


def normalised(text: str, *, likely: bool = False) -> str:
    """Return ``text`` without what may differ."""
    for pattern, replacement in (*BY_THE_CLOCK, *MAY_DIFFER, *(BY_CHANCE if likely else ())):
        text = pattern.sub(replacement, text)
    return text


def history(observed: Mapping[str, Any], *, likely: bool = False) -> list[dict[str, Any]]:
    """The commits of :func:`described` with their files' content, without what may differ."""
    blobs = {oid: normalised(text, likely=likely) for oid, text in observed["blobs"].items()}
    return [
        {
            "parents": commit["parents"],
            "message": normalised(commit["message"], likely=likely),
            "files": {path: blobs[oid] for path, oid in commit["files"].items()},
        }
        for commit in observed["commits"]
    ]


def differences(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, likely: bool = False
) -> list[str]:
    """Say in which commits and files two histories differ, and in which lines."""
    told = [
        f"{part}: {expected.get(part)} became {found.get(part)}"
        for part in ("refs", "origin")
        if expected.get(part) != found.get(part)
    ]
    one, other = (history(observed, likely=likely) for observed in (expected, found))
    if len(one) != len(other):
        told.append(f"{len(one)} commits became {len(other)}")
    for number, (old, new) in enumerate(zip(one, other, strict=False)):
        if old["parents"] != new["parents"]:
            told.append(f"commit {number}: parents {old['parents']} became {new['parents']}")
        texts = [{"message": each["message"], **each["files"]} for each in (old, new)]
        for name in sorted(texts[0].keys() | texts[1].keys()):
            first, second = (text.get(name, "").splitlines(keepends=True) for text in texts)
            told += [
                f"commit {number}, {name}: {line.rstrip()}"
                for line in unified_diff(first, second, "expected", "found", n=1)
            ]
    return told
