"""The action's inputs, which the runner passes as ``INPUT_<NAME>`` variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from skillopt_ci.errors import UsageError
from skillopt_ci.util import nearest


class Command(StrEnum):
    STEP = "step"
    PROPOSE = "propose"
    RUN = "run"
    EVAL = "eval"
    SLOW_UPDATE = "slow-update"
    FINISH = "finish"
    PLAN = "plan"
    ROLLOUT = "rollout"
    COMMENT = "comment"
    CHECK = "check"
    STATUS = "status"
    DISCOVER = "discover"
    REPORT = "report"

    @property
    def trains(self) -> bool:
        return self.works_for_training and self not in (Command.PLAN, Command.ROLLOUT)

    @property
    def reads_notes(self) -> bool:
        """Whether it does a training step or a part of one: a note can be what there is to do."""
        return self in (Command.STEP, Command.PROPOSE, Command.RUN, Command.PLAN, Command.ROLLOUT)

    @property
    def works_for_training(self) -> bool:
        """Whether the command does a part of training, and so has no place in a review."""
        return self.reads_notes or self in (Command.SLOW_UPDATE, Command.FINISH)


@dataclass(frozen=True, slots=True)
class Inputs:
    command: Command | None = None
    config: str = "skillopt.yaml"
    run: str = ""
    overrides: tuple[str, ...] = ()
    directory: str = "."
    token: str = field(default="", repr=False)
    keys: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    split: str = "test"
    shards: int = 4
    shard: str = ""
    rollouts: tuple[str, ...] = ()
    label: str = "skillopt-eval"


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Raises UsageError, which names every invalid input; empty inputs count as not given."""
    given: dict[str, Any] = {
        one.name: environ.get(f"INPUT_{one.name.upper()}", "").strip() or str(one.default or "")
        for one in fields(Inputs)
    }
    problems = []
    word, shards, folder = given["command"], given["shards"], PurePosixPath(given["directory"])
    if word and word not in list(Command):
        meant = nearest(word, map(str, Command))
        problems.append(f"input command: there is no command {word!r}. {meant}".rstrip())
    if not (shards.isascii() and shards.isdecimal() and int(shards)):
        problems.append(f"input shards: expected a positive number, not {shards!r}")
    if folder.is_absolute() or ".." in folder.parts:
        problems.append(f"input directory: {given['directory']!r} is not a folder of the checkout")
    for name in ("overrides", "rollouts", "keys"):
        given[name] = tuple(filter(None, map(str.strip, given[name].splitlines())))
    pairs = [line.partition("=") for line in given["keys"]]
    if not all(equals and name.strip().isidentifier() for name, equals, _ in pairs):
        problems.append("input keys: expected lines of NAME=value")  # unquoted: may hold a key
    given["keys"] = tuple((name.strip(), value.strip()) for name, _, value in pairs if value)
    if problems:
        raise UsageError("; ".join(problems))
    return Inputs(**given | {"command": Command(word) if word else None, "shards": int(shards)})
