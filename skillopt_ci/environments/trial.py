"""Tasks tried out with known solutions, before a model is paid for."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from skillopt_ci.agents.manual import ScriptedSolver
from skillopt_ci.aio import Places
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.rollout import ScriptedSettings
from skillopt_ci.errors import UsageError
from skillopt_ci.rollout.attempt import Attempting
from skillopt_ci.rollout.computers import open_places
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task

_AT_A_TIME = 4


def try_solutions(
    loaded: Loaded,
    tasks: Sequence[Task],
    solutions: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
) -> dict[str, Rollout]:
    """What comes of each task, by its id, if the commands that ``solutions`` has for it are run.

    A task without a solution is graded as it is given out. Works on the configuration's computers;
    raises :class:`~skillopt_ci.computer.computer.ComputerUnavailable` where there can be none,
    UsageError where none is configured.
    """
    settings = loaded.config.rollout
    places = open_places(loaded.config, loaded.root, environ)
    if places is None:
        raise UsageError("Solutions are commands, and no computer is configured for them")
    places.computers.check()
    scorers = TaskScorers(
        loaded.config.scorer,
        judge=None,
        root=loaded.root,
        environ=environ,
        places=places,
        limits=settings.limits,
    )
    solver = ScriptedSolver(ScriptedSettings(type="scripted", answer="done"))
    attempting = Attempting(solver, scorers, settings, places)
    scripted = [_with_script(task, solutions.get(task.id, ())) for task in tasks]
    runner = Runner(attempting, Places(_AT_A_TIME))
    made = asyncio.run(runner.roll_out(scripted, "", stage="trial", attempts=(0,)))
    return {rollout.task_id: rollout for rollout in made}


def _with_script(task: Task, commands: Sequence[str]) -> Task:
    script = {"commands": list(commands), "answer": "done"}
    return replace(task, metadata={**task.metadata, "script": script})
