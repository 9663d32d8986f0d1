"""A worker's part: one attempt, made on a machine of the cluster with what that machine has.

This is where such a process begins, as the command line is elsewhere: the environment, with the
keys, is read here.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci import aio
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.environments.find import open_environment
from skillopt_ci.errors import BudgetExhausted, InfrastructureError, SkilloptError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_models
from skillopt_ci.model.cache import UNCLAIMED, CallCache
from skillopt_ci.model.cache_transfer import answer_lines
from skillopt_ci.progress import Observer, silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redact, Redactor, named_secrets
from skillopt_ci.rollout.computers import Places, open_places
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.ray.parcel import Handover, Parcel
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.types import Order
from skillopt_ci.training.rig import open_runner
from skillopt_ci.training.run_secrets import run_secrets
from skillopt_ci.training.working_facts import working_facts


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What the attempt is made from, see :class:`~skillopt_ci.training.rig_parts.RigParts`."""

    config: Config
    root: Path
    prompts: Prompts
    environ: Mapping[str, str]
    places: Places | None
    environment: Environment | None
    rollout_facts: Mapping[str, object]
    cache_path: Path
    attempts_path: Path
    redact: Redact
    observer: Observer = silent
    events: Path | None = None


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


async def _trouble(runner: Runner, order: Order) -> str:
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
) -> Iterator[WorkerParts]:
    config, root = Config.model_validate_json(parcel.config), Path(parcel.root)
    redact.learn(run_secrets(config, root, environ, [parcel.order.task]))
    environment = None
    if config.environment is not None:
        environment = open_environment(config.environment, root, environ)
    try:
        instead = {} if environment is None else environment.prompts()
        own = None if config.prompts is None else root / config.prompts
        prompts, places = Prompts.load(own, instead), open_places(config, root, environ)
        facts = working_facts(
            config, root, environ, prompts=prompts, environment=environment, places=places
        )
        yield WorkerParts(
            config, root, prompts, environ, places, environment, facts, *_files(folder), redact
        )
    finally:
        if environment is not None:
            environment.close()


@asynccontextmanager
async def _runner(
    parts: WorkerParts, limits: Limits, used: Callable[[str], object]
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
    with closing(AttemptStore(parts.attempts_path, parts.observer)) as store:
        places = aio.Places(1)
        async with (
            models as client,
            open_runner(parts, client, UNCLAIMED, meter, places, store, used) as runner,
        ):
            yield runner


def _answers(folder: Path, keys: list[str]) -> tuple[str, ...]:
    calls, attempts = _files(folder)
    with closing(CallCache(calls)) as cache, closing(AttemptStore(attempts)) as store:
        return answer_lines(cache, keys, store.lines(keys))


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "calls.sqlite", folder / "attempts.sqlite"


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
