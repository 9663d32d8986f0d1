"""Two processes at the same time: two runs of one configuration, in one clone or two; one run."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import Finished, in_process, overrides, skillopt_ci
from faulty_server import FAULTS, FaultyServer
from serving import running
from simulated_server import SimulatedServer

from skillopt_ci.cli.init import make_repository
from skillopt_ci.git.process import Git
from skillopt_ci.model import retry
from tests.conftest import Checkout

pytestmark = pytest.mark.end_to_end
RUNS = """
runs:
  - {run: left, skill: skills/ledger/SKILL.md}
  - {run: right, skill: skills/right/SKILL.md, train: {seed: 7}}
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The quickstart's material for two runs, with a remote."""
    folder = tmp_path / "clone"
    make_repository(folder)
    config = folder / "skillopt.yaml"
    text = config.read_text(encoding="utf-8")
    for old, new in (
        ("run: quickstart\nskill: skills/ledger/SKILL.md\n", ""),
        ("num_epochs: 3", "num_epochs: 1"),
        ("batch_size: 16", "batch_size: 8"),
        ("scorer:", "  limit: 16\nscorer:"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    config.write_text(text + RUNS, encoding="utf-8")
    skill = (folder / "skills" / "ledger" / "SKILL.md").read_text(encoding="utf-8")
    (folder / "skills" / "right").mkdir()
    (folder / "skills" / "right" / "SKILL.md").write_text(
        skill.replace("name: ledger", "name: right"), encoding="utf-8"
    )
    git = Git(folder)
    git.run("add", "--all")
    git.run("commit", "--quiet", "-m", "Two skills")
    git.run("init", "--quiet", "--bare", "--initial-branch=main", str(tmp_path / "remote.git"))
    git.run("remote", "add", "origin", str(tmp_path / "remote.git"))
    git.run("push", "--quiet", "origin", "HEAD")
    return folder


def together(word: str, *asked: tuple[Path, str]) -> list[Finished]:
    options = ("--json", "--no-progress", "-o", "evaluation.eval_test=false")
    with ThreadPoolExecutor() as pool:
        return [*pool.map(lambda one: skillopt_ci(one[0], word, "--run", one[1], *options), asked)]


def second(clone: Path) -> Path:
    """Another clone of the same remote, as another machine has it."""
    other = clone.with_name("other")
    Git(clone.parent).run("clone", "--quiet", str(clone.parent / "remote.git"), str(other))
    for key, value in (("user.name", "Ada"), ("user.email", "ada@localhost")):
        Git(other).run("config", key, value)
    return other


def remote_text(clone: Path, *words: str) -> str:
    return Git(clone.parent / "remote.git").run(*words).text


def history(clone: Path, run: str) -> list[tuple[str, int]]:
    """Kind and step of each event of the run, as the remote has it."""
    lines = remote_text(clone, "show", f"skillopt/{run}:.skillopt/{run}/history.jsonl").splitlines()
    return [(one["kind"], one["step"]) for one in map(json.loads, lines)]


def test_neither_steps_on_the_other(clone):
    both = together("step", (clone, "left"), (clone, "right"))
    assert [done.returncode for done in both] == [0, 0], both
    commits = [json.loads(done.stdout)["commit"] for done in both]
    git = Git(clone)
    for name, commit, other in (("left", commits[0], "right"), ("right", commits[1], "left")):
        there = git.run("ls-remote", "origin", f"refs/heads/skillopt/{name}").text.split()[0]
        assert there == commit == git.run("rev-parse", f"skillopt/{name}").text
        files = git.run("ls-tree", "-r", "--name-only", commit).text.splitlines()
        assert f".skillopt/{name}/state.json" in files
        assert f".skillopt/{other}/state.json" not in files


@pytest.mark.parametrize("places", ["one clone", "two clones"])
def test_whole_runs_end_as_if_each_were_alone(clone, places):
    base = remote_text(clone, "rev-parse", "main")
    there = clone if places == "one clone" else second(clone)
    both = together("run", (clone, "left"), (there, "right"))
    assert [done.returncode for done in both] == [0, 0], both
    alone = ["start", "step", "step", "slow_update", "confirm"]
    for name, other in (("left", "skills/right"), ("right", "skills/ledger")):
        assert [kind for kind, _ in history(clone, name)] == alone
        changed = remote_text(clone, "diff", "--name-only", "main", f"skillopt/{name}", "--", other)
        assert changed == ""
    refs = remote_text(clone, "for-each-ref", "--format=%(refname:short)").splitlines()
    assert refs == ["main", "skillopt/left", "skillopt/right"]
    assert remote_text(clone, "rev-parse", "main") == base
    for folder in {clone, there}:
        assert Git(folder).run("status", "--porcelain").text == ""


def test_one_run_from_two_clones_does_each_step_once(clone):
    both = together("run", (clone, "left"), (second(clone), "left"))
    codes = {done.returncode for done in both}
    # who comes last may find everything done, or give up after races lost one after another
    assert codes <= {0, 3, 6}, both
    assert 0 in codes, both
    events = history(clone, "left")
    assert [number for kind, number in events if kind == "step"] == [1, 2]
    assert [kind for kind, _ in events].count("slow_update") == 1
    # only who gave up may leave its candidate, and the next run puts that aside
    left = "skillopt-candidate" in remote_text(clone, "for-each-ref")
    assert not left or 6 in codes, both
    (after,) = together("run", (clone, "left"))
    assert after.returncode in (0, 3), after
    assert "skillopt-candidate" not in remote_text(clone, "for-each-ref")


def test_a_command_without_a_name_asks_which_run(clone):
    done = skillopt_ci(clone, "step")
    assert done.returncode == 2
    assert "which run? Name one with --run: left, right" in done.stderr


# A server that fails in a fifth of all tries changes nothing but the time it takes.


def train(checkout: Checkout, url: str) -> list[dict[str, object]]:
    make_repository(checkout.folder)
    settings = [f"model.{role}={{provider: openai, model: simulated-{role}, base_url: {url}}}"
                for role in ("target", "optimizer")]  # fmt: skip
    settings += ["tasks.limit=12", "train.batch_size=6", "train.num_epochs=1"]
    done = in_process(checkout.folder, "run", "--json", *overrides(*settings))
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    return [{**step, "seconds": None, "commit": None} for step in steps]


def test_verdicts_and_trees_are_those_of_a_run_without_faults(workshop, monkeypatch):
    monkeypatch.setattr(retry, "backoff", lambda *_: 0.0)
    calm, stormy = workshop.place("calm"), workshop.place("stormy")
    with running(SimulatedServer()) as url:
        expected = train(calm, url)
    faulty = FaultyServer(rate=0.2)
    with running(faulty, int(url.rpartition(":")[2].removesuffix("/v1"))) as url:
        assert train(stormy, url) == expected
    assert set(faulty.faults) == set(FAULTS)
    assert stormy.trees("skillopt/quickstart") == calm.trees("skillopt/quickstart")
