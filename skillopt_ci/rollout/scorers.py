"""The scorer of each task: its own, or the run's."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.config.scorers import (
    AllScorer,
    AnyScorer,
    CommandScorer,
    ComputerScorer,
    PythonScorer,
    RubricScorer,
    ScorerSpec,
    WeightedScorer,
)
from skillopt_ci.errors import UsageError
from skillopt_ci.rollout.computer_scorer import ComputerGrader, grader_files
from skillopt_ci.rollout.places import Places
from skillopt_ci.rollout.steps import Attempt
from skillopt_ci.scorers.base import GraderError, Judge, Score, Scorer
from skillopt_ci.scorers.build import NEEDS_COMPUTER, build_scorer
from skillopt_ci.scorers.code import CommandGrader, PythonGrader
from skillopt_ci.tasks.task import Task


class TaskScorers:
    """Finds scorers, and builds each only once however many tasks share it.

    ``places`` are the computers on which agents' work is graded, ``limits`` says how long that may
    take.
    """

    def __init__(
        self,
        default: ScorerSpec | None,
        *,
        judge: Judge | None,
        root: Path,
        environ: Mapping[str, str],
        places: Places | None = None,
        limits: AttemptLimits | None = None,
    ) -> None:
        self._default = default
        self._judge = judge
        self._root = root
        self._environ = environ
        self._places = places
        self._limits = limits or AttemptLimits()
        self._built: dict[str, Scorer] = {}

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        """Grade ``attempt`` with the task's scorer; raises :class:`GraderError`."""
        spec = self.spec(task)
        computer = any(isinstance(part, ComputerScorer) for part in parts_of(spec))
        scorer = self._build(spec, self._places, attempt, task) if computer else self(task)
        return await scorer.score(task, attempt.response)

    def programs(self, tasks: Iterable[Task]) -> list[tuple[ScorerSpec, Task]]:
        """The different graders of ``tasks`` that are programs, each with a task that has it.

        Those for which tasks' computers differ are different ones.
        """
        found: dict[str, tuple[ScorerSpec, Task]] = {}
        for task in tasks:
            for part in parts_of(self.spec(task)):
                key = part.model_dump_json()
                if isinstance(part, ComputerScorer) and self._places is not None:
                    key += self._places.block(task).model_dump_json()
                if isinstance(part, ComputerScorer | CommandScorer | PythonScorer):
                    found.setdefault(key, (part, task))
        return list(found.values())

    async def try_out(self, part: ScorerSpec, task: Task) -> None:
        """Grade an empty submission with one of :meth:`programs`; raises :class:`GraderError`."""
        scorer = self._build(part, self._places, Attempt((), ""), task)
        assert isinstance(scorer, ComputerGrader | CommandGrader | PythonGrader)  # noqa: S101
        await scorer.score_empty(task)

    def __call__(self, task: Task) -> Scorer:
        """Return the scorer of ``task``; raises :class:`GraderError` if there is none."""
        spec = self.spec(task)
        key = spec.model_dump_json()
        if key not in self._built:
            self._built[key] = self._build(spec, None)
        return self._built[key]

    def spec(self, task: Task) -> ScorerSpec:
        """How ``task`` is graded; raises :class:`GraderError` if nothing says so."""
        spec = task.scorer or self._default
        if spec is None:
            raise GraderError(f"task {task.id!r} has no scorer")
        return spec

    def keeps_computer(self, task: Task) -> bool:
        """Whether the agent's own computer is graded on."""
        spec = task.scorer or self._default
        return spec is not None and any(
            isinstance(part, ComputerScorer) and part.same_computer for part in parts_of(spec)
        )

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """What the score of an attempt depends on besides it, as JSON; None where that is unknown.

        Programs, functions and judges are not ours to vouch for: they are asked each time.
        """
        spec = task.scorer or self._default
        if spec is None or any(
            isinstance(part, CommandScorer | PythonScorer | RubricScorer) for part in parts_of(spec)
        ):
            return None
        parts = [part for part in parts_of(spec) if isinstance(part, ComputerScorer)]
        return {
            # Counts up when the same files and commands grade in another way.
            **({"grading": 2} if parts else {}),
            "scorer": spec.model_dump(mode="json", by_alias=True),
            "files": [
                [name, hashlib.sha256(content).hexdigest()]
                for part in parts
                for name, content in grader_files(part, self._root)
            ],
        }

    def _build(
        self,
        spec: ScorerSpec,
        places: Places | None,
        attempt: Attempt | None = None,
        task: Task | None = None,
    ) -> Scorer:
        def on_computer(part: ComputerScorer) -> Scorer:
            if places is None or attempt is None or task is None:
                raise UsageError("a computer scorer needs a computer", hint=NEEDS_COMPUTER)
            limits = self._limits.changed(places.limits(task))
            return ComputerGrader(part, attempt, places, self._root, limits)

        return build_scorer(
            spec,
            judge=self._judge,
            root=self._root,
            environ=self._environ,
            on_computer=on_computer,
        )


def parts_of(spec: ScorerSpec) -> Iterator[ScorerSpec]:
    """The scorers that ``spec`` is made of, those of combinations one by one."""
    if isinstance(spec, AllScorer | AnyScorer | WeightedScorer):
        for part in spec.of:
            yield from parts_of(part)
    else:
        yield spec
