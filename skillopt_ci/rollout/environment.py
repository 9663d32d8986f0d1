"""Environments: where tasks come from, how solvers attempt them, and how attempts are graded."""

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


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run that an environment can use.

    All model calls must go through ``client``, which caches, meters and enforces budgets.
    ``solver`` is the configured one; ``grade`` uses the task's or the run's scorer and raises
    GraderError if that fails. ``computers`` may be None; ``root`` is the configuration's folder.
    """

    client: ChatClient
    prompts: Prompts
    judge: Judge
    config: Config
    root: Path
    environ: Mapping[str, str]
    computers: Computers | None
    solver: Solver
    grade: Callable[[Task, Attempt], Awaitable[Score]]


@dataclass(frozen=True, slots=True)
class Reflecting:
    """The input of reflection: the measured ``rollouts`` of one batch under ``skill``.

    ``update_mode`` says what a patch consists of, ``budget`` how many edits it may propose (None:
    no limit). ``gradient`` has the stage's settings. ``step_buffer`` describes earlier steps and
    reviewers' requests, ``meta_skill`` earlier epochs. Rollouts of the kinds in ``notes_from``
    should also yield notes for the appendix. ``seed`` is for shuffling.
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
    """Tasks and the work on them. Only :meth:`tasks` is required.

    ``options`` are the keys of the block besides its type; ``root`` is the configuration's folder.
    """

    def __init__(self, options: Mapping[str, object], root: Path) -> None:
        self.options = options
        self.root = root

    @abstractmethod
    def tasks(self, split: Split) -> Iterable[Task]:
        """The tasks of a split, always the same and in the same order."""

    def solver(self, parts: Parts) -> Solver:
        return parts.solver

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Grade an attempt; raise ``scorers.base.GraderError`` if the grader fails."""
        return await parts.grade(task, attempt)

    @property
    def grades(self) -> bool:
        """Whether it does its own grading instead of using scorers."""
        return type(self).grade is not Environment.grade

    @property
    def code(self) -> Literal["none", "confined", "inside"]:
        """Where its code handles answers: nowhere, in a confined process, or inside this one."""
        solves = type(self).solver is not Environment.solver
        return "inside" if solves or self.grades or self.reflects else "none"

    def prompts(self) -> Mapping[str, str]:
        """Prompts by the names of those they replace; the `prompts` folder takes precedence."""
        return {}

    async def reflect(
        self, asked: Reflecting, client: ChatClient
    ) -> Sequence[Mapping[str, object]]:
        """Propose patches of the skill, in the form that SkillOpt's analysts return.

        Each is JSON with `patch` (`reasoning`, and `edits` or the update mode's name for them),
        `source_type` (`failure` or `success`) and any other key of the analysts' replies.
        ``client`` calls the optimizer. Raises :class:`EnvironmentFailure`.
        """
        raise NotImplementedError

    @property
    def reflects(self) -> bool:
        """Whether it reflects instead of the analysts."""
        return type(self).reflect is not Environment.reflect

    def identity(self) -> Mapping[str, object]:
        """Return JSON facts that scores depend on besides the tasks; never include a secret."""
        return {"type": type(self).__qualname__, "options": dict(self.options)}

    def close(self) -> None:
        return
