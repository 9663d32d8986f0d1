"""Real repositories, each test its own, under the git configuration of a user of many settings."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from http_server import Handler, http_server
from programs import write_program

from skillopt_ci.config import config
from skillopt_ci.ledger.ledger import Ledger

SKILL = "skills/SKILL.md"
#: An identity, and what changes the output of git's commands and what they do with a repository.
GIT_CONFIG = """\
[user]
name = Ada
email = ada@example.org
[init]
defaultBranch = main
[color]
ui = always
[column]
ui = always
[core]
abbrev = 5
logAllRefUpdates = always
[diff]
algorithm = histogram
context = 0
mnemonicPrefix = true
noprefix = true
renames = copies
[fetch]
prune = true
writeCommitGraph = true
[format]
pretty = fuller
[log]
abbrevCommit = true
date = relative
decorate = full
follow = true
showSignature = true
[merge]
conflictStyle = diff3
ff = only
[pull]
ff = only
[push]
followTags = true
[rerere]
enabled = true
[status]
showUntrackedFiles = no
[submodule]
recurse = true
"""


@dataclass(frozen=True)
class Bench:
    """What users and other runs do to repositories, with the git that they use."""

    folder: Path
    skill: str = SKILL

    def git(self, repository: Path, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=repository, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def save(self, repository: Path, path: str, text: str) -> str:
        """Commit a file in the checkout and return the commit."""
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text, encoding="utf-8")
        self.git(repository, "add", path)
        self.git(repository, "commit", "--quiet", "-m", f"Change {path}")
        return self.git(repository, "rev-parse", "HEAD")

    def publish(self, repository: Path, path: str, text: str) -> str:
        """Commit a file and push it to main."""
        commit = self.save(repository, path, text)
        self.git(repository, "push", "--quiet", "origin", "HEAD:main")
        return commit

    def clone(self, origin: Path, name: str, *options: str) -> Path:
        folder = self.folder / name
        self.git(origin, "clone", "--quiet", *options, origin.as_uri(), str(folder))
        return folder

    def hook(self, git_dir: Path, name: str, script: str) -> Path:
        return write_program(git_dir / "hooks" / name, script)

    def ref(self, repository: Path, name: str) -> str:
        """Return where a ref is, nothing if it does not exist."""
        return self.git(repository, "for-each-ref", "--format=%(objectname)", name)

    def open(self, folder: Path, **settings: str | None) -> Ledger:
        return Ledger.open(folder, "demo", config.Git.model_validate(settings))

    def written(self, folder: Path, text: str) -> tuple[Ledger, str]:
        ledger = self.open(folder)
        return ledger, self.step(ledger, text)

    def proposed(self, folder: Path, text: str) -> tuple[Ledger, str]:
        ledger, candidate = self.written(folder, text)
        ledger.push_candidate(candidate)
        return ledger, candidate

    def trained(self, folder: Path, text: str) -> tuple[Ledger, str]:
        ledger = self.open(folder)
        return ledger, self.train(ledger, text)

    def step(self, ledger: Ledger, text: str) -> str:
        """Write, but do not publish, a commit that changes the skill."""
        head = ledger.sync().head
        return ledger.commit((head,), head, {self.skill: text}, f"Write {text}")

    def train(self, ledger: Ledger, text: str) -> str:
        """Do a whole step that is accepted and return the new tip."""
        position = ledger.sync()
        candidate = self.step(ledger, text)
        ledger.push_candidate(candidate)
        tip = ledger.commit((position.head, candidate), candidate, {}, f"Merge {text}")
        ledger.advance(position.tip, tip, candidate)
        return tip


@pytest.fixture(autouse=True)
def git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give git a home of its own, with an identity; returns its configuration file."""
    file = tmp_path / "home" / ".gitconfig"
    file.parent.mkdir()
    file.write_text(GIT_CONFIG)
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    return file


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Hands on repositories below the test's folder."""
    return Bench(tmp_path)


@pytest.fixture
def repository(tmp_path: Path, bench: Bench) -> Path:
    """A repository with a skill on main and no remote."""
    folder = tmp_path / "repository"
    folder.mkdir()
    bench.git(folder, "init", "--quiet")
    bench.save(folder, SKILL, "# Skill\n")
    return folder


@pytest.fixture
def origin(tmp_path: Path, repository: Path, bench: Bench) -> Path:
    """A bare remote with the same content."""
    folder = tmp_path / "origin.git"
    bench.git(repository, "clone", "--quiet", "--bare", ".", str(folder))
    return folder


@pytest.fixture
def here(origin: Path, bench: Bench) -> Path:
    """A clone of the remote."""
    return bench.clone(origin, "here")


@pytest.fixture
def elsewhere(origin: Path, bench: Bench) -> Path:
    """Another clone of the remote."""
    return bench.clone(origin, "elsewhere")


class _Refusing(Handler):
    """Answers ``/<status>/…`` with that status."""

    def respond(self) -> None:
        self.send_error(int(self.path.split("/")[1]))


@pytest.fixture
def refusing_server() -> Iterator[str]:
    """The address of a server that answers ``/<status>/…`` with that status."""
    with http_server(_Refusing) as url:
        yield url
