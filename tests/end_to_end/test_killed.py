"""kill -9 at any instant: the next run ends with the same commits and asks nothing twice."""

import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import forked
import pytest
import simulated_modes  # noqa: F401 - teaches the simulated optimizer
from computer_kinds import eventually
from programs import write_program
from serving import running
from simulated_server import SimulatedServer

from skillopt_ci.cli.init import make_repository
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Event, Observer, StageFinished
from tests.conftest import BRANCH, Checkout, Workshop, opened

pytestmark = pytest.mark.end_to_end
#: The finished stages of a baseline and of two steps, the one merged and the other reverted.
STAGES = [
    "baseline selection",
    *(
        f"step {step}: {stage}"
        for step in (1, 2)
        for stage in (
            "rollout", "reflect", "aggregate", "select", "update", "candidate", "selection",
            "gate", "decide",
        )
    ),
]  # fmt: skip

#: Those after which a kill leaves something of its own. Proposing is alike in both steps, and what
#: asks no model and moves no branch (select, update, gate) leaves what the stage before it left.
TRIED = [
    number
    for number, stage in enumerate(STAGES, start=1)
    if not stage.endswith((": select", ": update", ": gate"))
    and stage not in {"step 2: reflect", "step 2: aggregate"}
]


#: These two steps and no more.
SHORT = ("num_epochs: 2", "num_epochs: 1")


@dataclass(frozen=True)
class Twin:
    """What an uninterrupted run left behind, and what each stage's end found asked ahead.

    Analysts are asked before the rollouts end, a candidate is tried before it is pushed, and the
    next batch is rolled out while a decision is committed.
    """

    trees: list[str]
    usage: list[Usage]
    answered: Counter[str]
    ahead: dict[str, set[str]] = field(default_factory=dict)


def twin_of(checkout: Checkout, shared: Workshop) -> Twin:
    return Twin(checkout.trees(), used(checkout), shared.server.answered.copy())


def used(checkout: Checkout) -> list[Usage]:
    return [entry.usage for entry in checkout.history()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """One server for all runs, since its address is part of the configuration."""
    with opened(tmp_path_factory.mktemp("shared")) as workshop:
        yield workshop


@pytest.fixture(scope="module")
def twin(shared: Workshop) -> Twin:
    checkout, server = configured(shared.checkout("twin"), SHORT), shared.server
    server.answered.clear()
    marks, at = list[tuple[str, int]](), len(server.prompts)

    def observe(event: Event) -> None:
        if isinstance(event, StageFinished) and len(marks) < len(STAGES):
            marks.append((STAGES[len(marks)], len(server.prompts)))

    checkout.run(observer=observe)
    ends, ahead = dict(marks), dict[str, set[str]]()
    for step in (1, 2):
        begun = ends[f"step {step - 1}: decide"] if step > 1 else at
        asked = server.prompts[begun : ends[f"step {step}: reflect"]]
        ahead[f"step {step}: rollout"] = {one for one in asked if "Stage: analyst" in one}
        tried = server.prompts[ends[f"step {step}: select"] : ends[f"step {step}: selection"]]
        ahead[f"step {step}: candidate"] = {one for one in tried if "Stage:" not in one}
    for stage, begun in ((STAGES[0], STAGES[0]), ("step 1: decide", "step 1: gate")):
        batch = server.prompts[ends[begun] : ends[f"step {1 + (stage != begun)}: rollout"]]
        ahead[stage] = {one for one in batch if "Stage:" not in one}
    return replace(twin_of(checkout, shared), ahead=ahead)


def clone_of(shared: Workshop, name: str) -> Checkout:
    """A clone of a remote of its own; what the server is asked from now on is counted afresh."""
    clone = shared.clone(shared.origin(f"{name}.git"), name)
    shared.server.answered.clear()
    return clone


def configured(checkout: Checkout, *changes: tuple[str, str]) -> Checkout:
    """The same, with these words of its configuration replaced."""
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in config
        config = config.replace(old, new)
    checkout.write("skillopt.yaml", config)
    return checkout


@pytest.fixture
def clone(shared: Workshop, tmp_path: Path) -> Checkout:
    return configured(clone_of(shared, tmp_path.name), SHORT)


def assert_equal_to(twin: Twin, checkout: Checkout, shared: Workshop) -> None:
    assert checkout.trees() == twin.trees
    assert used(checkout) == twin.usage
    assert shared.server.answered == twin.answered
    assert checkout.ref("skillopt-candidate/demo") == ""
    tip = checkout.ref(BRANCH)
    assert checkout.git("ls-remote", "origin", f"refs/heads/{BRANCH}").startswith(tip)


@pytest.mark.parametrize("stage", TRIED, ids=[STAGES[number - 1] for number in TRIED])
def test_killed_after_a_stage(twin, clone, shared, train_until_killed, stage, monkeypatch):
    name = STAGES[stage - 1]
    held = twin.ahead.get(name, set[str]())
    assert held or name not in twin.ahead
    go_on = hold(held, shared, monkeypatch)
    train_until_killed(clone, stage)
    clone.run(observer=go_on)
    assert_equal_to(twin, clone, shared)


def hold(prompts: set[str], shared: Workshop, patch: pytest.MonkeyPatch) -> Observer:
    """Keep these waiting till the next process tells of an event: the killed one asks ahead.

    An answer that a kill cuts off is asked for again.
    """
    gone = threading.Event()

    def trouble(prompt: str) -> tuple[int, str] | None:
        if prompt not in prompts or gone.is_set():
            return None
        gone.wait(60)
        return 503, "whoever asked is gone"

    patch.setattr(shared.server, "trouble", trouble)
    return lambda event: gone.set()


def test_killed_again_and_again(twin, clone, shared, train_until_killed):
    for stage in (1, 3, 7, 6):
        train_until_killed(clone, stage)
    clone.run()
    assert_equal_to(twin, clone, shared)


@pytest.mark.parametrize("kind", ["heads", "remotes/origin"])
@pytest.mark.parametrize(
    ("branch", "stage"), [(BRANCH, STAGES[0]), ("skillopt-candidate/demo", "step 1: candidate")]
)
def test_killed_when_the_remote_has_moved_and_the_clone_has_not(
    twin, clone, shared, train_until_killed, monkeypatch, kind, branch, stage
):
    ref = f"refs/{kind}/{branch}"
    script = f'test "$1" = prepared || exit 0\ngrep -q " {ref}$" || exit 0\nkill -9 $MORTAL\nexit 1'
    hook = write_program(clone.folder / ".git" / "hooks" / "reference-transaction", script)
    go_on = hold(twin.ahead[stage], shared, monkeypatch)
    train_until_killed(clone, 0)
    hook.unlink()
    clone.run(observer=go_on)
    assert_equal_to(twin, clone, shared)


def test_killed_without_a_remote(twin, shared, train_until_killed):
    checkout = configured(shared.checkout("local"), SHORT)
    shared.server.answered.clear()
    for stage in (6, 7, 6):
        train_until_killed(checkout, stage)
    checkout.run()
    assert checkout.trees() == twin.trees
    assert used(checkout) == twin.usage
    assert shared.server.answered == twin.answered


# kill -9 at the end of an epoch, whose second guidance helps or harms.

#: What becomes of the second epoch's guidance, and after which stage of which epoch's end the
#: process dies. Up to the verdict both fates are one.
DEATHS = [
    *(("merged", 1, stage) for stage in ("candidate", "epoch end")),
    *(("merged", 2, stage) for stage in ("compare", "both texts", "candidate")),
    *(("merged", 2, stage) for stage in ("selection", "epoch end")),
    *(("reverted", 2, stage) for stage in ("selection", "epoch end")),
]

LATER = ("use_slow_update: false, use_meta_skill: false", "use_slow_update: true")
WITH_ENDS = (LATER, ("batch_size: 4", "batch_size: 8"))


@dataclass(frozen=True)
class Ended:
    """An uninterrupted run with ends of epochs, the stages that it finished, and what it asked.

    ``marks`` has how much had been asked by the end of each stage.
    """

    twin: Twin
    shared: Workshop
    stages: list[str]
    marks: list[int]
    asked: list[str]

    def position(self, epoch: int, stage: str) -> int:
        """Number (from 1) of a stage of the end of ``epoch``, an epoch being one step.

        The two texts are asked for at once, and finished in any order.
        """
        if stage == "both texts":
            return self.position(epoch, "candidate") - 1
        decided = [number for number, name in enumerate(self.stages) if name == "decide"]
        return self.stages.index(stage, decided[epoch - 1]) + 1

    def ahead(self, epoch: int, stage: str) -> set[str]:
        """What is asked for later stages in one that itself asks nothing."""
        asks_nothing = stage in {"candidate", "epoch end"}
        return set(
            self.asked[self.marks[self.position(epoch, stage) - 2] :] if asks_nothing else ()
        )

    def clone(self, name: str) -> Checkout:
        return configured(clone_of(self.shared, name), *WITH_ENDS)


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ended]:
    with opened(tmp_path_factory.mktemp("ended")) as shared:
        helps = request.param == "merged"
        guidance = "Kind d: a number begins with d." if helps else "Leave out every answer."
        shared.server.guidance = f"- {guidance}"
        shared.server.memory = "- Name one kind in each rule."
        checkout, stages = configured(shared.checkout("twin"), *WITH_ENDS), list[str]()
        marks = list[int]()

        def note(event: Event) -> None:
            if isinstance(event, StageFinished):
                stages.append(event.stage)
                marks.append(len(shared.server.prompts))

        checkout.run(observer=note)
        assert checkout.kinds() == ["start", "step", "slow_update", "step", "slow_update"]
        yield Ended(twin_of(checkout, shared), shared, stages, marks, shared.server.prompts.copy())


@pytest.mark.parametrize(("ended", "epoch", "stage"), DEATHS, indirect=["ended"], scope="module")
def test_killed_at_an_epoch_s_end(ended, tmp_path, train_until_killed, monkeypatch, epoch, stage):
    clone = ended.clone(tmp_path.name)
    go_on = hold(ended.ahead(epoch, stage), ended.shared, monkeypatch)
    train_until_killed(clone, ended.position(epoch, stage))
    clone.run(observer=go_on)
    assert_equal_to(ended.twin, clone, ended.shared)


@pytest.mark.parametrize("ended", ["merged"], indirect=True, scope="module")
def test_killed_again_and_again_at_ends_of_epochs(ended, tmp_path, train_until_killed):
    clone = ended.clone(tmp_path.name)
    for stage in (ended.position(1, "candidate"), 1, 10, 1, 3, 1):
        train_until_killed(clone, stage)
    clone.run()
    assert_equal_to(ended.twin, clone, ended.shared)


# kill -9 at random events of runs with every option on: each ends like its uninterrupted twin.

TRAINED = "skillopt/interrupted"
KILLS = 4
#: Most calls of one role under way at once: what a kill may make unheard.
UNDER_WAY = 3
CONFIG = """\
run: interrupted
skill: skills/ledger/SKILL.md
tasks:
  {train: tasks/train.jsonl, selection: tasks/selection.jsonl, test: tasks/test.jsonl, limit: 8}
scorer: {type: exact, answer: tag}
model:
  target:
    {provider: openai, model: simulated-target, base_url: URL, max_concurrency: 3, price: PRICE}
  optimizer:
    {provider: openai, model: simulated-optimizer, base_url: URL, max_concurrency: 3, price: PRICE}
train: {num_epochs: 2, batch_size: 4, accumulation: 2}
gradient: {minibatch_size: 3, merge_batch_size: 2}
optimizer:
  skill_update_mode: MODE
  lr_control_mode: CONTROL
  slow_update_samples: 12
  use_skill_aware_reflection: true
  skill_aware_consolidate_threshold: 1
evaluation: {gate_metric: mixed, use_semantic_density: true}
guard: {max_words: 400}
"""
#: Each update mode, with who sets the number of changes.
MODES = [
    ("patch", "fixed"),
    ("rewrite_from_suggestions", "autonomous"),
    ("full_rewrite_minibatch", "none"),
]


@dataclass(frozen=True)
class World:
    """One server for all runs, since its address is part of the configuration."""

    workshop: Workshop
    server: SimulatedServer
    url: str

    def repository(self, name: str, mode: str, control: str) -> Checkout:
        checkout = self.workshop.place(name)
        make_repository(checkout.folder)
        price = "{input: 0.3, output: 1.1}"
        config = CONFIG.replace("MODE", mode).replace("CONTROL", control).replace("PRICE", price)
        checkout.write("skillopt.yaml", config.replace("URL", self.url))
        return checkout


@dataclass
class Run:
    """A run in a repository of its own, and how many answers it has had from the server."""

    world: World
    checkout: Checkout
    answers: int = 0

    def go(self, last: int = 0) -> bool:
        """Train and finish, or die at the event number ``last``; tell whether it died."""
        before = self.world.server.answered.total()
        script = str(Path(__file__).with_name("mortal.py"))
        words = [script, str(self.checkout.folder), "events", str(last)]
        done = forked.run(words, cwd=self.checkout.folder, env=dict(os.environ))
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        # what a dead process had asked is still read, and counted, until its connections are gone
        assert eventually(lambda: self.world.server.idle)
        self.answers += self.world.server.answered.total() - before
        return done.returncode != 0

    @property
    def unheard(self) -> int:
        """Answers that were given and are not kept: those that a kill left under way."""
        file = self.checkout.folder / ".git" / "skillopt-ci" / "calls.sqlite"
        if not file.exists():
            return self.answers
        with closing(sqlite3.connect(file)) as connection:
            (kept,) = connection.execute("SELECT count(*) FROM calls").fetchone()
        return self.answers - int(kept)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("interrupted")
    server = SimulatedServer(seed=1)
    with opened(folder) as workshop, running(server) as url:
        yield World(workshop, server, url)


@pytest.mark.parametrize(("mode", "control"), MODES, ids=[mode for mode, _ in MODES])
def test_a_run_that_is_killed_at_random_ends_like_its_twin(world, mode, control):
    twin = Run(world, world.repository(f"{mode}-twin", mode, control))
    assert not twin.go()
    assert twin.unheard == 0
    told = twin.checkout.subjects(TRAINED)
    assert told[-1].startswith("Finish training")
    assert set(re.findall(r"nd of epoch (\d)", "\n".join(told))) == {"1", "2"}
    run, random = (Run(world, world.repository(mode, mode, control)), Random(mode))
    for _ in range(KILLS):
        unheard = run.unheard
        if not run.go(random.randint(1, 60)):
            break
        assert run.unheard - unheard <= 2 * UNDER_WAY
    unheard = run.unheard
    run.go()
    assert run.checkout.trees(TRAINED) == twin.checkout.trees(TRAINED)
    assert run.unheard == unheard
