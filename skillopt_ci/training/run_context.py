"""Everything that training a run needs, assembled once and handed to every stage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Protocol

from skillopt_ci.agents.build import build_solver
from skillopt_ci.aio import Scheduler, Slots
from skillopt_ci.config.config import Config, GeneratedTasks
from skillopt_ci.config.rollout import LocalExecutor
from skillopt_ci.environments.api import grade
from skillopt_ci.ledger.folder import RecordMemory, RunFolder
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import ModelRouter, judge_with, open_router
from skillopt_ci.model.types import ChatClient, Usage
from skillopt_ci.progress import CallPaid, Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout.attempt import AttemptRunner, Grading
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.environment import Environment, Parts
from skillopt_ci.rollout.events import EventLog, Recorder, event_file, ignore_event
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.limits import LimitedClient
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.solver import Solver
from skillopt_ci.rollout.store import AttemptCache, AttemptStore
from skillopt_ci.rollout.types import Attempt, Executor, run_locally
from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Splits, Task, lessons_sha256
from skillopt_ci.training.fingerprint import model_facts
from skillopt_ci.training.prefetcher import Ahead, NothingAhead
from skillopt_ci.training.review_comments import ReviewerNote

# What attempts are made from: of a session, or of a worker that makes one attempt.


class ModelParts(Protocol):
    """What models are opened with, as in :class:`~skillopt_ci.training.run_context.Session`."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def root(self) -> Path:
        """Its folder."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment's variables, keys among them."""
        ...

    @property
    def observer(self) -> Observer:
        """Who is told."""
        ...

    @property
    def redact(self) -> Redact:
        """Takes secrets out of texts."""
        ...

    @property
    def cache_path(self) -> Path | None:
        """Where answered calls are kept, if they are."""
        ...


class RigParts(Protocol):
    """What attempts are made from, as in :class:`~skillopt_ci.training.run_context.Session`."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def root(self) -> Path:
        """Its folder."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompts."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment's variables, keys among them."""
        ...

    @property
    def observer(self) -> Observer:
        """Who is told."""
        ...

    @property
    def places(self) -> ComputerPool | None:
        """The computers, if there are any."""
        ...

    @property
    def environment(self) -> Environment | None:
        """Where tasks come from, if not from files."""
        ...

    @property
    def rollout_facts(self) -> Mapping[str, object]:
        """How attempts are made, as far as scores depend on it."""
        ...

    @property
    def cache_path(self) -> Path | None:
        """Where answered calls are kept, if they are."""
        ...

    @property
    def attempts_path(self) -> Path | None:
        """Where attempts are kept, if they are."""
        ...

    @property
    def events(self) -> Path | None:
        """The folder for the record of events, if there is to be one."""
        ...

    @property
    def redact(self) -> Redact:
        """Takes secrets out of what is kept."""
        ...


# Equipment: what all pieces of work of a session share while it is open.


class Equipment:
    """One pool of connections, one cache, one store and one scheduler, closed with ``resources``.

    All is opened by the first work that needs it: a run with nothing to do needs no key.
    """

    def __init__(self, config: Config, resources: AsyncExitStack) -> None:
        self.scheduler = Scheduler(
            config.model.target.max_concurrency, config.gradient.analyst_workers
        )
        self._resources = resources
        self._models: ModelRouter | None = None
        self._opening = asyncio.Lock()
        self._store: AttemptStore | None = None
        self._functions: Functions | None = None

    async def models(self, parts: ModelParts) -> ModelRouter:
        """The open models."""
        async with self._opening:
            if self._models is None:
                opened = open_router(
                    parts.config.model,
                    parts.environ,
                    cache_path=parts.cache_path,
                    root=parts.root,
                    observe=parts.observer,
                    redact=parts.redact,
                )
                self._models = await self._resources.enter_async_context(opened)
            return self._models

    def functions(self, environ: Mapping[str, str]) -> Functions:
        """The Python functions that grade, each loaded once for all work."""
        if self._functions is None:
            self._functions = self._resources.enter_context(closing(Functions(environ)))
        return self._functions

    def store(self, parts: RigParts) -> AttemptStore | None:
        """The open store of attempts, if they are kept.

        It is opened once: the whole file is checked then, however much is in it.
        """
        if self._store is None and parts.attempts_path is not None:
            store = AttemptStore(parts.attempts_path, parts.observer)
            self._store = self._resources.enter_context(closing(store))
        return self._store


# What attempts are made with: solver, computers, grading, store and record, from the session.


@asynccontextmanager
async def open_runner(
    session: RigParts,
    client: ChatClient,
    scope: str,
    meter: Meter,
    places: Slots,
    store: AttemptStore | None,
    functions: Functions,
    used: Callable[[str], object] = lambda _: None,
) -> AsyncIterator[Runner]:
    """A runner for one piece of work, whose record closes with the context.

    Attempts are kept in ``store``, if there is one, and each keeps one of ``places``; ``used``
    hears the key of every stored attempt. Raises
    :class:`~skillopt_ci.errors.ComputerUnavailable` before anything is paid for.
    """
    if session.places is not None:
        # it may run programs, and takes as long as they do
        await asyncio.to_thread(session.places.computers.check)
        if session.places.computers.caveat:
            session.observer(Note(session.places.computers.caveat, level="warning"))
    async with AsyncExitStack() as resources:
        solver, grading = _equipment(session, LimitedClient(client), functions)
        shelf = None
        if store is not None:
            shelf = AttemptCache(store, attempt_facts(session, solver), scope, meter, used)
        attempting = AttemptRunner(
            solver,
            grading,
            settings=session.config.rollout,
            pool=session.places,
            cache=shelf,
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


def _equipment(
    session: RigParts, client: ChatClient, functions: Functions
) -> tuple[Solver, Grading]:
    config, judge = session.config, judge_with(client)
    solver = build_solver(config, client, session.prompts, session.root, session.environ)
    scorers = TaskScorers(
        default=config.scorer,
        judge=judge,
        root=session.root,
        environ=session.environ,
        pool=session.places,
        limits=config.rollout.limits,
        functions=functions,
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


#: Where attempts are made if not in this process; imported only by runs that ask for it.
_EXECUTORS = MappingProxyType({"ray": "skillopt_ci.integrations.ray_executor:ray_executor"})


def _executor(parts: RigParts, attempting: AttemptRunner, resources: ExitStack) -> Executor:
    settings = parts.config.rollout.executor
    if isinstance(settings, LocalExecutor):
        return run_locally
    executor: Executor = resolve_name(_EXECUTORS[settings.type])(
        parts, settings, attempting, resources
    )
    return executor


def _recorder(session: RigParts, scope: str, resources: AsyncExitStack) -> Recorder:
    if session.events is None or not session.config.rollout.events:
        return ignore_event
    log = EventLog(
        event_file(session.events, scope, datetime.now(UTC)),
        session.config.run,
        redact=session.redact,
        observe=session.observer,
    )
    resources.enter_context(closing(log))
    return log


@dataclass(frozen=True)
class Session:
    """One run on one repository.

    ``root`` is the folder that the configuration's paths start from; ``skill_path`` is relative
    to the repository. ``measured_under`` fingerprints what scores depend on besides the skill.
    ``clock`` counts seconds; its zero means nothing. ``notes`` are what reviewers said, oldest
    first, heard or not. ``redact`` takes secrets out of what goes to models and comes from them.
    ``places`` are the computers that tasks are worked on with, ``environment`` is where they come
    from if not from task files. ``rollout_facts`` are the facts of how attempts are made that
    scores depend on, ``events`` is the folder in which their course is recorded. ``equipment`` is
    what all work shares between :func:`equipped` and its end, ``ahead`` makes attempts early,
    ``records`` are those that were read of late.
    """

    config: Config
    root: Path
    skill_path: str
    splits: Splits
    prompts: Prompts
    ledger: Ledger
    cache_path: Path | None
    environ: Mapping[str, str]
    observer: Observer
    clock: Callable[[], float]
    config_sha256: str
    measured_under: str
    notes: tuple[ReviewerNote, ...] = ()
    redact: Redact = unchanged
    places: ComputerPool | None = None
    environment: Environment | None = None
    rollout_facts: Mapping[str, object] = field(default_factory=dict)
    events: Path | None = None
    equipment: Equipment | None = None
    ahead: Ahead = NothingAhead()  # noqa: RUF009 - it has no state
    records: RecordMemory = field(default_factory=RecordMemory, repr=False, compare=False)

    @property
    def attempts_path(self) -> Path | None:
        """Where attempts are kept: beside the answered calls, like them or not at all."""
        cache = self.cache_path
        return None if cache is None else cache.with_name(f"{cache.stem}-attempts.sqlite")

    @property
    def folder(self) -> RunFolder:
        """The run's files in the tree."""
        return RunFolder(self.config.run, self.records)

    @property
    def selection(self) -> tuple[Task, ...]:
        """The tasks on which every candidate is measured: always the same, in the same order."""
        return first(self.splits.selection, self.config.evaluation.sel_env_num)

    @property
    def test(self) -> tuple[Task, ...]:
        """The tasks that no decision of training looks at."""
        return first(self.splits.test, self.config.evaluation.test_env_num)

    @cached_property
    def train_sha256(self) -> str:
        """A name for the training tasks; there may be thousands, and every stage asks."""
        return lessons_sha256(self.splits.train)

    @property
    def first_seed(self) -> int | None:
        """The seed of the first training batch, where tasks are generated by seeds."""
        tasks = self.config.tasks
        return tasks.seed + 1 if isinstance(tasks, GeneratedTasks) else None

    @property
    def simulated(self) -> bool:
        """Whether some model of the run is a simulated one."""
        models = self.config.model
        return any(
            role.provider == "simulated"
            for role in (models.target, models.optimizer, models.judge)
            if role is not None
        )

    def meter(self, run_started: float, spent: Usage) -> Meter:
        """A meter for one piece of work, when the run has consumed ``spent`` before it."""
        budget = self.config.budget
        return Meter(
            step=budget.step,
            run=budget.run,
            spent=spent,
            clock=self.clock,
            command_started=run_started,
            told=lambda usage: self.observer(CallPaid(usage.tokens, usage.cost_usd)),
        )

    @asynccontextmanager
    async def bench(
        self, scope: str, meter: Meter, used: Callable[[str], object] = lambda _: None
    ) -> AsyncIterator["Bench"]:
        """Make ready for one durable piece of work; of a session that is equipped on its equipment.

        ``scope`` names that work: answers kept under it count as its own when it is resumed, so
        that an interrupted step reports what it cost in all. ``used`` hears the cache's key of
        every answer and of every stored attempt.
        """
        async with equipped(self) as session, AsyncExitStack() as resources:
            equipment = session.equipment
            assert equipment is not None  # noqa: S101 - that is what being equipped means
            models, shared = await equipment.models(session), equipment.scheduler
            client = models.for_work(scope, meter, used, shared.questions)
            store = equipment.store(session)
            functions = equipment.functions(session.environ)
            opened = open_runner(
                self, client, scope, meter, shared.attempts, store, functions, used
            )
            runner = await resources.enter_async_context(opened)
            yield Bench(client, replace(runner, begun=self.ahead.begun), meter)


@dataclass(frozen=True, slots=True)
class Bench:
    """Open models: a client, a runner on it, and the meter that both are charged to."""

    client: ChatClient
    runner: Runner
    meter: Meter


@asynccontextmanager
async def equipped(session: Session) -> AsyncIterator[Session]:
    """The session with the equipment that all of its work within the context shares."""
    if session.equipment is not None:
        yield session
        return
    async with AsyncExitStack() as resources:
        yield replace(session, equipment=Equipment(session.config, resources))


def first(tasks: tuple[Task, ...], count: int) -> tuple[Task, ...]:
    """The first ``count`` tasks; all of them for 0."""
    return tasks[:count] if count else tasks
