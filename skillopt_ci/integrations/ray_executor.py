"""The executor of a run whose attempts a Ray cluster makes."""

import asyncio
import atexit
import hashlib
import json
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.config.rollout import HumanConfig, LocalExecutor, RayExecutor
from skillopt_ci.environments.find import open_environment
from skillopt_ci.errors import BudgetExhausted, InfrastructureError, SkilloptError, UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED, CallCache, answer_lines, call_key, import_lines
from skillopt_ci.progress import Note
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redactor, named_secrets
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.computer_pool import open_computer_pool
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.solver import ChatSolver, chat_request, conversation
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.types import AttemptRequest, Executor, MakeAttempt, Rollout
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256
from skillopt_ci.training.fingerprint import keep_secrets, run_secrets, working_facts
from skillopt_ci.training.run_context import Equipment, RunnerParts

# The Ray cluster: found, joined or started.


def join(settings: RayExecutor) -> None:
    """Connect this process to the cluster until it ends; one that is connected already stays.

    Blocks for seconds. Raises :class:`InfrastructureError` where no cluster answers.
    """
    # Imported late: it is large and takes seconds.
    import ray  # noqa: PLC0415
    from ray._private import worker  # noqa: PLC0415

    # Ray tells of dead workers on our standard output, where results stand, and has no switch
    if hasattr(worker, "print_to_stdstream"):
        setattr(worker, "print_to_stdstream", lambda *_, **__: None)  # noqa: B010 - untyped
    if ray.is_initialized():
        return
    # whoever trains a skill here has agreed to nothing that reports to Ray's makers
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # the workers' words are no progress of ours, and what matters of them is handed over
        ray.init(
            address=settings.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
            include_dashboard=False if settings.address == "local" else None,
        )
    except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        reason = (str(error).strip() or "it does not answer").splitlines()[0]
        raise InfrastructureError(
            f"rollout.executor: no Ray cluster at {settings.address!r}: {reason}",
            hint="`address: local` starts one of this machine; "
            "`ray start` makes a machine part of one.",
        ) from error
    atexit.register(ray.shutdown)


# What goes to a worker of the cluster, and what comes back.


@dataclass(frozen=True, slots=True)
class Parcel:
    """One order with all that a worker needs for it, but no secret: those it has by itself.

    ``config`` is the configuration as JSON, ``root`` its folder, which every node must see under
    this path. ``name`` is the same for the same order: a worker that takes it up again after
    another one died finds what that one had paid for. ``limits`` are what the budgets allow it.
    """

    name: str
    config: str
    root: str
    order: AttemptRequest
    limits: Limits


@dataclass(frozen=True, slots=True)
class Handover:
    """What a worker hands over."""

    answers: tuple[str, ...] = ()
    """Those that were paid for, as the lines of a shard's file."""
    trouble: str = ""
    """What kept the worker from measuring the attempt."""


# Attempts made by workers of a Ray cluster, and accounted for here.

#: A worker whose attempt was cancelled has this long to stop what it started.
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Sends orders whose answers are not in ``cache`` to the cluster, which the first one joins."""

    settings: RayExecutor
    parts: RunnerParts
    attempting: AttemptRunner
    meter: Meter
    store: AttemptStore
    cache: CallCache
    _joining: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _tasks: list[Any] = field(default_factory=list, init=False, repr=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    async def __call__(self, order: AttemptRequest, here: MakeAttempt) -> Rollout:
        """Return what came of ``order``; raises InfrastructureError where there is no cluster."""
        if not self._known(order):
            # each attempt may use a fair part of what the budgets have left
            with self.meter.lent(self.parts.config.model.target.max_concurrency) as limits:
                handover = await self._elsewhere(self._parcel(order, limits))
                self._take_in(handover)
        return await here(order)

    def _known(self, order: AttemptRequest) -> bool:
        """Whether answers that are here would be paid for again on a worker.

        An agent's attempt that was begun here goes on here: its first question tells.
        """
        if self.attempting.kept(order):
            return True
        match self.attempting.solver:
            case ChatSolver() as solver:
                messages = conversation(order.task, order.skill, solver.prompts)
                request = chat_request(messages, order.stage, order.attempt)
            case AgentSolver() as solver:
                request = solver.first_request(order.task, order.skill, order.stage, order.attempt)
            case _:
                return False  # another program decides what it asks
        return self.cache.get(call_key(self.parts.config.model.target, request)) is not None

    def _parcel(self, order: AttemptRequest, limits: Limits) -> Parcel:
        config, root = self.parts.config, str(self.parts.root.resolve())
        rollout = config.rollout.model_copy(update={"executor": LocalExecutor()})
        text = config.model_copy(update={"rollout": rollout}).model_dump_json()
        facts = [text, root, task_sha256(order.task), as_read(order.skill), order.attempt]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return Parcel(name, text, root, order, limits)

    async def _elsewhere(self, parcel: Parcel) -> Handover:
        task = await self._joined()
        import ray  # noqa: PLC0415 - large; by now it is loaded

        name = f"skillopt-ci {parcel.order.task.id[:80]}"
        try:
            reference = task.options(name=name).remote(parcel)
        except ConnectionError as error:
            return Handover(trouble=str(error))
        done: asyncio.Future[Handover] = asyncio.wrap_future(reference.future())
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            ray.cancel(reference)
            # whoever goes on must find nothing running that was started for this
            await asyncio.wait({done}, timeout=_STOP_SECONDS)
            if done.done() and not done.cancelled():
                done.exception()  # nobody else will look at it
            raise
        try:
            return done.result()
        except ray.exceptions.RayError as error:
            reason = (str(error).strip() or "no reason").splitlines()[-1].strip()
            return Handover(trouble=f"{type(error).__name__}: {reason}")

    async def _joined(self) -> Any:
        """The work as the cluster knows it, which joins that when asked first."""
        async with self._joining:
            if not self._tasks:
                await asyncio.to_thread(join, self.settings)
                import ray  # noqa: PLC0415

                cpus, restarts = self.settings.cpus, self.settings.restarts
                as_task = ray.remote(num_cpus=cpus, max_retries=restarts, retry_exceptions=False)
                self._tasks.append(as_task(make))
        return self._tasks[0]

    def _take_in(self, handover: Handover) -> None:
        trouble = handover.trouble
        try:
            if handover.answers:
                lines = map(self.parts.redact, handover.answers)
                source = Path("a Ray worker's answers")
                import_lines(self.cache, {source: lines}, self.store.take)
        except SkilloptError as error:
            trouble = error.message
        if trouble and trouble not in self._told:
            self._told.add(trouble)
            text = f"Made here, since a Ray worker could not: {trouble}"
            self.parts.observer(Note(text, "warning"))


# A worker's part: one attempt, made on a machine of the cluster with what that machine has.


def make(parcel: Parcel) -> Handover:
    """Make the attempt that ``parcel`` asks for; hand over what was paid for, however it ended."""
    try:
        folder = _folder(parcel.name)
    except (InfrastructureError, OSError) as error:
        return Handover(trouble=str(error))
    try:
        handover = asyncio.run(attempt(parcel, folder, dict(os.environ)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # what Ray takes for the end of a cancelled task
    shutil.rmtree(folder, ignore_errors=True)
    return handover


async def attempt(parcel: Parcel, folder: Path, environ: Mapping[str, str]) -> Handover:
    """Make the attempt, with what was paid for so far in ``folder``, and hand that over."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in one
    # Ray interrupts the main thread; a loop that waits would sleep through that by default
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    redact, keys, trouble = Redactor(named_secrets(environ)), list[str](), ""
    try:
        async with _runner(parcel, folder, environ, redact, keys.append) as runner:
            rollout = await runner.attempting(parcel.order)
        trouble = "" if rollout.status.measured else rollout.reason
    except BudgetExhausted:
        pass  # its share was: the attempt goes on where the whole budget is known
    except SkilloptError as error:
        trouble = error.message
    with (
        closing(CallCache(folder / "calls.sqlite")) as cache,
        closing(AttemptStore(folder / "calls-attempts.sqlite")) as store,
    ):
        return Handover(answer_lines(cache, keys, store.lines(keys)), redact(trouble))


@asynccontextmanager
async def _runner(
    parcel: Parcel,
    folder: Path,
    environ: Mapping[str, str],
    redact: Redactor,
    used: Callable[[str], object],
) -> AsyncIterator[Runner]:
    config, root = Config.model_validate_json(parcel.config), Path(parcel.root)
    redact.learn(run_secrets(config, root, environ, [parcel.order.task]))
    keep_secrets(config, root, environ)
    async with AsyncExitStack() as stack:
        environment = None
        if config.environment is not None:
            environment = open_environment(config.environment, root, environ)
            stack.callback(environment.close)
        instead = {} if environment is None else environment.prompts()
        own = None if config.prompts is None else root / config.prompts
        prompts, places = Prompts.load(own, instead), open_computer_pool(config, root, environ)
        parts = RunnerParts(
            config=config,
            root=root,
            prompts=prompts,
            environ=environ,
            cache_path=folder / "calls.sqlite",
            redact=redact,
            places=places,
            environment=environment,
            rollout_facts=working_facts(
                config, root, environ, prompts=prompts, environment=environment, places=places
            ),
        )
        equipment, meter = Equipment(parts, stack), Meter(step=parcel.limits)
        opened = equipment.models(parts, UNCLAIMED, meter, used)
        yield (await stack.enter_async_context(opened)).runner


def _folder(name: str) -> Path:
    """This user's folder for the attempt; it outlives a worker that dies in the middle."""
    mine = Path(tempfile.gettempdir()) / f"skillopt-ci-{os.getuid()}"
    mine.mkdir(mode=0o700, exist_ok=True)
    state = mine.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or mine.is_symlink():
        raise InfrastructureError(f"{mine} belongs to somebody else, or others may write to it")
    folder = mine / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def ray_executor(
    parts: RunnerParts, settings: RayExecutor, attempting: AttemptRunner, resources: ExitStack
) -> Executor:
    """An executor that joins the cluster when there is something to do.

    What it opens closes with ``resources``. Raises UsageError where this can never work.
    """
    if find_spec("ray") is None:  # not imported yet, which takes seconds
        raise UsageError(
            "rollout.executor: ray needs the Python package ray, which is not installed.",
            hint="pip install 'skillopt-ci[ray]'",
        )
    if isinstance(parts.config.rollout.solver, HumanConfig):
        raise UsageError("rollout.executor: ray: a person can only work at this terminal.")
    attempts, meter = attempting.cache, attempting.meter
    if parts.cache_path is None or attempts is None or meter is None:
        raise UsageError(
            "rollout.executor: ray: answers can be shared between machines only with a cache.",
            hint="Set cache.enabled to true.",
        )
    cache = resources.enter_context(closing(CallCache(parts.cache_path, parts.observer)))
    return ClusterExecutor(settings, parts, attempting, meter, attempts.store, cache)
