"""The executor that makes a run's attempts on a Ray cluster."""

import asyncio
import atexit
import hashlib
import logging
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.config.rollout import HumanConfig, LocalExecutor, RayExecutor
from skillopt_ci.confinement import whole_environment
from skillopt_ci.environments import find
from skillopt_ci.environments.api import require
from skillopt_ci.errors import BudgetExhausted, InfrastructureError, SkilloptError, UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED, CallCache, answer_lines, call_key, import_lines
from skillopt_ci.progress import Note
from skillopt_ci.redaction import Redactor, named_secrets
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.solver import ChatSolver, Solver
from skillopt_ci.rollout.types import AttemptRequest, Executor, MakeAttempt, Rollout
from skillopt_ci.training.fingerprint import keep_secrets, run_secrets
from skillopt_ci.training.run_context import Equipment, RunnerParts, runner_parts


def join(settings: RayExecutor) -> Any:
    """Connect this process to the cluster, in seconds; returns ``ray``. InfrastructureError."""
    # Imported late: the import takes seconds.
    import ray  # noqa: PLC0415
    from ray._private import worker  # noqa: PLC0415

    # Ray reports dead workers on our standard output, which is for results, and has no switch.
    setattr(worker, "print_to_stdstream", lambda *_, **__: None)  # noqa: B010 - untyped
    if ray.is_initialized():
        return ray
    # Our users have not agreed to send usage reports to Ray's makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Workers of a cluster that begins here get this process's environment, which has no secrets.
    local = settings.address == "local"
    withheld = dict(whole_environment().items() - os.environ.items()) if local else {}
    os.environ.update(withheld)
    try:
        # Workers' logs are not our progress messages; what matters is in the handover.
        ray.init(
            address=settings.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=False if local else None,
        )
    except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        reason = (str(error).strip() or "it does not answer").splitlines()[0]
        raise InfrastructureError(
            f"rollout.executor: no Ray cluster at {settings.address!r}: {reason}",
            hint="`address: local` starts one of this machine; "
            "`ray start` makes a machine part of one.",
        ) from error
    finally:
        for name in withheld:
            del os.environ[name]
    atexit.register(ray.shutdown)
    return ray


@dataclass(frozen=True, slots=True)
class Parcel:
    """An order without secrets; ``root`` is the configuration's folder on every node."""

    config: str
    root: str
    order: AttemptRequest
    limits: Limits


@dataclass(frozen=True, slots=True)
class Handover:
    #: The paid answers, as lines of a shard's file.
    answers: tuple[str, ...] = ()
    #: Why the worker could not measure the attempt.
    trouble: str = ""


#: How long a worker may take to stop what a cancelled attempt started.
_STOP_SECONDS = 30.0


class Workers:
    """Up to ``most`` processes, started as needed; each makes ``at_once`` attempts at a time."""

    def __init__(self, settings: RayExecutor, at_once: int, most: int) -> None:
        self._settings, self._at_once, self._most = settings, at_once, most
        self._starts: list[asyncio.Task[None]] = []
        self._processes: list[Any] = []
        self._free = asyncio.Queue[Any]()
        self._joining = asyncio.Lock()
        #: The module, once this process has joined the cluster.
        self.ray: Any = None

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Any]:
        async with self._joining:
            self.ray = await asyncio.to_thread(join, self._settings)
            if self._free.empty():
                # Where all cores are taken, one more would wait, and keep another from restarting.
                cores = self.ray.cluster_resources().get("CPU", 0)
                room = min(self._most, int(cores / (self._at_once * self._settings.cpus)))
                if len(self._starts) < max(1, room):
                    self._starts.append(asyncio.create_task(self._start()))
        worker = await self._free.get()
        try:
            yield worker
        finally:
            self._free.put_nowait(worker)

    async def _start(self) -> None:
        worker: Any = (
            self.ray.remote(Worker)
            .options(
                num_cpus=self._at_once * self._settings.cpus,
                max_concurrency=self._at_once,
                max_restarts=-1,
                max_task_retries=self._settings.restarts,
            )
            .remote(secrets.token_hex(8))
        )
        self._processes.append(worker)
        with suppress(self.ray.exceptions.RayError):  # the first attempt will report the reason
            await worker.ready.remote()
        for _ in range(self._at_once):
            self._free.put_nowait(worker)

    def end(self) -> None:
        """Release the processes' share of the cluster."""
        for start in self._starts:
            start.cancel()
        for worker in self._processes:
            with suppress(ValueError, self.ray.exceptions.RayError):  # it or the cluster is gone
                self.ray.kill(worker)


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Sends orders whose answers are not in ``cache`` to the cluster."""

    parts: RunnerParts
    workers: Workers
    cache: CallCache
    told: set[str]
    attempting: AttemptRunner

    async def __call__(self, order: AttemptRequest, here: MakeAttempt) -> Rollout:
        """The rollout for ``order``. Raises InfrastructureError if there is no cluster."""
        if not self._known(order):
            config, root = self.parts.config, str(self.parts.root.resolve())
            rollout = config.rollout.model_copy(update={"executor": LocalExecutor()})
            text = config.model_copy(update={"rollout": rollout}).model_dump_json()
            # Each attempt gets an equal share of the remaining budget.
            with self.attempting.meter.lent(config.model.target.max_concurrency) as limits:
                self._take_in(await self._elsewhere(Parcel(text, root, order, limits)))
        return await here(order)

    def _known(self, order: AttemptRequest) -> bool:
        if self.attempting.kept(order):
            return True
        solver = self.attempting.solver
        if not isinstance(solver, ChatSolver | AgentSolver):
            return False  # another program decides on its requests
        request = solver.first_request(order.task, order.skill, order.stage, order.attempt)
        return self.cache.get(call_key(self.parts.config.model.target, request)) is not None

    async def _elsewhere(self, parcel: Parcel) -> Handover:
        async with self.workers.one() as worker:
            ray = self.workers.ray
            named = worker.make.options(name=f"skillopt-ci {parcel.order.task.id[:80]}")
            try:
                reference = named.remote(parcel)
            except ConnectionError as error:
                return Handover(trouble=str(error))
            done: asyncio.Future[Handover] = asyncio.wrap_future(reference.future())
            try:
                await asyncio.wait({done})
            except asyncio.CancelledError:
                ray.cancel(reference)
                # The caller may rely on nothing of this attempt still running.
                await asyncio.wait({done}, timeout=_STOP_SECONDS)
                if done.done() and not done.cancelled():
                    done.exception()  # else asyncio warns that nobody retrieved it
                raise
            try:
                return done.result()
            except ray.exceptions.RayActorError:
                return Handover(trouble="its process died")
            except ray.exceptions.RayError as error:
                reason = (str(error).strip() or "no reason").splitlines()[-1].strip()
                return Handover(trouble=f"{type(error).__name__}: {reason}")

    def _take_in(self, handover: Handover) -> None:
        trouble, kept = handover.trouble, self.attempting.cache
        try:
            if handover.answers and kept is not None:
                lines = map(self.parts.redact, handover.answers)
                import_lines(self.cache, {Path("a Ray worker's answers"): lines}, kept.store.take)
        except SkilloptError as error:
            trouble = error.message
        if trouble and trouble not in self.told:
            self.told.add(trouble)
            self.parts.observer(Note(f"Ran here since no Ray worker could: {trouble}", "warning"))


# The worker's side: makes attempts on a machine of the cluster with that machine's environment.


@dataclass(frozen=True)
class Worker:
    """A process that makes attempts; after a restart by Ray it has the same ``name``."""

    name: str = ""

    async def ready(self) -> None: ...

    async def make(self, parcel: Parcel) -> Handover:
        redact = Redactor(named_secrets(os.environ))
        order = f"{parcel.order.stage}\0{parcel.order.task.id}\0{parcel.order.attempt}"
        content = f"{self.name}\0{parcel.config}\0{parcel.root}\0{order}"
        try:
            folder = _folder(hashlib.sha256(content.encode()).hexdigest())
            try:
                return await make_attempt(parcel, folder, redact)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except (SkilloptError, OSError) as error:
            return Handover(trouble=redact(str(error)))


async def make_attempt(parcel: Parcel, folder: Path, redact: Redactor) -> Handover:
    """Make the attempt; ``folder`` keeps paid results until they are handed over."""
    task, keys, trouble = parcel.order.task, list[str](), ""
    async with AsyncExitStack() as stack:
        parts = _parts(parcel, folder, redact, stack)
        cache = stack.enter_context(closing(CallCache(folder / "calls.sqlite")))
        equipment, meter = Equipment(parts, stack), Meter(step=parcel.limits)
        redact.learn(run_secrets(parts.config, parts.root, parts.environ, [task]))
        try:
            # if only its share is used up, the caller continues with the whole budget
            with suppress(BudgetExhausted):
                async with equipment.models(parts, UNCLAIMED, meter, keys.append) as models:
                    rollout = await models.runner.attempting(parcel.order)
                trouble = "" if rollout.status.measured else rollout.reason
        except SkilloptError as error:
            trouble = error.message
        kept = equipment.store.lines(keys) if equipment.store else ()
        return Handover(answer_lines(cache, keys, kept), redact(trouble))


def _parts(parcel: Parcel, folder: Path, redact: Redactor, stack: AsyncExitStack) -> RunnerParts:
    config, root = Config.model_validate_json(parcel.config), Path(parcel.root)
    environ = dict(os.environ)
    keep_secrets(config, root, environ)
    environment = None
    if config.environment is not None:
        environment = find.open_environment(config.environment, root, environ)
        stack.callback(find.close, environment, redact)
    parts = runner_parts(config, root, environ, environment)
    return replace(parts, cache_path=folder / "calls.sqlite", redact=redact)


def _folder(name: str) -> Path:
    """This user's folder for the attempt; it survives the death of a worker."""
    mine = Path(tempfile.gettempdir()) / f"skillopt-ci-{os.getuid()}"
    mine.mkdir(mode=0o700, exist_ok=True)
    state = mine.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or mine.is_symlink():
        raise InfrastructureError(f"{mine} belongs to somebody else, or others may write to it")
    folder = mine / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def ray_executor(
    parts: RunnerParts, settings: RayExecutor, solver: Solver, resources: AsyncExitStack
) -> Callable[[AttemptRunner], Executor]:
    """A factory of executors that share the run's processes. Raises UsageError."""
    require("ray", "ray", "rollout.executor")
    if isinstance(parts.config.rollout.solver, HumanConfig):
        raise UsageError("rollout.executor: ray: a person can only work at this terminal.")
    if parts.cache_path is None:
        raise UsageError(
            "rollout.executor: ray: answers can be shared between machines only with a cache.",
            hint="Set cache.enabled to true.",
        )
    cache = resources.enter_context(closing(CallCache(parts.cache_path, parts.observer)))
    at_once = max(1, int(1 / settings.cpus)) if isinstance(solver, ChatSolver) else 1
    most = math.ceil(parts.config.model.target.max_concurrency / at_once)
    workers = Workers(settings, at_once, most)
    resources.callback(workers.end)
    return partial(ClusterExecutor, parts, workers, cache, set())
