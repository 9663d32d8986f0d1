"""Everything that training a run needs, assembled once and passed to every stage."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.agents.cli_agents import ExternalSolver
from skillopt_ci.agents.manual import HumanSolver, ScriptedSolver, StreamTerminal
from skillopt_ci.agents.skill_files import read_skill_folder
from skillopt_ci.aio import Slots
from skillopt_ci.config import rollout
from skillopt_ci.config.config import Config
from skillopt_ci.config.reference import influences, recordable
from skillopt_ci.environments.api import grade
from skillopt_ci.errors import ModelSetupError, UsageError
from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.ledger.records import Basis, BoundaryRecord, StepRecord
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import ModelRouter, judge_reply, open_router
from skillopt_ci.model.cache import CacheFile, sha256_of
from skillopt_ci.model.types import Account, ChatClient, Role, Usage, total
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.rollout.attempt import AttemptRunner, Grading, Runner
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.rollout.environment import Environment, Parts
from skillopt_ci.rollout.events import EventLog, Recorder, event_file
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.limits import LimitedClient
from skillopt_ci.rollout.solver import ChatSolver, Solver
from skillopt_ci.rollout.store import AttemptCache, AttemptStore
from skillopt_ci.rollout.types import Attempt, AttemptRequest, Executor
from skillopt_ci.scorers.base import Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Splits, Task, task_sha256
from skillopt_ci.training.fingerprint import Unasked, measurement_fingerprint, model_facts
from skillopt_ci.training.review_comments import ReviewerNote
from skillopt_ci.util import sha256_of_json, user_errors


@dataclass(frozen=True, kw_only=True)
class RunnerParts:
    """What is needed to make attempts, in a run or on a worker that makes a single one.

    Paths in the configuration are relative to ``root``. ``events`` is the folder for attempts'
    events. ``redact`` removes secrets from all text.
    """

    config: Config
    root: Path
    prompts: Prompts
    environ: Mapping[str, str]
    cache_path: Path | None
    observer: Observer = silent
    redact: Redact = unchanged
    pool: ComputerPool | None = None
    environment: Environment | None = None
    events: Path | None = None

    @cached_property
    def rollout_facts(self) -> Mapping[str, object]:
        """How attempts are made; defaults are left out so that old fingerprints stay valid."""
        settings, facts = self.config.rollout, dict[str, object]()
        if settings.attempts > 1:
            facts["attempts"] = settings.attempts
        if settings.computer is not None:
            facts["computer"] = settings.computer.model_dump(mode="json")
        if self.pool is not None and (common := self.pool.common) is not None:
            files = [[file.name, file.content] for file in common.files]
            facts["task"] = [common.block.model_dump(mode="json", exclude={"files"}), files]
        if not isinstance(settings.solver, rollout.ChatConfig):
            solver = build_solver(self.config, Unasked(), self.prompts, self.root, self.environ)
            facts["solver"] = {
                "name": solver.name,
                **solver.identity(),
                "nudges": settings.nudges,
                "limits": settings.limits.model_dump(mode="json"),
            }
        if self.environment is not None:
            with user_errors("environment: identity() must return JSON facts:"):
                facts["environment"] = dict(self.environment.identity())
                sha256_of_json(facts)  # raises if they are not JSON
        return facts

    @property
    def attempts_path(self) -> Path | None:
        """The store of attempts, beside the cache of calls; None without a cache."""
        cache = self.cache_path
        return None if cache is None else cache.with_name(f"{cache.stem}-attempts.sqlite")


def runner_parts(
    config: Config, root: Path, environ: Mapping[str, str], environment: Environment | None
) -> RunnerParts:
    return RunnerParts(
        config=config,
        root=root,
        prompts=Prompts.load(
            None if config.prompts is None else root / config.prompts,
            dict if environment is None else environment.prompts,
        ),
        environ=environ,
        cache_path=None,
        pool=open_computer_pool(config, root, environ),
        environment=environment,
    )


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Work that no commit records yet: its meter and scope, and the scopes charged to it, too."""

    meter: Meter
    scope: str
    others: tuple[str, ...]


class Equipment:
    """Resources shared by all work of a run, opened on first use, closed with ``resources``."""

    def __init__(self, parts: RunnerParts, resources: AsyncExitStack) -> None:
        self.attempts = Slots(parts.config.model.target.max_concurrency)
        self.questions = Slots(parts.config.gradient.analyst_workers)
        self.functions = resources.enter_context(closing(Functions(parts.environ)))
        self._parts = parts
        self._resources = resources
        self._models: ModelRouter | None = None
        #: The store of attempts, and all files that know what calls have cost, once opened.
        self.store: AttemptStore | None = None
        self._caches: list[CacheFile] = []
        self.unrecorded: Unrecorded | None = None
        self._opening = asyncio.Lock()
        self._elsewhere: Callable[[AttemptRunner], Executor] | None = None

    async def router(self) -> ModelRouter:
        """The models, opened on first use together with the store of attempts."""
        parts = self._parts
        async with self._opening:
            if self._models is None:
                opened = open_router(
                    parts.config.asked_roles,
                    parts.environ,
                    cache_path=parts.cache_path,
                    root=parts.root,
                    observe=parts.observer,
                    redact=parts.redact,
                )
                self._models = await self._resources.enter_async_context(opened)
                if parts.attempts_path is not None:
                    store = await AttemptStore.opened(parts.attempts_path, parts.observer)
                    self.store = self._resources.enter_context(closing(store))
                # external programs' calls do not go through ours
                external = isinstance(parts.config.rollout.solver, rollout.ExternalConfig)
                self._caches += filter(None, (self._models.cache, self.store if external else None))
            return self._models

    async def paid(
        self, scope: str, commits: Callable[[], Collection[str]]
    ) -> tuple[Usage, dict[str, Usage]]:
        """What ``scope`` paid for, and each other scope of its run on one of ``commits``."""
        await self.router()
        run = self._parts.config.run
        found = {name for one in self._caches for name in one.scopes(run)}
        below = commits() if found - {scope} else ()
        if below:  # from here on, what lost a race is like work that was stopped on this commit
            lost = f"{run}/lost@{scope.rpartition('@')[2]}"
            self._caches[0].rename(f"{run}/lost", lost)
            found.add(lost)
        each = {
            name: total(one.paid(name) for one in self._caches)
            for name in found
            if name == scope or name.rpartition("@")[2] in below
        }
        return each.pop(scope, Usage()), each

    async def keep_lost(self) -> None:
        """Leave it to the next work, perhaps of another command, to pay for what lost a race."""
        cache, work = (await self.router()).cache, self.unrecorded
        if cache is not None and work is not None:
            self.unrecorded = None
            cache.put_unanswered(work.meter.unrecorded(), f"{self._parts.config.run}/lost")
            for one in self._caches:
                for scope in (work.scope, *work.others):
                    one.rename(scope, "counted as lost")

    @asynccontextmanager
    async def models(
        self,
        run: RunnerParts,
        scope: str,
        meter: Meter,
        used: Callable[[str], object] = silent,
        join: Callable[[AttemptRequest], Awaitable[None]] | None = None,
    ) -> AsyncIterator["OpenModels"]:
        """Open models for work whose calls are counted by ``meter`` and kept under ``scope``.

        ``used`` receives the keys of answers and stored attempts. Raises ComputerUnavailable before
        anything is paid for.
        """
        client = (await self.router()).for_work(scope, meter, used, self.questions)
        if run.pool is not None:
            await asyncio.to_thread(run.pool.computers.check)  # it may run slow programs
            if run.pool.computers.caveat:
                run.observer(Note(run.pool.computers.caveat, level="warning"))
        async with AsyncExitStack() as resources:
            solver, grading = open_solver(run, LimitedClient(client), self.functions)
            cache = None
            if self.store is not None:
                # what determines attempts, besides task, skill, number and limits
                facts = {
                    **run.rollout_facts,
                    "solver": [solver.name, dict(solver.identity())],
                    "nudges": run.config.rollout.nudges,
                    "target": model_facts(run.config.model.target),
                }
                facts.pop("attempts", None)
                if "task" in facts:  # the key has the task itself under that name
                    facts["common"] = facts.pop("task")
                cache = AttemptCache(self.store, facts, scope, meter, used)
            record: Recorder = silent
            if run.events is not None and run.config.rollout.events:
                file = event_file(run.events, scope, datetime.now(UTC))
                log = EventLog(file, run.config.run, redact=run.redact, observe=run.observer)
                record = resources.enter_context(closing(log))
            attempting = AttemptRunner(
                solver,
                grading,
                settings=run.config.rollout,
                pool=run.pool,
                cache=cache,
                meter=meter,
                record=record,
                evidence=("rollout",) if run.environment and run.environment.reflects else (),
                redact=run.redact,
            )
            executor: Executor | None = None
            settings = run.config.rollout.executor
            if not isinstance(settings, rollout.LocalExecutor):
                if self._elsewhere is None:
                    make = resolve_name(_EXECUTORS[settings.type])
                    self._elsewhere = make(run, settings, solver, self._resources)
                executor = self._elsewhere(attempting)
            runner = Runner(attempting, self.attempts, executor=executor, join=join)
            yield OpenModels(client, runner, meter)


@dataclass(frozen=True, slots=True)
class OpenModels:
    client: ChatClient
    runner: Runner
    meter: Meter


def build_solver(
    config: Config, client: ChatClient, prompts: Prompts, root: Path, environ: Mapping[str, str]
) -> Solver:
    """Raises ModelSetupError, or SkillError for an unusable skill folder."""
    match config.rollout.solver:
        case rollout.ChatConfig():
            return ChatSolver(client, prompts)
        case rollout.AgentConfig() as settings:
            if config.model.target.provider == "command":
                raise ModelSetupError(
                    "model.target: a command cannot call the tools of the built-in agent.",
                    hint="Run an agent that has its own tools with "
                    "`rollout.solver: {type: external}`.",
                )
            return AgentSolver(client, prompts, settings)
        case rollout.ExternalConfig() as settings:
            folder = read_skill_folder(root / config.skill)
            return ExternalSolver(settings, prompts, folder, root.resolve(), environ)
        case rollout.ScriptedConfig() as settings:
            return ScriptedSolver(settings)
        case rollout.HumanConfig() as settings:
            return HumanSolver(settings, StreamTerminal(sys.stdin, sys.stderr))


def open_solver(
    run: RunnerParts, client: ChatClient, functions: Functions
) -> tuple[Solver, Grading]:
    config, judge = run.config, partial(judge_reply, client)
    solver = build_solver(config, client, run.prompts, run.root, run.environ)
    scorers = TaskScorers(
        default=config.scorer,
        judge=judge,
        root=run.root,
        functions=functions,
        pool=run.pool,
        limits=config.rollout.limits,
    )
    environment = run.environment
    if environment is None:
        return solver, scorers
    parts = Parts(
        client=client,
        prompts=run.prompts,
        judge=judge,
        config=config,
        root=run.root,
        environ=run.environ,
        computers=None if run.pool is None else run.pool.computers,
        solver=solver,
        grade=scorers.grade,
    )
    grading = EnvironmentGrading(environment, parts, scorers) if environment.grades else scorers
    call = f"environment: {type(environment).__name__}.solver"
    with user_errors(f"{call} raised"):
        solver = environment.solver(parts)
        if not all(hasattr(solver, k) for k in ("name", "needs_computer", "identity", "solve")):
            raise UsageError(
                f"{call} returned {type(solver).__name__}, expected an object with `name`, "
                "`needs_computer`, `identity()` and `solve()`: see docs/environments.md"
            )
    with user_errors(f"environment: {type(solver).__name__}.identity() must return JSON facts:"):
        sha256_of(dict(solver.identity()))  # as in the key of its attempts: a Path counts as text
    return solver, grading


@dataclass(frozen=True, slots=True)
class EnvironmentGrading:
    environment: Environment
    parts: Parts
    scorers: TaskScorers

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        return await grade(self.environment, task, attempt, self.parts)

    def facts(self, _task: Task) -> Mapping[str, object] | None:
        return None  # we cannot know what an environment's grading depends on

    def keeps_computer(self, task: Task) -> bool:
        return self.scorers.keeps_computer(task)


#: Executors that make attempts outside this process, imported only by runs that use them.
_EXECUTORS = {"ray": "skillopt_ci.integrations.ray_executor:ray_executor"}


class Render(Protocol):
    """Commit messages: the command line passes in their wording, which training does not know."""

    def event(self, event: Any, candidate: str | None) -> CommitText: ...
    def candidate(self, record: StepRecord | BoundaryRecord) -> CommitText: ...
    def base(self, base: str, skill: str) -> CommitText: ...


@dataclass(frozen=True, kw_only=True)
class Run(RunnerParts):
    """One run on one repository, with the skill at ``skill_path`` in it.

    ``command_started`` is a reading of ``clock``, in seconds. ``reviewer_notes`` has the oldest
    first. ``listen`` receives the trainer's events; ``join`` waits for an attempt that is being
    prefetched. ``kept`` is for ``State.kept``.
    """

    skill_path: str
    splits: Splits
    ledger: Ledger
    render: Render
    clock: Callable[[], float]
    command_started: float
    kept: Mapping[str, object] = field(default_factory=dict)
    reviewer_notes: tuple[ReviewerNote, ...] = ()
    listen: Callable[[object], None] = silent
    join: Callable[[AttemptRequest], Awaitable[None]] | None = None
    equipment: Equipment | None = None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.config.run)

    @property
    def selection(self) -> tuple[Task, ...]:
        """The tasks on which every candidate is measured, always in the same order."""
        return self.splits.selection[: self.config.evaluation.sel_env_num or None]

    @property
    def test(self) -> tuple[Task, ...]:
        """The tasks that no training decision uses."""
        return self.splits.test[: self.config.evaluation.test_env_num or None]

    @cached_property
    def config_sha256(self) -> str:
        """Which settings a step is taken with, not what the files that they name contain."""
        return sha256_of_json(influences(self.config))

    @cached_property
    def measured_under(self) -> str:
        """The fingerprint of what scores depend on besides the skill."""
        return measurement_fingerprint(
            self.config, self.selection, self.prompts, self.rollout_facts, self.root
        )

    @cached_property
    def tested_under(self) -> str:
        """The same for test scores; empty if nothing is tested."""
        if not (self.test and self.config.evaluation.eval_test):
            return ""
        return measurement_fingerprint(
            self.config, self.test, self.prompts, self.rollout_facts, self.root
        )

    @cached_property
    def basis(self) -> Basis:
        """What candidates are made under; the hash covers what can change what is learned."""
        train = self.splits.train
        lessons = "\n".join(task_sha256(task) + task.reference_text for task in train)
        tasks = {"train_size": len(train), "train_sha256": sha256(lessons)}
        return Basis.model_validate({"config": recordable(self.config), **tasks})

    @cached_property
    def basis_sha256(self) -> str:
        return sha256(self.basis.model_dump_json())

    @property
    def simulated(self) -> bool:
        return any(role.provider == "simulated" for role in self.config.model.roles.values())

    def scope(self, work: str, commit: str) -> str:
        """The name under which the caches keep what ``work`` on top of ``commit`` paid for."""
        return f"{self.config.run}/{work}@{commit}"

    @asynccontextmanager
    async def models(
        self,
        scope: str,
        spent: Usage | None = None,
        *,
        commits: Callable[[], Collection[str]] = tuple,
        limited: bool = True,
    ) -> AsyncIterator["OpenModels"]:
        """Open models for one durable piece of work, on the run's equipment if it has any.

        When the work is resumed, answers stored under ``scope`` count as its own. The run's budgets
        apply, less ``spent``. Work on ``commits`` that was stopped or lost a race is charged, too.
        """
        async with equipped(self) as (_, equipment):
            own, others = await equipment.paid(scope, commits)
            before = equipment.unrecorded
            if before is not None and before.scope != scope:  # the cache may know it, too
                others.setdefault(before.scope, before.meter.unrecorded())
            meter = Meter(
                step=self.config.budget.step if limited else None,
                run=self.config.budget.run,
                spent=total([spent or Usage(), *others.values()]),
                clock=self.clock,
                command_started=self.command_started,
                observe=self.observer,
                paid_before=own,
            )
            equipment.unrecorded = Unrecorded(meter, scope, tuple(others))
            try:
                async with equipment.models(self, scope, meter, join=self.join) as models:
                    yield models
            finally:
                # at the end, so that no candidate's record holds what its resumption charges again
                if (lost := total(others.values()) + meter.unbooked).calls:
                    meter.charge(Account(Role.TARGET, "abandoned"), lost)  # by whichever role


@asynccontextmanager
async def equipped(run: Run) -> AsyncIterator[tuple[Run, Equipment]]:
    """The run with equipment that all its work within the context shares, and the equipment."""
    if run.equipment is not None:
        yield run, run.equipment
        return
    async with AsyncExitStack() as resources:
        equipment = Equipment(run, resources)
        yield replace(run, equipment=equipment), equipment
