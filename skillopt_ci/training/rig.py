"""What attempts are made with: solver, computers, grading, store and record, from the session."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime

from skillopt_ci.agents.build import build_solver
from skillopt_ci.aio import Places
from skillopt_ci.config.rollout import LocalExecutor
from skillopt_ci.environments.api import grade
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.middleware import ChatJudge
from skillopt_ci.model.types import ChatClient
from skillopt_ci.progress import Note
from skillopt_ci.rollout.attempt import Attempting, Grading
from skillopt_ci.rollout.environment import Environment, Parts
from skillopt_ci.rollout.events import EventLog, Recorder, event_file, nobody
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.limits import LimitedClient
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.solver import Solver
from skillopt_ci.rollout.store import AttemptStore, Shelf
from skillopt_ci.rollout.types import Attempt, Executor, local
from skillopt_ci.scorers.base import Score
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.fingerprint import model_facts
from skillopt_ci.training.rig_parts import RigParts


@asynccontextmanager
async def open_runner(
    session: RigParts,
    client: ChatClient,
    scope: str,
    meter: Meter,
    places: Places,
    store: AttemptStore | None,
    used: Callable[[str], object] = lambda _: None,
) -> AsyncIterator[Runner]:
    """A runner for one piece of work, whose record closes with the context.

    Attempts are kept in ``store``, if there is one, and each keeps one of ``places``; ``used``
    hears the key of every stored attempt. Raises
    :class:`~skillopt_ci.computer.computer.ComputerUnavailable` before anything is paid for.
    """
    if session.places is not None:
        # it may run programs, and takes as long as they do
        await asyncio.to_thread(session.places.computers.check)
        if session.places.computers.caveat:
            session.observer(Note(session.places.computers.caveat, level="warning"))
    async with AsyncExitStack() as resources:
        solver, grading = _equipment(session, LimitedClient(client))
        shelf = None
        if store is not None:
            shelf = Shelf(store, attempt_facts(session, solver), scope, meter, used)
        attempting = Attempting(
            solver,
            grading,
            settings=session.config.rollout,
            places=session.places,
            shelf=shelf,
            meter=meter,
            record=_recorder(session, scope, resources),
            evidence=("rollout",) if _reflects(session.environment) else (),
            redact=session.redact,
        )
        # what it holds is open as long as the runner
        held = resources.enter_context(ExitStack())
        yield Runner(attempting, places, executor=_executor(session, attempting, held))


def _reflects(environment: Environment | None) -> bool:
    return environment is not None and environment.reflects


def attempt_facts(session: RigParts, solver: Solver) -> Mapping[str, object]:
    """The JSON facts that determine attempts, besides task, skill, number and limits."""
    return {
        **{name: fact for name, fact in session.rollout_facts.items() if name != "attempts"},
        "solver": [solver.name, dict(solver.identity())],
        "nudges": session.config.rollout.nudges,
        "target": model_facts(session.config.model.target),
    }


def _equipment(session: RigParts, client: ChatClient) -> tuple[Solver, Grading]:
    config, judge = session.config, ChatJudge(client)
    solver = build_solver(config, client, session.prompts, session.root, session.environ)
    scorers = TaskScorers(
        default=config.scorer,
        judge=judge,
        root=session.root,
        environ=session.environ,
        places=session.places,
        limits=config.rollout.limits,
    )
    environment = session.environment
    if environment is None:
        return solver, scorers
    parts = Parts(
        client=client,
        prompts=session.prompts,
        judge=judge,
        config=config,
        root=session.root,
        environ=session.environ,
        computers=None if session.places is None else session.places.computers,
        solver=solver,
        grade=scorers.grade,
    )
    grading = EnvironmentGrading(environment, parts, scorers) if environment.grades else scorers
    return environment.solver(parts), grading


@dataclass(frozen=True, slots=True)
class EnvironmentGrading:
    """Grading as an environment does it."""

    environment: Environment
    parts: Parts
    scorers: TaskScorers

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        """Let the environment grade."""
        return await grade(self.environment, task, attempt, self.parts)

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """What an environment looks at is not ours to vouch for."""
        del task
        return None

    def keeps_computer(self, task: Task) -> bool:
        """As the task's scorer says."""
        return self.scorers.keeps_computer(task)


def _executor(parts: RigParts, attempting: Attempting, resources: ExitStack) -> Executor:
    settings = parts.config.rollout.executor
    if isinstance(settings, LocalExecutor):
        return local
    # Imported late: few runs have a cluster.
    from skillopt_ci.integrations.ray_executor import ray_executor  # noqa: PLC0415

    return ray_executor(parts, settings, attempting, resources)


def _recorder(session: RigParts, scope: str, resources: AsyncExitStack) -> Recorder:
    if session.events is None or not session.config.rollout.events:
        return nobody
    log = EventLog(
        event_file(session.events, scope, datetime.now(UTC)),
        session.config.run,
        redact=session.redact,
        observe=session.observer,
    )
    resources.enter_context(closing(log))
    return log
