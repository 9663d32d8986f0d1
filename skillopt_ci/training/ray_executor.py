"""The executor of a run whose attempts a Ray cluster makes."""

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.config.rollout import HumanSettings, LocalExecutor, RayExecutor
from skillopt_ci.errors import UsageError
from skillopt_ci.model.cache import CallCache, call_key
from skillopt_ci.model.cache_transfer import import_answer_lines
from skillopt_ci.model.types import ChatRequest
from skillopt_ci.rollout.attempt import Attempting
from skillopt_ci.rollout.ray.cluster import require_ray
from skillopt_ci.rollout.ray.executor import ClusterExecutor
from skillopt_ci.rollout.ray.parcel import Parcel
from skillopt_ci.rollout.solver import ChatSolver, Solver, chat_request, conversation
from skillopt_ci.rollout.types import Executor, Order
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import task_sha256
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
    """Whether it costs nothing more to make the attempt here, or not all of it anew.

    An agent's attempt that was begun here and broken off goes on here: its answers are here, and a
    worker would pay for them again. What it asks after the first question, its tools decide.
    """
    if attempting.kept(order):
        return True
    request = _first_request(order, attempting.solver)
    return request is not None and cache.get(call_key(config.model.target, request)) is not None


def _first_request(order: Order, solver: Solver) -> ChatRequest | None:
    """What an attempt asks first; None where another program decides that."""
    match solver:
        case ChatSolver():
            messages = conversation(order.task, order.skill, solver.prompts)
            return chat_request(messages, order.stage, order.attempt)
        case AgentSolver():
            return solver.first_request(order.task, order.skill, order.stage, order.attempt)
        case _:
            return None
