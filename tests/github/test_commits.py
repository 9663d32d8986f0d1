import subprocess
from base64 import b64encode
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from github_server.scene import SKILL, Scene

from skillopt_ci.cli.build import open_ledger
from skillopt_ci.config import config
from skillopt_ci.config.loading import load
from skillopt_ci.errors import LostRace, UsageError
from skillopt_ci.github.client import Refused
from skillopt_ci.github.commits import ApiCommits
from skillopt_ci.ledger.ledger import Ledger

BASIC = b64encode(b"x-access-token:job").decode()


@dataclass(frozen=True)
class Clone:
    """A clone over HTTP whose ledger has its commits made by the API."""

    folder: Path
    ledger: Ledger

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.folder, capture_output=True, check=True)
        return done.stdout.decode().rstrip("\n")

    def step(self, text: str) -> str:
        position = self.ledger.sync()
        head = position.head
        candidate = self.ledger.commit((head,), head, {SKILL: text}, f"Write {text}")
        self.ledger.push_candidate(candidate)
        tip = self.ledger.commit((head, candidate), candidate, {}, f"Merge {text}")
        self.ledger.advance(position.tip, tip, candidate)
        return tip


@pytest.fixture
def clone(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    file = tmp_path / "gitconfig"
    file.write_text(
        f"[user]\nname = Ada\nemail = ada@example.org\n"
        f"[http]\nextraHeader = Authorization: Basic {BASIC}\n"
    )
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    url, folder = f"{scene.hub.url}/{scene.hub.name}.git", tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", url, str(folder)], check=True)
    ledger = Ledger.open(folder, "demo", config.Git())
    return Clone(folder, replace(ledger, write_commit=ApiCommits(scene.client(), "origin")))


def test_steps_are_made_by_github_known_here_and_follow_each_other(scene, clone):
    first, second = clone.step("better\n"), clone.step("best\n")
    assert scene.hub.bare.has(second, first)
    assert scene.hub.bare.tip("skillopt/demo") == second == clone.ledger.sync().tip
    log = clone.git("log", "--first-parent", "--format=%s, %an %cn", second)
    by = ", github-actions[bot] GitHub"
    assert log.splitlines()[:2] == [f"Merge best{by}", f"Merge better{by}"]
    # nothing is left of the temporary refs
    refs = scene.hub.bare.git("for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/heads/main", "refs/heads/skillopt/demo"]
    assert "skillopt-ci" not in clone.git("for-each-ref")


def test_the_tree_is_the_very_one(clone):
    changes = {SKILL: None, "a b/ü.md": "x\n", ".skillopt/demo/state.json": "{}\n"}
    head = clone.ledger.sync().head
    made = clone.ledger.commit((head,), head, changes, "Change")
    plain = Ledger.open(clone.folder, "demo", config.Git())
    assert clone.git("rev-parse", f"{made}^{{tree}}") == clone.git(
        "rev-parse", f"{plain.commit((head,), head, changes, 'Change')}^{{tree}}"
    )


def test_lost_answers_are_asked_for_again(scene, clone):
    for kind in ("blobs", "trees", "commits", "refs"):
        scene.hub.fail(f"POST /git/{kind}", 502, after=True)
    scene.hub.fail("DELETE /git/refs/{ref}", 502, after=True)
    tip = clone.step("better\n")
    assert scene.hub.bare.tip("skillopt/demo") == tip


def test_another_run_that_was_quicker_wins(scene, clone):
    position = clone.ledger.sync()
    made = clone.ledger.commit((position.head,), position.head, {SKILL: "x\n"}, "Write x")
    scene.step("quicker\n")
    with pytest.raises(LostRace):
        clone.ledger.advance(position.tip, made)


def test_the_missing_permission_is_named(scene, clone):
    scene.hub.permissions["contents"] = "read"
    with pytest.raises(Refused, match="Grant `contents: write`"):
        clone.step("better\n")


CONFIG = f"""
run: demo
skill: {SKILL}
tasks: {{path: tasks.jsonl}}
model:
  target: {{provider: simulated, model: m}}
  optimizer: {{provider: simulated, model: m}}
git: {{commits: api}}
"""


def test_the_configuration_asks_for_it(scene, clone):
    (clone.folder / "skillopt.yaml").write_text(CONFIG, encoding="utf-8")
    environ = {"GITHUB_REPOSITORY": scene.hub.name, "GITHUB_TOKEN": "job"}
    environ["GITHUB_API_URL"] = scene.hub.url
    ledger = open_ledger(load(clone.folder / "skillopt.yaml"), environ)
    head = ledger.sync().head
    made = ledger.commit((head,), head, {SKILL: "better\n"}, "Write")
    assert scene.hub.bare.git("log", "-1", "--format=%cn", made) == "GitHub"


@pytest.mark.parametrize(
    ("overrides", "lacks"), [((), "GITHUB_REPOSITORY"), (("git.remote=null",), "needs a remote")]
)
def test_without_a_token_or_a_remote_it_cannot_be(clone, overrides, lacks):
    (clone.folder / "skillopt.yaml").write_text(CONFIG, encoding="utf-8")
    with pytest.raises(UsageError, match=lacks):
        open_ledger(load(clone.folder / "skillopt.yaml", overrides), {})
