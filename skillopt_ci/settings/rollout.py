"""The `rollout` section: how the target works on a task, and where."""

from typing import Annotated, Literal

from pydantic import Field

from skillopt_ci.settings.base import Section
from skillopt_ci.settings.computer import ComputerSettings
from skillopt_ci.settings.computer_task import ComputerBlock, LimitChanges
from skillopt_ci.settings.solver import ChatSettings, SolverSettings


class AttemptLimits(Section):
    """What one attempt at one task may take. A limit ends the work, which is graded all the same.

    A plain chat answer is one call: `model.target` says how long that may take.
    """

    setup_seconds: float = Field(default=300.0, gt=0)
    """Seconds to start the task's computer and set it up."""
    rollout_seconds: float = Field(default=1800.0, gt=0)
    """Seconds of work. Waiting for a server that is busy or down does not count."""
    grading_seconds: float = Field(default=300.0, gt=0)
    """Seconds for each command that grades."""
    steps: int | None = Field(default=50, gt=0)
    """Answers of the model; null: no limit."""
    tokens: int | None = Field(default=None, gt=0)
    """Prompt and completion tokens together; null: no limit."""
    cost_usd: float | None = Field(default=None, gt=0)
    """US dollars, as far as prices are known; null: no limit."""

    def changed(self, changes: LimitChanges | None) -> "AttemptLimits":
        """Return these limits with those that ``changes`` names in their place."""
        return self if changes is None else self.model_copy(update=changes.named())


class LocalExecutor(Section):
    """Attempts run in this process."""

    type: Literal["local"] = "local"


class RayExecutor(Section):
    """Attempts are sent to a Ray cluster; needs the extra `skillopt-ci[ray]` and the cache."""

    type: Literal["ray"]
    address: str = "auto"
    """The cluster: `auto` finds the one that this machine is part of, `local` starts one of this
    machine alone, `ray://host:port` connects from outside."""
    cpus: float = Field(default=1.0, gt=0)
    """Cores that the cluster sets apart for each attempt. Chat answers mostly wait: 0.1 will do."""
    restarts: int = Field(default=2, ge=0)
    """How often the cluster starts an attempt again whose worker died. After that it is made
    here."""


ExecutorSettings = Annotated[LocalExecutor | RayExecutor, Field(discriminator="type")]


class RolloutSettings(Section):
    """How the target works on tasks. The default is one chat answer for each."""

    solver: SolverSettings = ChatSettings()
    """Who works: a chat answer, an agent with tools, a program of its own."""
    computer: ComputerSettings | None = None
    """Where agents work and their work is graded; null: tasks need no computer."""
    task: ComputerBlock | None = None
    """What stands in the `computer` block of every task that does not say otherwise; `files` as
    paths start at the folder of the configuration."""
    attempts: int = Field(default=1, gt=0)
    """Independent attempts at each task; its score is their mean."""
    nudges: int = Field(default=0, ge=0)
    """How often an agent without a valid submission is told to go on."""
    grade_every_step: bool = False
    """Grade the work after every tool use as well, so that its course can be seen."""
    retries: int = Field(default=2, ge=0)
    """Further tries of an attempt that infrastructure spoilt, with growing pauses."""
    limits: AttemptLimits = AttemptLimits()
    executor: ExecutorSettings = LocalExecutor()
    """Where attempts are run."""
    programs_can_read_secrets: bool = False
    """Run scorers' programs, environments and `unconfined` computers with all our rights: what a
    model steers there can read keys, the token and the Docker socket. Otherwise they are confined
    where that is possible, and elsewhere no pull request is evaluated."""
    events: bool = True
    """Record what happens in each attempt, inside the repository's `.git`, for `trace`."""
