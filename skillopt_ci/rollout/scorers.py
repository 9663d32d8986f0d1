"""The scorer of each task: its own, or the run's."""

from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.settings.scorer import ScorerSpec
from skillopt_ci.tasks.scorers.build import build_scorer
from skillopt_ci.tasks.scorers.score import GraderError, Judge, Scorer
from skillopt_ci.tasks.task import Task


class TaskScorers:
    """Finds scorers, and builds each only once however many tasks share it."""

    def __init__(
        self,
        default: ScorerSpec | None,
        *,
        judge: Judge | None,
        root: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._default = default
        self._judge = judge
        self._root = root
        self._environ = environ
        self._built: dict[str, Scorer] = {}

    def __call__(self, task: Task) -> Scorer:
        """Return the scorer of ``task``; raises :class:`GraderError` if there is none."""
        spec = task.scorer or self._default
        if spec is None:
            raise GraderError(f"task {task.id!r} has no scorer")
        key = spec.model_dump_json()
        if key not in self._built:
            self._built[key] = build_scorer(
                spec, judge=self._judge, root=self._root, environ=self._environ
            )
        return self._built[key]
