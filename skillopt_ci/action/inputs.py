"""The action's inputs, as the runner hands them over: ``INPUT_<NAME>`` in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

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
    def verb(self) -> str:
        """The command of the command line that does it."""
        return "step" if self is Command.PROPOSE else self.value

    @property
    def trains(self) -> bool:
        """Whether it writes to the skills branch."""
        return self.steps or self in (Command.SLOW_UPDATE, Command.FINISH)

    @property
    def steps(self) -> bool:
        """Whether it does training steps, of which analysts are a part."""
        return self in (Command.STEP, Command.PROPOSE, Command.RUN)

    @property
    def shows(self) -> bool:
        """Whether the run as a page is left for later steps of the job."""
        return self.trains or self in (Command.COMMENT, Command.REPORT)

    @property
    def works_for_training(self) -> bool:
        """Whether it does a part of what a training job does, and belongs into no review."""
        return self.trains or self in (Command.PLAN, Command.ROLLOUT)


_COMMANDS = (
    "What to do: `step`, `propose` (a step up to its candidate, which the next `plan` shares "
    "out), `run`, `eval`, `slow-update`, `finish`, `plan`, `rollout`, `comment`, `check`, "
    "`status`, `discover` or `report` (the run as a page). Empty: what the event asks for, "
    "which is a training step on schedules, pushes and manual starts, an evaluation on pull "
    "requests, and what the comment says on comments."
)


def _input(value: Any, text: str) -> Any:
    """An input with its value where none is given, and what it is."""
    default = str(value) if value != () else ""
    return field(default=value, metadata={"default": default, "text": text})


@dataclass(frozen=True, slots=True)
class Inputs:
    command: Command | None = field(default=None, metadata={"default": "", "text": _COMMANDS})
    config: str = _input("skillopt.yaml", "Configuration of the run, relative to `directory`.")
    run: str = _input("", "Name of the run, where the configuration holds several.")
    overrides: tuple[str, ...] = _input(
        (), "Keys of the configuration to override, one `section.key=value` a line."
    )
    directory: str = _input(".", "Folder of the checkout to work in.")
    token: str = field(
        default="",
        repr=False,
        metadata={
            "default": "${{ github.token }}",
            "text": "Token that pushes the skills branch and speaks to GitHub's API.",
        },
    )
    keys: tuple[tuple[str, str], ...] = field(
        default=(),
        repr=False,
        metadata={
            "default": "",
            "text": "Models' keys, one `NAME=value` a line, for jobs that cannot set variables.",
        },
    )
    split: str = _input(
        "test", "For `eval`: the tasks to measure on, `test`, `selection` or `train`."
    )
    shards: int = _input(4, "For `plan`: the most jobs to spread the rollouts over.")
    shard: str = _input("", "For `rollout`: which part this job does, as `2/4`.")
    rollouts: tuple[str, ...] = _input(
        (), "For `step` and `propose`: files from `rollout` jobs, one a line, globs allowed."
    )
    label: str = _input(
        "skillopt-eval",
        "Label with which a maintainer starts the evaluation of a fork's pull request.",
    )


class Input(NamedTuple):
    """One line of ``inputs`` in ``action.yml``."""

    name: str
    default: str
    text: str


INPUTS = tuple(Input(one.name, **one.metadata) for one in fields(Inputs))


def read_inputs(environ: Mapping[str, str]) -> Inputs:
    """Read the inputs from the runner's variables; an empty value counts as not given.

    Raises UsageError that names every input that cannot be.
    """
    given: dict[str, Any] = {}
    for entry in INPUTS:
        # only the runner can evaluate an expression
        default = "" if entry.default.startswith("${{") else entry.default
        given[entry.name] = environ.get(f"INPUT_{entry.name.upper()}", "").strip() or default
    problems = []
    # the former name, for one release more
    word = "check" if given["command"] == "validate" else given["command"]
    shards, folder = given["shards"], PurePosixPath(given["directory"])
    if word and word not in list(Command):
        meant = nearest(word, map(str, Command))
        problems.append(f"input command: there is no command {word!r}. {meant}".rstrip())
    if not (shards.isascii() and shards.isdecimal() and int(shards)):
        problems.append(f"input shards: expected a positive number, not {shards!r}")
    if folder.is_absolute() or ".." in folder.parts:
        problems.append(f"input directory: {given['directory']!r} is not a folder of the checkout")
    for name in ("overrides", "rollouts", "keys"):
        lines = map(str.strip, given[name].splitlines())
        given[name] = tuple(line for line in lines if line)
    pairs = [line.partition("=") for line in given["keys"]]
    if not all(equals and name.strip().isidentifier() for name, equals, _ in pairs):
        problems.append("input keys: expected lines of NAME=value")  # without what may be a key
    given["keys"] = tuple((name.strip(), value.strip()) for name, _, value in pairs if value)
    if problems:
        raise UsageError("; ".join(problems))
    return Inputs(**given | {"command": Command(word) if word else None, "shards": int(shards)})
