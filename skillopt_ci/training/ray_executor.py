"""The executor of a run whose attempts a Ray cluster makes."""

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from skillopt_ci.errors import UsageError
from skillopt_ci.model.answer_file import import_answer_lines
from skillopt_ci.model.cache import CallCache
from skillopt_ci.model.call_key import call_key
from skillopt_ci.rollout.attempting import Attempting
from skillopt_ci.rollout.order import Executor, Order
from skillopt_ci.rollout.ray.cluster import require_ray
from skillopt_ci.rollout.ray.executor import ClusterExecutor
from skillopt_ci.rollout.ray.parcel import Parcel
from skillopt_ci.rollout.solver import ChatSolver, chat_request, conversation
from skillopt_ci.settings.config import Config, Limits
from skillopt_ci.settings.rollout import LocalExecutor, RayExecutor
from skillopt_ci.settings.solver import HumanSettings
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.identity import task_sha256
from skillopt_ci.training.ray_worker import make
from skillopt_ci.training.rig_parts import RigParts


def ray_executor(
    parts: RigParts, settings: RayExecutor, attempting: Attempting, resources: ExitStack
) -> Executor:
    """An executor that joins the cluster when there is something to do; nothing is started yet.

    What it opens closes with ``resources``. Raises UsageError where this can never work.
    """
    require_ray()
    if isinstance(parts.config.rollout.solver, HumanSettings):
        raise UsageError("rollout.executor: ray: a person can only work at this terminal.")
    shelf, meter = attempting.shelf, attempting.meter
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
                cache, handover.answers, Path("a Ray worker's answers"), shelf.store.take
            )
        ),
        meter=meter,
        parts=parts.config.model.target.max_concurrency,
        observe=parts.observer,
    )


def _packer(config: Config, root: Path) -> Callable[[Order, Limits], Parcel]:
    rollout = config.rollout.model_copy(update={"executor": LocalExecutor()})
    text = config.model_copy(update={"rollout": rollout}).model_dump_json()
    place = str(root.resolve())

    def pack(order: Order, limits: Limits) -> Parcel:
        facts = [text, place, task_sha256(order.task), as_read(order.skill), order.attempt]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        return Parcel(name, text, place, order, limits)

    return pack


def _known(order: Order, config: Config, attempting: Attempting, cache: CallCache) -> bool:
    solver = attempting.solver
    if not isinstance(solver, ChatSolver):
        return attempting.kept(order)
    messages = conversation(order.task, order.skill, solver.prompts)
    request = chat_request(messages, order.stage, order.attempt)
    return cache.get(call_key(config.model.target, request)) is not None
