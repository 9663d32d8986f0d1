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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillopt_ci import aio
from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.config.rollout import HumanConfig, LocalExecutor, RayExecutor
from skillopt_ci.environments.find import open_environment
from skillopt_ci.errors import BudgetExhausted, InfrastructureError, SkilloptError, UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_models
from skillopt_ci.model.cache import UNCLAIMED, CallCache
from skillopt_ci.model.cache_transfer import answer_lines, import_answer_lines
from skillopt_ci.model.call_key import call_key
from skillopt_ci.model.types import ChatRequest
from skillopt_ci.progress import Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redactor, named_secrets
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.computer_pool import open_computer_pool
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.solver import ChatSolver, Solver, chat_request, conversation
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.types import AttemptRequest, Executor, MakeAttempt, Rollout
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256
from skillopt_ci.training.fingerprint import keep_secrets, run_secrets, working_facts
from skillopt_ci.training.run_context import RunnerParts, open_runner

# The Ray cluster: found, joined or started.


def require_ray() -> None:
    """Refuse to go on without the package; it is not imported, which takes seconds."""
    if find_spec("ray") is None:
        raise UsageError(
            "rollout.executor: ray needs the Python package ray, which is not installed.",
            hint="pip install 'skillopt-ci[ray]'",
        )


def join(settings: RayExecutor) -> None:
    """Connect this process to the cluster; one that is connected already stays where it is.

    What is started or joined here ends with the process. Blocks for seconds. Raises
    :class:`InfrastructureError` where no cluster answers.
    """
    # Imported late: it is large and takes seconds.
    import ray  # noqa: PLC0415

    _keep_off_standard_output()
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
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it does not answer"
        raise InfrastructureError(
            f"rollout.executor: no Ray cluster at {settings.address!r}: {reason}",
            hint="`address: local` starts one of this machine; "
            "`ray start` makes a machine part of one.",
        ) from error
    atexit.register(ray.shutdown)


def _keep_off_standard_output() -> None:
    """Ray tells of dead workers on our standard output, where results stand, and has no switch."""
    from ray._private import worker  # noqa: PLC0415

    if hasattr(worker, "print_to_stdstream"):
        setattr(worker, "print_to_stdstream", _unheard)  # noqa: B010 - untyped, and not ours


def _unheard(*_: object, **__: object) -> None:
    return


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
    """The ``answers`` that were paid for, as the lines of a shard's file.

    ``trouble`` says in words what kept the worker from measuring the attempt.
    """

    answers: tuple[str, ...] = ()
    trouble: str = ""


# Attempts made by workers of a Ray cluster, and accounted for here.

#: A worker whose attempt was cancelled has this long to stop what it started.
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Sends every order that is not ``known`` to the cluster; joins that when the first one comes.

    ``work`` is what a worker does; workers import it by its name. ``take`` takes in what comes
    back. An attempt may use one of ``parts`` of what ``meter`` has left. ``observe`` is told what
    workers could not do.
    """

    settings: RayExecutor
    work: Callable[[Parcel], Handover]
    parcel: Callable[[AttemptRequest, Limits], Parcel]
    known: Callable[[AttemptRequest], bool]
    take: Callable[[Handover], object]
    meter: Meter
    parts: int
    observe: Observer
    _joining: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _tasks: list[Any] = field(default_factory=list, init=False, repr=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    async def __call__(self, order: AttemptRequest, here: MakeAttempt) -> Rollout:
        """Return what came of ``order``.

        Raises InfrastructureError where there is no cluster, and what ``here`` raises.
        """
        if not self.known(order):
            with self.meter.lent(self.parts) as limits:
                handover = await self._elsewhere(self.parcel(order, limits))
                self._take_in(handover)
        return await here(order)

    async def _elsewhere(self, parcel: Parcel) -> Handover:
        task = await self._joined()
        import ray  # noqa: PLC0415 - large; by now it is loaded

        name = f"skillopt-ci {parcel.order.task.id[:80]}"
        try:
            reference = task.options(name=name).remote(parcel)
        except ConnectionError as error:
            return Handover(trouble=str(error))
        done = asyncio.wrap_future(reference.future())
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            ray.cancel(reference)
            # whoever goes on must find nothing running that was started for this
            await asyncio.wait({done}, timeout=_STOP_SECONDS)
            if done.done() and not done.cancelled():
                done.exception()  # nobody else will look at it
            raise
        return _handed_over(done)

    async def _joined(self) -> Any:
        """The work as the cluster knows it, which joins that when asked first."""
        async with self._joining:
            if not self._tasks:
                await asyncio.to_thread(join, self.settings)
                import ray  # noqa: PLC0415

                cpus, restarts = self.settings.cpus, self.settings.restarts
                as_task = ray.remote(num_cpus=cpus, max_retries=restarts, retry_exceptions=False)
                self._tasks.append(as_task(self.work))
        return self._tasks[0]

    def _take_in(self, handover: Handover) -> None:
        trouble = handover.trouble
        try:
            self.take(handover)
        except SkilloptError as error:
            trouble = error.message
        if trouble and trouble not in self._told:
            self._told.add(trouble)
            self.observe(Note(f"Made here, since a Ray worker could not: {trouble}", "warning"))


def _handed_over(done: asyncio.Future[Handover]) -> Handover:
    from ray.exceptions import RayError  # noqa: PLC0415

    try:
        return done.result()
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Handover(trouble=f"{type(error).__name__}: {lines[-1] if lines else 'no reason'}")


# A worker's part: one attempt, made on a machine of the cluster with what that machine has.


def make(parcel: Parcel) -> Handover:
    """Make the attempt that ``parcel`` asks for; hand over what was paid for, however it ended."""
    try:
        folder = _folder(parcel.name)
    except (InfrastructureError, OSError) as error:
        return Handover(trouble=str(error))
    try:
        handover = asyncio.run(_made(parcel, folder, dict(os.environ)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # what Ray takes for the end of a cancelled task
    shutil.rmtree(folder, ignore_errors=True)
    return handover


async def _made(parcel: Parcel, folder: Path, environ: Mapping[str, str]) -> Handover:
    _stop_when_cancelled()
    keys: list[str] = []
    redact = Redactor(named_secrets(environ))
    try:
        with _parts(parcel, folder, environ, redact) as parts:
            async with _runner(parts, parcel.limits, keys.append) as runner:
                trouble = await _trouble(runner, parcel.order)
    except BudgetExhausted:
        trouble = ""  # its share was: the attempt goes on where the whole budget is known
    except SkilloptError as error:
        trouble = error.message
    return Handover(_answers(folder, keys), redact(trouble))


async def _trouble(runner: Runner, order: AttemptRequest) -> str:
    rollout = await runner.attempting(order)
    return "" if rollout.status.measured else rollout.reason


def _stop_when_cancelled() -> None:
    """Ray interrupts the main thread; a loop that waits would sleep through that by default."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in one
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)


@contextmanager
def _parts(
    parcel: Parcel, folder: Path, environ: Mapping[str, str], redact: Redactor
) -> Iterator[RunnerParts]:
    config, root = Config.model_validate_json(parcel.config), Path(parcel.root)
    redact.learn(run_secrets(config, root, environ, [parcel.order.task]))
    keep_secrets(config, root, environ)
    environment = None
    if config.environment is not None:
        environment = open_environment(config.environment, root, environ)
    try:
        instead = {} if environment is None else environment.prompts()
        own = None if config.prompts is None else root / config.prompts
        prompts, places = Prompts.load(own, instead), open_computer_pool(config, root, environ)
        facts = working_facts(
            config, root, environ, prompts=prompts, environment=environment, places=places
        )
        yield RunnerParts(
            config=config,
            root=root,
            prompts=prompts,
            environ=environ,
            cache_path=_files(folder)[0],
            redact=redact,
            places=places,
            environment=environment,
            rollout_facts=facts,
        )
    finally:
        if environment is not None:
            environment.close()


@asynccontextmanager
async def _runner(
    parts: RunnerParts, limits: Limits, used: Callable[[str], object]
) -> AsyncIterator[Runner]:
    meter = Meter(step=limits)
    models = open_models(
        parts.config.model,
        parts.environ,
        cache_path=parts.cache_path,
        scope=UNCLAIMED,
        meter=meter,
        root=parts.root,
        used=used,
        redact=parts.redact,
    )
    assert parts.cache_path is not None  # noqa: S101 - a worker always has one
    attempts = parts.cache_path.with_name("calls-attempts.sqlite")
    with (
        closing(AttemptStore(attempts, parts.observer)) as store,
        closing(Functions(parts.environ)) as functions,
    ):
        places = aio.Slots(1)
        async with (
            models as client,
            open_runner(parts, client, UNCLAIMED, meter, places, store, functions, used) as runner,
        ):
            yield runner


def _answers(folder: Path, keys: list[str]) -> tuple[str, ...]:
    calls, attempts = _files(folder)
    with closing(CallCache(calls)) as cache, closing(AttemptStore(attempts)) as store:
        return answer_lines(cache, keys, store.lines(keys))


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "calls.sqlite", folder / "calls-attempts.sqlite"


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
    """An executor that joins the cluster when there is something to do; nothing is started yet.

    What it opens closes with ``resources``. Raises UsageError where this can never work.
    """
    require_ray()
    if isinstance(parts.config.rollout.solver, HumanConfig):
        raise UsageError("rollout.executor: ray: a person can only work at this terminal.")
    shelf, meter = attempting.cache, attempting.meter
    if parts.cache_path is None or shelf is None or meter is None:
        raise UsageError(
            "rollout.executor: ray: answers can be shared between machines only with a cache.",
            hint="Set cache.enabled to true.",
        )
    cache = resources.enter_context(closing(CallCache(parts.cache_path, parts.observer)))
    return ClusterExecutor(
        settings,
        work=make,
        parcel=_packer(parts.config, parts.root),
        known=lambda order: _known(order, parts.config, attempting, cache),
        take=lambda handover: (
            handover.answers
            and import_answer_lines(
                cache,
                map(parts.redact, handover.answers),
                Path("a Ray worker's answers"),
                shelf.store.take,
            )
        ),
        meter=meter,
        parts=parts.config.model.target.max_concurrency,
        observe=parts.observer,
    )


def _packer(config: Config, root: Path) -> Callable[[AttemptRequest, Limits], Parcel]:
    rollout = config.rollout.model_copy(update={"executor": LocalExecutor()})
    text = config.model_copy(update={"rollout": rollout}).model_dump_json()
    place = str(root.resolve())

    def pack(order: AttemptRequest, limits: Limits) -> Parcel:
        facts = [text, place, task_sha256(order.task), as_read(order.skill), order.attempt]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return Parcel(name, text, place, order, limits)

    return pack


def _known(
    order: AttemptRequest, config: Config, attempting: AttemptRunner, cache: CallCache
) -> bool:
    """Whether it costs nothing more to make the attempt here, or not all of it anew.

    An agent's attempt that was begun here and broken off goes on here: its answers are here, and a
    worker would pay for them again. What it asks after the first question, its tools decide.
    """
    if attempting.kept(order):
        return True
    request = _first_request(order, attempting.solver)
    return request is not None and cache.get(call_key(config.model.target, request)) is not None


def _first_request(order: AttemptRequest, solver: Solver) -> ChatRequest | None:
    """What an attempt asks first; None where another program decides that."""
    match solver:
        case ChatSolver():
            messages = conversation(order.task, order.skill, solver.prompts)
            return chat_request(messages, order.stage, order.attempt)
        case AgentSolver():
            return solver.first_request(order.task, order.skill, order.stage, order.attempt)
        case _:
            return None
