"""Plays a solver on a task, on a real computer that confines nothing."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from virtual_time import out_of_time

from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.messages import Message
from skillopt_ci.rollout.limits import Transcript, run_solver
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import Attempt, Step
from skillopt_ci.tasks.task import Task


@dataclass
class Played:
    """What a solver did: its steps, its result, and files of the workspace afterwards."""

    steps: list[Step] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt:
        (one,) = self.attempts
        return one

    def of(self, kind: type[Any]) -> list[Any]:
        return [step for step in self.steps if isinstance(step, kind)]


def play(
    solver: Solver | Callable[[], AbstractAsyncContextManager[Solver]],
    prompt: str = "Do it.",
    *,
    task: Task | None = None,
    skill: str = "# Rules\n\nBe brief.\n",
    place: Workplace = Workplace("rollout"),  # noqa: B008 - immutable
    limits: Mapping[str, float] = {},
    look: Sequence[str] = (),
    files: Mapping[str, str] = {},
    script: str = "",
    computer: bool = True,
    held: bool = False,
    begun: Callable[[], object] | None = None,
) -> Played:
    """Play a solver (or what makes one in the event loop) on a task, in a workspace of its own.

    ``files`` are there before it works, and ``script`` as ``agent``; those that are to ``look`` at
    are read afterwards. If it is ``held`` to its limits, the runner does so. Its first minute is
    over as soon as it has ``begun``.
    """
    asked = task or Task("t", (Message("user", prompt),))

    async def run() -> Played:
        played = Played()
        async with (
            Unconfined(os.environ["PATH"]).open(ComputerSpec()) as opened,
            solver() if callable(solver) else nullcontext(solver) as ready,
        ):
            for name, content in {**({"agent": script} if script else {}), **files}.items():
                await opened.write(name, content.encode(), executable=True)
            at = replace(place, computer=opened if computer else None)
            if limits:
                at = replace(at, limits=AttemptLimits.model_validate(limits))
            if held:
                working = run_solver(
                    *(ready, asked, skill, at),
                    limits=at.limits,
                    grade_every_step=False,
                    told=played.steps.append,
                    so_far=Transcript(asked.messages),
                )
                played.attempts.append(await working)
            else:
                async for step in ready.solve(asked, skill, at):
                    if isinstance(step, Attempt):
                        played.attempts.append(step)
                    else:
                        assert not played.attempts, "a step after the result"
                        played.steps.append(step)
            played.files = {name: (await opened.read(name)).decode() for name in look}
        return played

    return asyncio.run(out_of_time(run(), begun) if begun else run())
