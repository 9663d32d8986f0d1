"""Evidence: earlier attempts under the same skill, which analysts look at beside a step's own.

While candidates are rejected the skill stays, and what it got wrong in earlier steps is as true as
what it gets wrong now. The answers come from the cache of calls; without it they are asked again.
"""

from collections.abc import Sequence

from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.document import sha256
from skillopt_ci.training.attempts import Numbered, made_under, roll_out_numbered
from skillopt_ci.training.basis import basis_of, basis_sha256
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Standing

#: Attempts under one skill, oldest first: the task's id and the attempt's number.
Made = Sequence[tuple[str, int]]


def attempts_so_far(session: Session, standing: Standing, skill: str | None = None) -> Made:
    """The training attempts that earlier steps made under ``skill``, by default as it stands."""
    name = sha256(standing.skill if skill is None else skill)
    return made_under(name, basis_sha256(basis_of(session)), all_steps(session, standing))


async def recall(
    session: Session, skill: str, made: Made, most: int, bench: Bench
) -> tuple[Rollout, ...]:
    """The latest earlier attempts, at most as many as ``most``."""
    tasks = {task.id: task for task in session.splits.train}
    each = bench.runner.attempts
    rounds = dict.fromkeys((name, number // each) for name, number in made if name in tasks)
    latest = [Numbered(tasks[name], number) for name, number in rounds]
    chosen = latest[-most:] if most > 0 else []
    return await roll_out_numbered(bench.runner, chosen, skill, stage="rollout")
