"""Reflect as the environment does it: its patches in the place of our analysts'."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from skillopt_ci.config.config import Gradient
from skillopt_ci.environments import api
from skillopt_ci.progress import Note, Observer, StageAdvanced, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.environment import Environment, Reflecting
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.edits import Source
from skillopt_ci.training.minibatch import Minibatch
from skillopt_ci.training.modes.mode import Desk, UpdateMode
from skillopt_ci.training.patch import Item, Reflection
from skillopt_ci.training.reflect import reflection_of
from skillopt_ci.training.wire import parse_analyst
from skillopt_ci.training.wire_json import WireError
from skillopt_ci.training.wire_shape import whole_number


async def reflect_there(
    environment: Environment,
    rollouts: Sequence[Rollout],
    skill: str,
    *,
    mode: UpdateMode[Item],
    gradient: Gradient,
    learning_rate: int | None,
    seed: int,
    desk: Desk,
    notes_from: Collection[Source] = (),
) -> tuple[Reflection[Item], ...]:
    """Let the ``environment`` read the ``rollouts`` of one batch; as :func:`~.reflect.reflect`.

    All of the batch goes into one call, and the patches come back in its order. A patch that
    cannot be used is noted and left out. Where the optimizer cannot be reached, that is raised:
    what it had answered by then is in the cache.
    """
    shown = [one for one in rollouts if one.messages and (one.failed or one.succeeded)]
    if not shown or learning_rate == 0:
        return ()
    desk.observer(StageStarted("reflect", 1))
    asked = Reflecting(
        rollouts=tuple(shown),
        skill=skill,
        update_mode=mode.name,
        budget=learning_rate,
        gradient=gradient,
        seed=seed,
        step_buffer=library.joined(desk.step_buffer, desk.guidance),
        meta_skill=desk.meta_skill,
        notes_from=notes_from,
    )
    patches = await api.reflect(environment, asked, desk.client)
    desk.observer(
        StageAdvanced("reflect", f"{plural(len(patches), 'proposal')} of the environment")
    )
    numbered = enumerate(patches, start=1)
    found = [
        _reflection(n, one, shown, mode, learning_rate, notes_from, desk.observer)
        for n, one in numbered
    ]
    return tuple(one for one in found if one is not None)


def _reflection(
    number: int,
    patch: Mapping[str, object],
    shown: Sequence[Rollout],
    mode: UpdateMode[Item],
    budget: int | None,
    notes_from: Collection[Source],
    observer: Observer,
) -> Reflection[Item] | None:
    """Read a patch; it may have been drawn from any rollout of its kind, and states how many."""
    source: Source = "success" if patch.get("source_type") == "success" else "failure"
    seen = tuple(one for one in shown if one.succeeded == (source == "success"))
    name = f"patch {number} of the environment"
    stated = whole_number(patch.get("batch_size")) or len(seen)
    size = max(1, min(stated, len(seen)))
    try:
        reply = parse_analyst(
            mode.payload, json.dumps(patch), source, size, notes=source in notes_from
        )
    except WireError as error:
        observer(Note(f"{name} cannot be used. {error.message}", level="warning"))
        return None
    found = reflection_of(reply, Minibatch(source, seen, name), budget)
    return replace(found, batch_size=size)
