"""Measure the rollout layer: many tasks at once, against a plain loop with a semaphore.

    .venv/bin/python bench/rollouts.py [--tasks 10000] [--concurrency 256] [--bytes 20000]

Every attempt is answered by a model in this process that waits a little, so that what is measured
is what the layer adds: time, and memory that must not grow with the number of tasks. Both loops
run in processes of their own, one after the other.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing, closing
from pathlib import Path

from skillopt_ci.aio import Slots
from skillopt_ci.config.config import Evaluation
from skillopt_ci.config.scorers import ExactScorer
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.progress import silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.attempt import AttemptRunner, Runner
from skillopt_ci.rollout.events import EventLog
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.solver import ChatSolver, conversation
from skillopt_ci.rollout.types import Attempt, AttemptRequest
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.measure import Scores

LATENCY = 0.02


class Model:
    """Answers after a moment, with so many bytes around the answer."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def complete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(LATENCY)
        # a text of its own for each call, as from a real model
        text = request.messages[-1].content.ljust(self._size)
        return ChatReply(text, "stop", "bench", Usage(calls=1))


def task(number: int) -> Task:
    name = f"t{number}"
    return Task(name, (Message("user", name),), references=(name,))


async def layer(tasks: int, concurrency: int, size: int, events: Path | None) -> float:
    """The rollout layer as measuring uses it."""
    scorers = TaskScorers(
        ExactScorer(type="exact"), judge=None, root=Path(), functions=Functions({})
    )
    solver = ChatSolver(Model(size), Prompts.load())
    log = None if events is None else EventLog(events, "bench")
    try:
        runner = Runner(AttemptRunner(solver, scorers, record=log or silent), Slots(concurrency))
        scores = Scores(())
        drawn = map(task, range(tasks))
        requests = (AttemptRequest(one, "Be exact.", "bench") for one in drawn)
        results = runner.stream(requests)
        async with aclosing(results):
            async for one in results:
                scores.add(one)
    finally:
        if log is not None:
            with closing(log):
                pass
    return scores.measurement(Evaluation()).hard


async def plain(tasks: int, concurrency: int, size: int) -> float:
    """What anybody writes first: one coroutine for each task, a semaphore, gather."""
    model, prompts, slots = Model(size), Prompts.load(), asyncio.Semaphore(concurrency)
    scorers = TaskScorers(
        ExactScorer(type="exact"), judge=None, root=Path(), functions=Functions({})
    )

    async def one(number: int) -> tuple[float, tuple[Message, ...]]:
        async with slots:
            asked = task(number)
            messages = conversation(asked, "Be exact.", prompts)
            reply = await model.complete(ChatRequest("target", "bench", messages))  # type: ignore[arg-type]
            score = await scorers.grade(asked, Attempt(messages, reply.text))
            return score.hard, (*messages, Message("assistant", reply.text))

    found = await asyncio.gather(*(one(number) for number in range(tasks)))
    return sum(hard for hard, _ in found) / tasks


def measured(kind: str, tasks: int, concurrency: int, size: int) -> dict[str, object]:
    """Run one loop in this process; peak memory is the process's own."""
    before = _peak_mb()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if kind == "plain":
            mean = asyncio.run(plain(tasks, concurrency, size))
        else:
            events = Path(folder) / "events.jsonl" if kind == "recorded" else None
            mean = asyncio.run(layer(tasks, concurrency, size, events))
    seconds = time.perf_counter() - started
    assert mean == 1.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    return {
        "seconds": round(seconds, 2),
        "cpu": round(used, 2),
        "before_mb": before,
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--kind", choices=["plain", "layer", "recorded"])
    given = parser.parse_args()
    if given.kind:
        found = measured(given.kind, given.tasks, given.concurrency, given.bytes)
        print(json.dumps(found))
        return
    ideal = given.tasks / given.concurrency * LATENCY
    print(f"{given.tasks:,} tasks, {given.concurrency} at once; waiting alone takes {ideal:.2f} s")
    for kind in ("plain", "layer", "recorded"):
        words = [sys.executable, __file__, "--kind", kind]
        for name in ("tasks", "concurrency", "bytes"):
            words += [f"--{name}", str(getattr(given, name))]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        facts = json.loads(done.stdout)
        print(
            f"{kind:<9} {facts['seconds']:>7.2f} s   {facts['cpu']:>6.2f} s CPU   "
            f"peak {facts['peak_mb']:>7.1f} MB (before {facts['before_mb']:.1f})"
        )


if __name__ == "__main__":
    main()
