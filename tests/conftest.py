"""A tiny world to train in: a scripted model behind HTTP, and real repositories of its skill.

The target puts a letter before an item's number only if the skill has the rule for its kind. The
optimizer proposes the first line of its plan that its prompt does not mention: neither the skill
nor, among what earlier steps of the epoch tried, the step buffer.
"""

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from github_server.state import Hub
from http_server import Handler, http_server
from hypothesis import HealthCheck, settings
from repositories import GIT_CONFIG
from training_runs import train_all, train_once

from skillopt_ci import confinement
from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, State, StepRecord
from skillopt_ci.model import providers
from skillopt_ci.progress import Event, Observer, StageFinished, silent
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import Outcome, advance

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ("github_server.fixtures",)

#: Fixtures that build repositories, servers or whole runs, and folders whose tests do so alone.
_WORLDS = {"workshop", "github_hub", "world"}
_WORLDS |= {"untrained", "trained", "finished", "office", "git"}
_WORLDLY = {"git", "ledger", "rendering", "packaging"}


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C also where it was ignored: a shell's background job hands that on to us.

    Children would inherit it, and tests would wait for commands that they interrupt.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _work_in_memory()
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "RUNNER_"))]:
        del os.environ[name]  # tests are no part of the job that runs them
    # without retries an attempt is lost if a busy machine holds us up while we connect
    providers._LONGEST_CONNECT = 100.0
    gc.disable()  # until all is collected
    # repositories without examples of hooks: git writes these longer than all the rest
    template = tempfile.TemporaryDirectory()
    config.add_cleanup(template.cleanup)
    (Path(template.name) / "hooks").mkdir()
    os.environ["GIT_TEMPLATE_DIR"] = template.name
    # a busy machine is no fault of a test; what 40 examples do not show, runs of tomorrow may
    settings.register_profile(
        "busy", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("busy")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through all that was imported and collected."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker a processor for ``-n logical``, one more for ``auto``: some wait for others."""
    return (os.cpu_count() or 1) + (config.option.numprocesses == "auto")


def _work_in_memory() -> None:
    """Put tests' folders into memory where there is room: git and SQLite wait for disks."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        about = os.statvfs(memory)
        if not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize > 4 << 30:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what works on real repositories and servers, so that the rest runs in a moment.

    Files with slow tests come first: a long one that begins last keeps one worker alone at work.
    """
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        fixtures = set(getattr(item, "fixturenames", ()))
        if folder in _WORLDLY or fixtures & _WORLDS:
            item.add_marker(pytest.mark.integration)
    slow = [
        {item.path for item in items if item.get_closest_marker(name)}
        for name in ("end_to_end", "integration")
    ]
    items.sort(key=lambda item: [item.path not in files for files in slow])


SKILL = "skills/SKILL.md"
BRANCH = "skillopt/demo"
CANDIDATE = "skillopt-candidate/demo"
KINDS = "abcd"
RULES = {kind: f"Kind {kind}: a number begins with {kind}." for kind in KINDS}
HARMFUL = "Leave out every answer."
PLAN = (RULES["a"], HARMFUL, RULES["b"], RULES["c"])

CONFIG = f"""\
run: demo
skill: {SKILL}
tasks: {{train: tasks/train.jsonl, selection: tasks/selection.jsonl, test: tasks/test.jsonl}}
scorer: {{type: exact, answer: tag}}
model:
  target: {{provider: openai, model: m, base_url: URL, api_key_env: DEMO_KEY, retries: 0}}
  optimizer: {{provider: openai, model: m, base_url: URL, api_key_env: DEMO_KEY, retries: 0}}
train: {{num_epochs: 2, batch_size: 4}}
gradient: {{minibatch_size: 2, failure_only: false}}
optimizer: {{use_slow_update: false, use_meta_skill: false}}
evaluation: {{confirm: 0}}
"""

#: Overrides that turn on what happens at an epoch's end.
EPOCH_ENDS = ("optimizer.use_slow_update=true", "optimizer.use_meta_skill=true")

_ITEM = re.compile(r"Item (\d+) of kind (\w)")

#: What the server does with a prompt instead of answering it: a status, and the error's message.
Trouble = Callable[[str], tuple[int, str] | None]


@dataclass
class ModelServer:
    """Both models; ``prompts`` has each request's messages as one text, ``answered`` counts them.

    ``peers`` are the connections that they came over.

    ``plan``, ``edit``, ``guidance``, ``memory`` and ``trouble`` may be changed at any time.
    """

    url: str = ""
    plan: Sequence[str] = PLAN
    trouble: Trouble = lambda prompt: None
    edit: Callable[[str], dict[str, str]] = lambda line: {"op": "append", "content": f"- {line}"}
    guidance: str = ""
    memory: str = ""
    prompts: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    peers: set[tuple[str, int]] = field(default_factory=set)
    answered: Counter[str] = field(default_factory=Counter)

    def answer(self, system: str, prompt: str) -> str:
        """Return the model's words; the stage is told by the system prompt."""
        item = _ITEM.fullmatch(prompt)
        if item is not None:
            known = RULES.get(item[2], "no rule") in system
            letter = item[2] if known else ""
            return f"<answer>{'' if HARMFUL in system else letter + item[1]}</answer>"
        if "Stage: slow_update" in system:
            return json.dumps({"reasoning": "scripted", "slow_update_content": self.guidance})
        if "Stage: meta_skill" in system:
            return json.dumps({"reasoning": "scripted", "meta_skill_content": self.memory})
        if "analyst_error" in system:
            return self._edits(next((line for line in self.plan if line not in prompt), None))
        if "merge" in system:
            return self._edits([line for line in self.plan if line in prompt][-1])
        return self._edits(None)

    def let_optimizer(self, say: Callable[[str, str], str]) -> None:
        """Let the optimizer reply what ``say`` makes of its system prompt and prompt."""
        truly = self.answer
        self.answer = lambda system, prompt: (
            say(system, prompt) if "Stage:" in system else truly(system, prompt)
        )

    def _edits(self, line: str | None) -> str:
        edits = [] if line is None else [self.edit(line)]
        return json.dumps({"patch": {"reasoning": "scripted", "edits": edits}})

    @property
    def optimizer_prompts(self) -> list[str]:
        """Those prompts that put no task to the target."""
        return [prompt for prompt in self.prompts if "Stage:" in prompt]

    @property
    def most_answers(self) -> int:
        """How often the most frequent request was answered."""
        return max(self.answered.values(), default=0)


class _Handler(Handler):
    model: ModelServer

    def respond(self) -> None:
        if self.command == "GET":  # of git: this server may only be read
            return self._send(403, {})
        body = json.loads(self.content())
        texts = [message["content"] for message in body["messages"]]
        whole = "\n\n".join(texts)
        self.model.prompts.append(whole)
        self.model.keys.add(self.headers["Authorization"])
        self.model.peers.add(self.client_address)
        trouble = self.model.trouble(whole)
        if trouble is not None:
            return self._send(trouble[0], {"error": {"message": trouble[1]}})
        self.model.answered[whole] += 1
        message = {"role": "assistant", "content": self.model.answer(texts[0], texts[-1])}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        choices = [{"message": message, "finish_reason": "stop"}]
        return self._send(200, {"model": "m", "choices": choices, "usage": usage})

    def _send(self, status: int, body: object) -> None:
        self.answer(json.dumps(body).encode(), status)


class Stopped(Exception):
    """Somebody pulled the plug."""


def stop_when_proposed(event: Event) -> None:
    if isinstance(event, StageFinished) and event.stage == "candidate":
        raise Stopped


@dataclass(frozen=True)
class Checkout:
    """A repository of the tiny world, with what its users and the trainer do in it."""

    folder: Path

    def git(self, *args: str, keep_end: bool = False) -> str:
        done = subprocess.run(["git", *args], cwd=self.folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        text = done.stdout.decode("utf-8", "surrogateescape")
        return text if keep_end else text.removesuffix("\n")

    def ref(self, name: str) -> str:
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{name}")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    @contextmanager
    def worktree(self, branch: str) -> Iterator["Checkout"]:
        """Let a person commit to a branch, in a worktree of their own."""
        there = Checkout(self.folder.parent / "worktree")
        self.git("worktree", "add", "--quiet", "--detach", str(there.folder), branch)
        yield there
        self.git("update-ref", f"refs/heads/{branch}", there.git("rev-parse", "HEAD"))
        self.git("worktree", "remove", str(there.folder))

    def commit(self, path: str, text: str, branch: str = "main") -> str:
        with self.worktree(branch) as there:
            there.write(path, text)
            there.git("add", path)
            there.git("commit", "--quiet", "-m", f"Change {path}")
        return self.ref(branch)

    def session(self, *overrides: str, observer: Observer = silent) -> Run:
        settings = Globals({"DEMO_KEY": "sk-demo-key"}, self.folder, overrides=overrides)
        return open_run(settings, observer)

    def step(self, *overrides: str, observer: Observer = silent) -> Outcome | None:
        """Do one step, as the command does."""
        session, outcomes = self.session(*overrides, observer=observer), list[Outcome]()
        with session.ledger.lock():
            asyncio.run(train_once(session, outcomes.append))
        return next((one for one in outcomes if one.is_step), None)

    def done(self, *overrides: str, observer: Observer = silent) -> Outcome:
        """Do one step of those that are left."""
        outcome = self.step(*overrides, observer=observer)
        assert outcome is not None
        return outcome

    def stop(self, *overrides: str, epoch_end: bool = False) -> None:
        """Begin a step, or the end of an epoch, and kill it once its candidate is pushed."""
        with pytest.raises(Stopped):
            (self.end_epoch if epoch_end else self.step)(*overrides, observer=stop_when_proposed)

    def run(self, *overrides: str, observer: Observer = silent) -> list[Outcome]:
        """Do all steps that are left."""
        session, outcomes = self.session(*overrides, observer=observer), list[Outcome]()
        with session.ledger.lock():
            asyncio.run(train_all(session, outcomes.append))
        return [one for one in outcomes if one.is_step]

    def end_epoch(self, *overrides: str, observer: Observer = silent) -> Outcome | None:
        """Do the end of an epoch if it is due, as the command does."""
        session = self.session(*EPOCH_ENDS, *overrides, observer=observer)
        with session.ledger.lock():
            outcome = asyncio.run(advance(session, only_epoch_end=True))
        assert outcome is None or not outcome.is_step
        return outcome

    def show(self, revision: str, path: str = SKILL) -> str:
        """Return a file of a commit, to the last byte."""
        return self.git("cat-file", "blob", f"{revision}:{path}", keep_end=True)

    def state(self, revision: str = BRANCH) -> State:
        return State.model_validate_json(self.show(revision, RunFolder("demo").state))

    def history(self, revision: str = BRANCH) -> list[HistoryEntry]:
        lines = self.show(revision, RunFolder("demo").history).splitlines()
        return [HistoryEntry.model_validate_json(line) for line in lines]

    def kinds(self, revision: str = BRANCH) -> list[str]:
        return [entry.kind for entry in self.history(revision)]

    def record(self, step: int, revision: str = BRANCH) -> StepRecord:
        return StepRecord.model_validate_json(self.show(revision, RunFolder("demo").step(step)))

    def boundary(self, epoch: int, revision: str = BRANCH) -> BoundaryRecord:
        path = RunFolder("demo").boundary(epoch)
        return BoundaryRecord.model_validate_json(self.show(revision, path))

    def subjects(self, revision: str = BRANCH) -> list[str]:
        return self.git("log", "--first-parent", "--reverse", "--format=%s", revision).split("\n")

    def trees(self, revision: str = BRANCH) -> list[str]:
        """The trees of all commits, candidates included, oldest first."""
        return self.git("log", "--topo-order", "--reverse", "--format=%T", revision).split("\n")

    def parents(self, commit: str) -> list[str]:
        return self.git("rev-parse", f"{commit}^@").split("\n")

    def contains(self, commit: str, revision: str = BRANCH) -> bool:
        return commit in self.git("rev-list", revision).split("\n")


@dataclass(frozen=True)
class Workshop:
    """Makes repositories below ``folder`` that train with the models of ``server``."""

    folder: Path
    server: ModelServer

    def place(self, name: str) -> Checkout:
        return Checkout(self.folder / name)

    def checkout(self, name: str = "repository", skill: str = "# Items\n") -> Checkout:
        """Make a repository without a remote."""
        made = self.place(name)
        made.write(SKILL, skill)
        made.write("skillopt.yaml", CONFIG.replace("URL", self.server.url))
        for offset, split in enumerate(("train", "selection", "test")):
            made.write(f"tasks/{split}.jsonl", tasks(offset * 100))
        made.git("init", "--quiet", "--initial-branch=main")
        made.git("add", ".")
        made.git("commit", "--quiet", "-m", "Begin")
        return made

    def origin(self, name: str = "origin.git") -> Path:
        """Make a bare repository with the same content."""
        source = self.checkout(f"{name}-source")
        source.git("clone", "--quiet", "--bare", ".", str(self.folder / name))
        return self.folder / name

    def clone(self, origin: Path, name: str, *options: str) -> Checkout:
        clone = ["git", "clone", "--quiet", *options, origin.as_uri(), str(self.folder / name)]
        subprocess.run(clone, check=True)
        return Checkout(self.folder / name)


def tasks(offset: int, count: int = 8) -> str:
    """Return a task file with as many tasks of each kind, numbered from ``offset``."""
    text = ""
    for position in range(count):
        number, kind = offset + position, KINDS[position % len(KINDS)]
        name = f"{kind}{number}"
        task = {"id": name, "prompt": f"Item {number} of kind {kind}", "references": name}
        text += json.dumps(task) + "\n"
    return text


@contextmanager
def serving() -> Iterator[ModelServer]:
    server = ModelServer()
    with http_server(_Handler, model=server) as url:
        server.url = f"{url}/v1"
        yield server


@contextmanager
def opened(folder: Path) -> Iterator[Workshop]:
    """Open a workshop; meanwhile the environment has a user's git configuration."""
    file = folder / "gitconfig"
    file.write_text(GIT_CONFIG)
    with pytest.MonkeyPatch.context() as environment, serving() as server:
        environment.setenv("HOME", str(folder))
        environment.setenv("GIT_CONFIG_NOSYSTEM", "1")
        environment.setenv("GIT_CONFIG_GLOBAL", str(file))
        yield Workshop(folder, server)


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with opened(tmp_path) as workshop:
        yield workshop


@pytest.fixture
def pushed(workshop: Workshop, github_hub: Hub) -> Checkout:
    """A checkout whose remote is the repository on GitHub."""
    made = workshop.checkout()
    made.git("remote", "add", "origin", github_hub.bare.folder.as_uri())
    made.git("push", "--quiet", "origin", "main")
    return made


@pytest.fixture
def model_server(workshop: Workshop) -> ModelServer:
    return workshop.server


@pytest.fixture
def checkout(workshop: Workshop) -> Checkout:
    """A repository without a remote."""
    return workshop.checkout()


# Not longer than a module: while it is open no event loop can be started in this process.
@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium of the system; without one the test is left out, but never in CI."""
    from bench.report import QUIET, program

    if program() is None and not os.environ.get("CI"):
        pytest.skip("no Chromium on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(), args=list(QUIET), timeout=120_000
        )
        yield browser
        browser.close()


def _confine_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confinement, "_find", partial(confinement.Confinement))
    patch.setattr(confinement, "_found", confinement.Confinement())


@pytest.fixture(autouse=True, scope="module")
def _confinement_of_its_module() -> Iterator[None]:
    """Let no module's fixtures start programs in the way that another module asked for."""
    with pytest.MonkeyPatch.context() as patch:
        _confine_nothing(patch)
        yield


@pytest.fixture(autouse=True)
def _confinement_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test start programs in the way that another one's configuration asked for."""
    _confine_nothing(monkeypatch)
