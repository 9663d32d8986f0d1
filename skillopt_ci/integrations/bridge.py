"""What the bridges to other tools' tasks share: a worker, a line to the models, and the grade."""

import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from skillopt_ci.computer.archive import Member, pack, unpack
from skillopt_ci.config.base import Section
from skillopt_ci.environments.api import read_options, require
from skillopt_ci.errors import EnvironmentFailure, FileRefused
from skillopt_ci.integrations.endpoint import Conversation
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatClient
from skillopt_ci.program import visible_environ
from skillopt_ci.rollout.environment import Environment, Parts
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import Attempt, Limit, Step
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task
from skillopt_ci.worker import Worker

#: Where the result of an attempt lies among what it leaves behind.
_RESULT = "result.json"


@dataclass(frozen=True, slots=True)
class BridgeSolver:
    """Has each attempt made by the environment's worker, with ``client`` as its models."""

    name: str
    facts: Mapping[str, object]
    environment: "BridgeEnvironment[Any]"
    client: ChatClient
    needs_computer: bool = False
    """The other tool brings its own."""

    def identity(self) -> Mapping[str, object]:
        """Return what determines the attempts, besides model and skill."""
        return self.facts

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        """Let the other tool attempt ``task``."""
        talk = Conversation(self.client, place.stage, place.attempt)
        job = {**self.environment.job(task, place), "skill": as_read(skill)}
        async with aclosing(self.environment.run_job(job, talk)) as steps:
            async for step in steps:
                yield step
        result = talk.result
        if failure := result.get("failure"):
            raise EnvironmentFailure(str(failure))
        yield Attempt(
            messages=talk.messages,
            response=str(result.get("response", "")),
            n_turns=max(1, talk.turns),
            trace=str(result.get("trace", "")),
            limit=Limit(result["limit"]) if result.get("limit") else None,
            artifacts=packed(result),
            usage=talk.usage,
        )


class BridgeOptions(Section):
    """Options of every bridge."""

    env: tuple[str, ...] = ()
    """Names of environment variables that its code may see besides PATH, HOME and LANG."""


Options = TypeVar("Options", bound=BridgeOptions)


class BridgeEnvironment(Environment, Generic[Options]):
    """An environment of the type ``kind``, whose tasks and attempts are those of another tool.

    That is in a Python ``package`` and works in a worker, on the side that ``module`` opens. The
    worker starts with the first use and ends with :meth:`close`.
    """

    kind: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    shape: type[Options]

    def __init__(
        self, options: Mapping[str, object], root: Path, environ: Mapping[str, str]
    ) -> None:
        require(self.package, self.kind)
        super().__init__(options, root)
        self._read = read_options(self.shape, options)
        self._environ = visible_environ(environ, self._read.env)
        self._worker: Worker | None = None

    @property
    def code(self) -> Literal["confined"]:
        """Where its code meets answers: in the worker."""
        return "confined"

    @abstractmethod
    def job(self, task: Task, place: Workplace) -> Mapping[str, object]:
        """Return what the worker is to do for ``task``."""

    @abstractmethod
    def score(self, result: Mapping[str, Any]) -> Score:
        """Read the grade out of a result; raises GraderError if there is none."""

    @property
    def worker(self) -> Worker:
        """The worker; raises UsageError if the other tool cannot load what it is to load."""
        if self._worker is None:
            self._worker = Worker(
                self.module, self.options, self.root, self._environ, f"environment {self.kind}"
            )
        return self._worker

    def solver(self, parts: Parts) -> Solver:
        """Return what lets the other tool attempt tasks."""
        return BridgeSolver(self.kind, self.identity(), self, parts.client)

    def run_job(self, job: Mapping[str, object], talk: Conversation) -> AsyncGenerator[Step, None]:
        """Have the worker do ``job``, with the models of ``talk``, which takes the result.

        Raises :class:`EnvironmentFailure` if it fails, and what the models raise.
        """

        async def work(base_url: str, token: str) -> dict[str, Any]:
            return await self.worker.attempt({**job, "base_url": base_url, "token": token})

        return talk.hold(work)

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Return the other tool's own grade: it was given with the attempt."""
        del task, parts
        if not attempt.artifacts:
            limit = attempt.limit or "nothing"
            return Score(0.0, 0.0, f"ended by the limit of {limit}, ungraded", attempt.response)
        return self.score(unpacked(attempt.artifacts))

    def identity(self) -> Mapping[str, object]:
        """Return options and versions of the other tool."""
        return {**super().identity(), "versions": self.worker.facts.get("versions")}

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None


def told_task(told: Mapping[str, Any]) -> Task:
    """A task as a worker tells it."""
    return Task(
        id=told["id"],
        messages=tuple(Message(one["role"], one["content"]) for one in told["messages"]),
        references=tuple(told["references"]),
        task_type=told["type"],
        metadata=told["metadata"],
        reference_text=told.get("reference_text", ""),
    )


def packed(result: Mapping[str, object]) -> bytes:
    """A tar that holds ``result``, the same bytes for the same result."""
    text = json.dumps(result, sort_keys=True, ensure_ascii=False)
    return pack([Member(_RESULT, text.encode())])


def unpacked(artifacts: bytes) -> dict[str, Any]:
    """The result in such a tar; raises GraderError if there is none."""
    try:
        (member,) = unpack(artifacts)
        found: dict[str, Any] = json.loads(member.content)
    except (FileRefused, ValueError) as error:
        raise GraderError(f"the attempt left no readable result: {error}") from error
    return found


def checked_share(value: object, what: str) -> float:
    """``value`` as a score from 0 to 1; raises GraderError that says ``what`` is none."""
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise GraderError(f"{what} is {value!r}, expected a score from 0 to 1")
