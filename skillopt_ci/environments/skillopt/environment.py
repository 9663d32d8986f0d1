"""SkillOpt's environment adapters: their items are the tasks, their rollout works and grades."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from skillopt_ci.config.base import Section
from skillopt_ci.environments.bridge import BridgeEnvironment, checked_share
from skillopt_ci.environments.extras import require
from skillopt_ci.environments.options import read_options
from skillopt_ci.environments.skillopt.batch import reflection_job
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatClient, Role
from skillopt_ci.rollout.environment import Reflecting, Split
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.scorers.base import Score
from skillopt_ci.tasks.task import Task


class SkillOptOptions(Section):
    """Options of `environment: {type: skillopt}`."""

    adapter: str = Field(min_length=1)
    """One of SkillOpt's own (`searchqa`), `package.module:Class` or `path/to/file.py:Class`."""
    config: str | dict[str, object] = Field(default_factory=dict)
    """SkillOpt's configuration: a YAML file of its own, or the keys, flat or in its sections."""
    prompts: bool = True
    """Use the adapter's prompts for the analysts, where it has its own."""
    reflect: Literal["ours", "adapter"] = "ours"
    """Who reads trajectories and proposes edits: our analysts, or the adapter's own `reflect`."""
    prompt_files: str | None = None
    """A folder with `<name>.md` or `<environment>/<name>.md` for the prompt files that the
    installed package lacks."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the adapter may see besides PATH, HOME and LANG."""


class SkillOptEnvironment(BridgeEnvironment):
    """An adapter of SkillOpt's, made to ask the run's own target model."""

    kind = "skillopt"
    module = "skillopt_ci.environments.skillopt.side"

    def __init__(
        self, options: Mapping[str, object], root: Path, environ: Mapping[str, str]
    ) -> None:
        require("skillopt", "skillopt")
        self._read = read_options(SkillOptOptions, options, self.kind)
        super().__init__(options, root, environ)

    @property
    def env(self) -> tuple[str, ...]:
        """Names of the environment variables that the worker may see."""
        return self._read.env

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the items of a split as tasks."""
        return tuple(map(_task, self.worker.tasks[split]))

    def prompts(self) -> Mapping[str, str]:
        """Return the adapter's own prompts by the name of those that they replace."""
        prompts: Mapping[str, str] = self.worker.facts["prompts"]
        return prompts if self._read.prompts else {}

    def job(self, task: Task, place: Workplace) -> Mapping[str, object]:
        """Name the item, and say whether it is trained on and what reflection will want of it."""
        training = place.stage == "rollout"
        return {
            "item": task.metadata["item"],
            "training": training,
            "evidence": training and self.reflects,
        }

    @property
    def reflects(self) -> bool:
        """Whether the adapter's own ``reflect`` stands in the place of the analysts."""
        return self._read.reflect == "adapter"

    async def reflect(
        self, asked: Reflecting, client: ChatClient
    ) -> Sequence[Mapping[str, object]]:
        """Return the patches of the adapter's own ``reflect``."""
        result = await self.ask_worker(reflection_job(asked), client, "analyst", (Role.OPTIMIZER,))
        patches: list[Mapping[str, object]] = result["patches"]
        return patches

    def identity(self) -> Mapping[str, object]:
        """Return options and versions; who reflects says nothing about scores."""
        known = super().identity()
        options = {key: one for key, one in self.options.items() if key != "reflect"}
        return {**known, "options": options}

    def score(self, result: Mapping[str, Any]) -> Score:
        """Read hard and soft score out of the adapter's row; hard may be partial, as there."""
        hard = checked_share(result["hard"], "the adapter's hard score")
        soft = checked_share(result["soft"], "the adapter's soft score")
        return Score(hard, soft, str(result["reason"]), str(result["answer"]))


def _task(told: Mapping[str, Any]) -> Task:
    return Task(
        id=told["id"],
        messages=(Message("user", told["text"]),),
        references=tuple(told["references"]),
        task_type=told["type"],
        metadata={"item": told["key"]},
        reference_text=told["reference_text"],
    )
