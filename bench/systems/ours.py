"""skillopt-ci on a world: a scratch repository, its configuration, and the run judged afterwards.

``run_command`` drives the installed command against the world's server. ``run_inside`` calls the
same training functions in this process and lets the world answer directly, with the same result:
only HTTP and the openai client are left out; git, prompts, parsing, cache, meter and retries are
the real ones.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bench.outcome import UNTIMED, Confirmation, Outcome, Timed, Trial, judged, refuse_misunderstood
from bench.serving import ROOT, served
from bench.world.answering import Oracle
from bench.world.world import INITIAL_SKILL, SPLITS, Parameters, World, make_world
from skillopt_ci.cli.build import as_begun, open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.model.providers import ServerClient
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.progress import silent
from skillopt_ci.skill.regions import as_read
from skillopt_ci.training.final_evaluation import finish
from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.trainer import patiently, train

SKILL = "skills/cases/SKILL.md"
RUN = "bench"
TIP = f"refs/heads/skillopt/{RUN}"


def run_command(
    seed: int,
    folder: Path,
    settings: Mapping[str, Any],
    *,
    name: str = "ours",
    latency: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
    python: Path = Path(sys.executable),
) -> Outcome:
    """``skillopt-ci run`` with ``settings`` over the defaults, over HTTP, by that ``python``."""
    world = make_world(seed, Parameters(**(parameters or {})))
    with served(seed, latency, parameters) as server:
        root = make_repository(world, folder / "repository", server.base_url, settings)
        command = [str(python), "-m", "skillopt_ci", "-q", "run"]
        began = time.time()
        with (folder / "log.txt").open("w") as log:
            subprocess.run(command, cwd=root, env=environment(), stdout=log, stderr=log, check=True)
        seconds, stats = time.time() - began, server.stats()
        timed = Timed.of(server.trace(), _limit(settings))
    outcome = outcome_of(world, name, root, stats, seconds, timed)
    return replace(outcome, clock=_clock(world, root, began))


def run_inside(
    seed: int,
    folder: Path,
    settings: Mapping[str, Any],
    *,
    name: str = "ours",
    parameters: Mapping[str, Any] | None = None,
) -> Outcome:
    """The same run in this process, answered by the world directly."""
    world = make_world(seed, Parameters(**(parameters or {})))
    oracle = Oracle(world)
    root = make_repository(world, folder / "repository", "http://127.0.0.1:9/v1", settings)
    began = time.monotonic()
    with answered_by(oracle):
        asyncio.run(_train(root))
    stats = {"calls": dict(oracle.calls), "tokens": dict(oracle.tokens)}
    return outcome_of(world, name, root, stats, time.monotonic() - began)


async def _train(root: Path) -> None:
    run = as_begun(open_run(Globals(environ=environment(), cwd=root), silent))
    async with prefetching(run) as ready:
        # a step that breaks off is paid for all the same; what stands then is the outcome
        with suppress(BudgetExhausted):
            async for _ in train(ready):
                pass
            await patiently(ready, finish)


@contextmanager
def answered_by(oracle: Oracle) -> Iterator[None]:
    """Within the block, every model of provider ``openai`` is ``oracle``."""

    async def complete(_: ServerClient, request: ChatRequest) -> ChatReply:
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        said = oracle.answer(messages)
        usage = Usage(1, said.prompt_tokens, said.completion_tokens)
        return ChatReply(said.text, "stop", "world", usage)

    real = ServerClient.complete
    ServerClient.complete = complete  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        ServerClient.complete = real  # type: ignore[method-assign]


def make_repository(world: World, root: Path, base_url: str, settings: Mapping[str, Any]) -> Path:
    """A repository with the world's tasks, the initial skill and a configuration."""
    for split in SPLITS:
        _write(root / "tasks" / f"{split}.jsonl", own_lines(world, split))
    _write(root / SKILL, INITIAL_SKILL)
    _write(root / "skillopt.yaml", yaml.safe_dump(_merged(_config(world, base_url), settings)))
    for arguments in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        ["commit", "-q", "-m", "The skill and its tasks"],
    ):
        subprocess.run(["git", *arguments], cwd=root, env=environment(), check=True)
    return root


def _config(world: World, base_url: str) -> dict[str, Any]:
    """Defaults everywhere; one test task, as true scores are known anyway."""
    role = {"provider": "openai", "base_url": base_url, "api_key_env": "BENCH_KEY"}
    return {
        "run": RUN,
        "skill": SKILL,
        "tasks": {split: f"tasks/{split}.jsonl" for split in SPLITS},
        "scorer": {"type": "exact", "answer": "tag"},
        "model": {
            "target": {**role, "model": "target"},
            "optimizer": {**role, "model": "optimizer"},
        },
        "train": {"seed": world.seed},
        "git": {"author_name": "Bench", "author_email": "bench@example.org"},
        "evaluation": {"test_env_num": 1},
    }


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _limit(settings: Mapping[str, Any]) -> int:
    """How many calls of the target are made at once."""
    limit = settings.get("model", {}).get("target", {}).get("max_concurrency", 16)
    return int(limit)


def own_lines(world: World, split: str) -> str:
    """The tasks of ``split`` in skillopt-ci's own form, one per line."""
    records = [
        {
            "id": task.id,
            "task_type": task.type,
            "prompt": task.prompt,
            "references": task.answer,
        }
        for task in world.splits[split]
    ]
    return "".join(json.dumps(record) + "\n" for record in records)


# What the run leaves in its repository, judged by the world.


def environment() -> dict[str, str]:
    """The environment of the run's programs, which import the package that lies beside ours."""
    who = {"NAME": "Bench", "EMAIL": "bench@example.org"}
    person = {
        f"GIT_{role}_{key}": text for role in ("AUTHOR", "COMMITTER") for key, text in who.items()
    }
    here = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
    return {**here, "BENCH_KEY": "none", **person}


def outcome_of(
    world: World,
    name: str,
    root: Path,
    stats: Mapping[str, Mapping[str, int]],
    seconds: float,
    timed: Timed = UNTIMED,
) -> Outcome:
    """What the finished run in the repository ``root`` amounts to."""
    refuse_misunderstood(stats)
    best = _git(root, "show", f"{TIP}:.skillopt/{RUN}/best_skill.md")
    texts, history = _texts(root), _history(root)
    curve = _curve(world, history, texts)
    return judged(
        world,
        name,
        best,
        trials(history, texts),
        stats,
        seconds,
        curve=curve,
        timed=timed,
        confirmations=tuple(_confirmations(world, root, texts)),
    )


def _confirmations(world: World, root: Path, texts: Mapping[str, str]) -> Iterator[Confirmation]:
    folder = f".skillopt/{RUN}/confirmations/"
    for name in _git(root, "ls-tree", "--name-only", TIP, folder).splitlines():
        record = json.loads(_git(root, "show", f"{TIP}:{name}"))
        before, after = (
            world.true_score(texts[record[side]], "selection") for side in ("confirmed", "current")
        )
        yield Confirmation(record["action"], before, after)


def _history(root: Path) -> list[dict[str, Any]]:
    lines = _git(root, "show", f"{TIP}:.skillopt/{RUN}/history.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def trials(history: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[Trial]:
    """Every measured candidate with the skill that it was to replace.

    One that the target reads the same, such as the empty place for guidance, is no trial.
    """
    found, current = [], ""
    for entry in history:
        candidate, after = entry.get("candidate_sha256") or "", entry["skill_sha256"]
        measured = entry.get("score_after") is not None and candidate in texts
        if current and measured and _differ(texts[current], texts[candidate]):
            gated = entry["action"] != "force_accept"
            found.append(Trial(texts[current], texts[candidate], after == candidate, gated))
        current = after
    return found


def _differ(one: str, other: str) -> bool:
    return as_read(one).strip() != as_read(other).strip()


def _curve(
    world: World, history: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> tuple[tuple[int, float], ...]:
    """Calls made so far, and the true score of the skill that then stands, after each event."""
    paid, points = 0, []
    for entry in history:
        paid += entry["usage"]["calls"]
        points.append((paid, world.true_score(texts[entry["skill_sha256"]])))
    return tuple(points)


def _clock(world: World, root: Path, began: float) -> tuple[tuple[float, float], ...]:
    """Seconds after ``began``, rounded up, and the true score of the skill that then stands."""
    commits = _git(root, "log", "--first-parent", "--reverse", "--format=%H %ct", TIP).splitlines()
    told = [(line.split()[0], int(line.split()[1]) + 1 - began) for line in commits]
    scores = {
        commit: world.true_score(_git(root, "show", f"{commit}:{SKILL}")) for commit, _ in told
    }
    return tuple((seconds, scores[commit]) for commit, seconds in told)


def _texts(root: Path) -> dict[str, str]:
    """Every version of the skill that any commit has, by its hash."""
    commits = _git(root, "log", "--all", "--format=%H", "--", SKILL).split()
    texts = [_git(root, "show", f"{commit}:{SKILL}") for commit in commits]
    return {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
