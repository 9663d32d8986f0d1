"""Environments: where tasks come from, how one is attempted, how an attempt is graded."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillopt_ci.computer.computer import Computers
from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.model.types import ChatClient
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Solver
from skillopt_ci.rollout.types import Attempt, Rollout
from skillopt_ci.scorers.base import Judge, Score
from skillopt_ci.skill.edits import Source
from skillopt_ci.tasks.task import Task

Split = Literal["train", "selection", "test"]
#: Grades what an attempt left behind; raises GraderError when the grader is at fault.
Grader = Callable[[Task, Attempt], Awaitable[Score]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the run can lend an environment.

    ``client`` is cached, metered and held to the budgets: all model calls go through it.
    ``solver`` is the configured one, ``grade`` grades by the task's or the run's scorer.
    ``computers`` is None where the configuration has none; ``root`` is the configuration's folder.
    """

    client: ChatClient
    prompts: Prompts
    judge: Judge
    config: Config
    root: Path
    environ: Mapping[str, str]
    computers: Computers | None
    solver: Solver
    grade: Grader


@dataclass(frozen=True, slots=True)
class Reflecting:
    """What there is to reflect on: the measured ``rollouts`` of one batch under ``skill``.

    ``update_mode`` says what a patch consists of, ``budget`` how many edits one may propose (None:
    as many as it likes). ``gradient`` are the settings of the stage. ``step_buffer`` tells of
    earlier steps, with what reviewers ask for, and ``meta_skill`` of earlier epochs. Notes for the
    appendix are wanted of the kinds ``notes_from``. ``seed`` shuffles.
    """

    rollouts: tuple[Rollout, ...]
    skill: str
    update_mode: str
    budget: int | None
    gradient: Gradient
    seed: int
    step_buffer: str = ""
    meta_skill: str = ""
    notes_from: Collection[Source] = ()


class Environment(ABC):
    """Tasks, and how they are worked on. Only :meth:`tasks` must be written.

    ``options`` are what the configuration's block has besides its type; ``root`` is the
    configuration's folder.
    """

    def __init__(self, options: Mapping[str, object], root: Path) -> None:
        self.options = options
        self.root = root

    @abstractmethod
    def tasks(self, split: Split) -> Iterable[Task]:
        """The tasks of a split, always the same ones in the same order."""

    def solver(self, parts: Parts) -> Solver:
        return parts.solver

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Grade an attempt; raise ``scorers.base.GraderError`` when the grader is at fault."""
        return await parts.grade(task, attempt)

    @property
    def grades(self) -> bool:
        """Whether it grades by itself, and not by scorers."""
        return type(self).grade is not Environment.grade

    @property
    def code(self) -> Literal["none", "confined", "inside"]:
        """Where its code meets answers: nowhere, in a process kept from our secrets, or in ours."""
        works = self.grades or self.reflects or type(self).solver is not Environment.solver
        return "inside" if works else "none"

    def prompts(self) -> Mapping[str, str]:
        """Prompts by the names of those they replace; the `prompts` folder wins over them."""
        return {}

    async def reflect(
        self, asked: Reflecting, client: ChatClient
    ) -> Sequence[Mapping[str, object]]:
        """Patches as an analyst of SkillOpt's would return them: what is to change in the skill.

        Each is JSON with `patch` (`reasoning`, and `edits` or what the update mode calls them),
        `source_type` (`failure` or `success`) and what else the analysts' replies may have.
        ``client`` calls the optimizer. Raises :class:`EnvironmentFailure`.
        """
        raise NotImplementedError

    @property
    def reflects(self) -> bool:
        """Whether it reflects by itself, in the place of the analysts."""
        return type(self).reflect is not Environment.reflect

    def identity(self) -> Mapping[str, object]:
        """Return the JSON facts besides the tasks that scores depend on, never a secret."""
        return {"type": type(self).__qualname__, "options": dict(self.options)}

    def close(self) -> None:
        return
