"""Inspect AI tasks: run a task's dataset, solver and scorer sample by sample."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from skillopt_ci.environments.api import Division
from skillopt_ci.integrations import bridge
from skillopt_ci.rollout.environment import Split
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.scorers.base import GraderError, Score, reaches, scored
from skillopt_ci.tasks.task import Task


class InspectOptions(Division, bridge.BridgeOptions):
    task: str = Field(min_length=1)
    """`path/to/file.py@task`, or the name of a task in an installed package."""
    args: dict[str, object] = Field(default_factory=dict)
    """Arguments of the task."""
    scorer: str | None = None
    """Which score counts, where the task gives several; the first by default. `name/key` for a
    key of a score that is a mapping."""
    full_marks: float = Field(default=1.0, gt=0)
    """The value that is a soft score of 1."""
    hard_at: float = Field(default=1.0, ge=0, le=1)
    """Soft score from which the task counts as solved."""


class InspectEnvironment(bridge.BridgeEnvironment[InspectOptions]):
    kind = "inspect"
    package = "inspect_ai"
    module = "skillopt_ci.integrations.inspect_worker"
    shape = InspectOptions
    refusals = 100  # a solver may ignore them, or have several calls under way

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return tuple(map(bridge.told_task, self._read.divided(self.worker.tasks)[split]))

    def job(self, task: Task, _place: Workplace) -> Mapping[str, object]:
        return {"sample": task.metadata["sample"]}

    def score(self, result: Mapping[str, Any]) -> Score:
        scores: Mapping[str, Any] = result.get("scores") or {}
        wanted = self._read.scorer or self.worker.facts["identity"].get("first_scorer")
        name, _, key = (wanted or next(iter(scores), "")).partition("/")
        if name not in scores:
            called = f" called {name!r}; there are: {', '.join(scores)}" if scores else ""
            raise GraderError(f"Inspect gave no score{called}")
        found = scores[name]
        value = found["value"]
        if isinstance(value, dict):
            parts = [value.get(key)] if key else value.values()
            numbers = [one for one in parts if isinstance(one, int | float)]
            value = sum(numbers) / len(numbers) if numbers else None
        shared = value / self._read.full_marks if isinstance(value, int | float) else value
        soft = bridge.checked_share(shared, f"the score {name!r}")
        reason = found["explanation"] or f"{name} gave {found['value']!r}"
        answer = found["answer"] or str(result.get("response", ""))
        return scored(reaches(soft, self._read.hard_at), reason, answer, soft=soft)
