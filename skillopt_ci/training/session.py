"""Everything that training a run needs, assembled once and handed to every stage."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.build import open_models
from skillopt_ci.model.client import ChatClient, Usage
from skillopt_ci.model.judge import ChatJudge
from skillopt_ci.model.meter import Meter
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.scorers import TaskScorers
from skillopt_ci.rollout.solver import ChatSolver
from skillopt_ci.settings.config import Config
from skillopt_ci.tasks.task import Splits, Task


@dataclass(frozen=True, slots=True)
class Session:
    """One run on one repository.

    ``root`` is the folder that the configuration's paths start from; ``skill_path`` is relative
    to the repository. ``measured_under`` fingerprints what scores depend on besides the skill.
    ``clock`` counts seconds; its zero means nothing.
    """

    config: Config
    root: Path
    skill_path: str
    splits: Splits
    prompts: Prompts
    ledger: Ledger
    cache_path: Path | None
    environ: Mapping[str, str]
    observer: Observer
    clock: Callable[[], float]
    config_sha256: str
    measured_under: str

    @property
    def folder(self) -> RunFolder:
        """The run's files in the tree."""
        return RunFolder(self.config.run)

    @property
    def selection(self) -> tuple[Task, ...]:
        """The tasks on which every candidate is measured: always the same, in the same order."""
        return first(self.splits.selection, self.config.evaluation.sel_env_num)

    @property
    def test(self) -> tuple[Task, ...]:
        """The tasks that no decision of training looks at."""
        return first(self.splits.test, self.config.evaluation.test_env_num)

    @property
    def simulated(self) -> bool:
        """Whether some model of the run is a simulated one."""
        models = self.config.model
        return any(
            role.provider == "simulated"
            for role in (models.target, models.optimizer, models.judge)
            if role is not None
        )

    def meter(self, run_started: float, spent: Usage) -> Meter:
        """A meter for one piece of work, when the run has consumed ``spent`` before it."""
        budget = self.config.budget
        return Meter(
            step=budget.step,
            run=budget.run,
            spent=spent,
            clock=self.clock,
            command_started=run_started,
        )

    @asynccontextmanager
    async def bench(self, scope: str, meter: Meter) -> AsyncIterator["Bench"]:
        """Open the models for one durable piece of work.

        ``scope`` names that work: answers kept under it count as its own when it is resumed, so
        that an interrupted step reports what it cost in all.
        """
        models = open_models(
            self.config.model,
            self.environ,
            cache_path=self.cache_path,
            scope=scope,
            meter=meter,
            observe=self.observer,
        )
        async with models as client:
            yield Bench(client, self._runner(client), meter)

    def _runner(self, client: ChatClient) -> Runner:
        scorers = TaskScorers(
            default=self.config.scorer,
            judge=ChatJudge(client),
            root=self.root,
            environ=self.environ,
        )
        solver = ChatSolver(client, self.prompts)
        return Runner(solver, scorers, self.config.model.target.max_concurrency)


@dataclass(frozen=True, slots=True)
class Bench:
    """Open models: a client, a runner on it, and the meter that both are charged to."""

    client: ChatClient
    runner: Runner
    meter: Meter


def first(tasks: tuple[Task, ...], count: int) -> tuple[Task, ...]:
    """The first ``count`` tasks; all of them for 0."""
    return tasks[:count] if count else tasks
