"""A scripted model (the one thing that is not real here), and attempts made as the runner does."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.config.config import EnvironmentConfig
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.environments.find import open_environment
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.limits import LimitedClient, Transcript, run_solver
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Attempt, Step
from skillopt_ci.scorers.base import Score
from skillopt_ci.tasks.task import Task

Answer = str | ChatReply | Exception
Script = Callable[[ChatRequest], Answer]
OpenEnvironment = Callable[..., Environment]


@dataclass
class ScriptedModel:
    """Answers with what ``script`` makes of a request, or raises that."""

    script: Script
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        answer = self.script(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ChatReply) else reply(answer)


def reply(text: str, **more: Any) -> ChatReply:
    usage = Usage(calls=1, prompt_tokens=10, completion_tokens=5)
    return ChatReply(text, "stop", "scripted", usage, **more)


@dataclass(frozen=True)
class LentParts:
    """As much of the run's parts as environments look at."""

    client: ScriptedModel
    judge: Callable[[str], Awaitable[str]]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """An attempt with its steps and its score."""

    attempt: Attempt
    steps: Sequence[Step]
    score: Score


async def attempt(
    environment: Environment, task: Task, model: ScriptedModel, skill: str, place: Workplace
) -> Made:
    async def judge(prompt: str) -> str:
        found = model.script(prompt)  # type: ignore[arg-type]  # judges are asked by text
        assert isinstance(found, str)
        return found

    parts: Any = LentParts(model, judge)
    steps: list[Any] = []
    if isinstance(parts.client, ScriptedModel) and not hasattr(environment, "worker"):
        answer = await model.complete(
            ChatRequest("target", place.stage, task.messages)  # type: ignore[arg-type]
        )
        steps = [Attempt(task.messages, answer.text)]
    else:
        async with aclosing(environment.solver(parts).solve(task, skill, place)) as told:  # type: ignore[type-var]
            steps = [step async for step in told]
    *before, last = steps
    return Made(last, before, await environment.grade(task, last, parts))


def attempt_now(
    environment: Environment,
    task: Task,
    script: Script,
    skill: str = "# Skill\n\nBe brief.",
    *,
    stage: str = "rollout",
    number: int = 0,
    limits: Mapping[str, int] | None = None,
) -> Made:
    """Make one attempt, in an event loop of its own; ``limits`` are enforced as the runner does."""
    place = Workplace(stage=stage, attempt=number)
    if limits is None:
        return asyncio.run(attempt(environment, task, ScriptedModel(script), skill, place))

    async def within(bounds: AttemptLimits) -> Made:
        parts: Any = LentParts(LimitedClient(ScriptedModel(script)), None)  # type: ignore[arg-type]
        made = await run_solver(
            *(environment.solver(parts), task, skill, replace(place, limits=bounds)),
            limits=bounds,
            grade_every_step=False,
            told=lambda _: None,
            so_far=Transcript(()),
        )
        return Made(made, (), await environment.grade(task, made, parts))

    return asyncio.run(within(AttemptLimits.model_validate(limits)))


@contextmanager
def opening(root: Path) -> Iterator[OpenEnvironment]:
    """Open environments in ``root``, each only once, until the end of the block."""
    known: dict[str, Environment] = {}

    def open_one(options: Mapping[str, Any], **environ: str) -> Environment:
        key = json.dumps([options, environ])
        if key not in known:
            seen = {"PATH": os.environ["PATH"], "HOME": str(root), **environ}
            known[key] = open_environment(EnvironmentConfig.model_validate(options), root, seen)
        return known[key]

    yield open_one
    for environment in known.values():
        environment.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenEnvironment]:
    """Open environments in ``tmp_path``; they are closed afterwards."""
    with opening(tmp_path) as open_one:
        yield open_one
