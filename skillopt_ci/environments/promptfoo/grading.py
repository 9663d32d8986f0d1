"""Judging an answer by all assertions of its test, those that ask a model or a program too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt_ci.aio import siblings
from skillopt_ci.config.scorers import PythonScorer, RubricScorer
from skillopt_ci.environments.promptfoo.assertions import (
    Verdict,
    combined,
    is_negated,
    judge_text,
    kind_of,
)
from skillopt_ci.environments.promptfoo.shape import AssertionShape
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers.base import GraderError, Judge
from skillopt_ci.scorers.code import call_function, load_function
from skillopt_ci.scorers.rubric import RubricGrader
from skillopt_ci.tasks.task import Task

_FUNCTION = "get_assert"


@dataclass(frozen=True, slots=True)
class Grading:
    """What grading takes besides the answer; ``folder`` is that of the promptfoo file."""

    task: Task
    vars: Mapping[str, Any]
    folder: Path
    judge: Judge
    environ: Mapping[str, str] = field(default_factory=dict)

    async def all_of(
        self, assertions: Sequence[AssertionShape], threshold: float | None, answer: str
    ) -> Verdict:
        """Judge by ``assertions``; raises GraderError if one of them cannot be judged."""
        async with siblings() as group:
            running = [group.create_task(self._one(each, answer)) for each in assertions]
        verdicts = [done.result() for done in running]
        return combined(verdicts, [each.weight for each in assertions], threshold)

    async def _one(self, assertion: AssertionShape, answer: str) -> Verdict:
        match kind_of(assertion):
            case "assert-set":
                return await self.all_of(assertion.assertions, assertion.threshold, answer)
            case "llm-rubric":
                return await self._rubric(assertion, answer)
            case "python":
                return await self._python(assertion, answer)
        try:
            return judge_text(assertion, answer)
        except UsageError as error:
            raise GraderError(f"{assertion.type}: {error.message}") from error

    async def _rubric(self, assertion: AssertionShape, answer: str) -> Verdict:
        spec = RubricScorer(type="rubric", rubric=str(assertion.value))
        if assertion.threshold is not None:
            spec = spec.model_copy(update={"hard_at": assertion.threshold})
        score = await RubricGrader(spec, self.judge).score(self.task, answer)
        negated = is_negated(assertion)
        soft = 1 - score.soft if negated else score.soft
        return Verdict(bool(score.hard) != negated, soft, score.reason)

    async def _python(self, assertion: AssertionShape, answer: str) -> Verdict:
        name = str(assertion.value).removeprefix("file://")
        path, _, function = name.partition(":")
        entry = f"{path}:{function or _FUNCTION}"
        load_function(entry, self.folder)
        spec = PythonScorer(type="python", entry=entry)
        context = {"vars": dict(self.vars), "prompt": self.task.messages[-1].content}
        returned = await call_function(
            entry,
            (answer, context),
            root=self.folder,
            environ=self.environ,
            timeout=spec.timeout,
        )
        return _verdict(assertion, returned, entry)


def _verdict(assertion: AssertionShape, returned: object, entry: str) -> Verdict:
    """What a Python assertion returned: a truth value, a score, or pass, score and reason."""
    found = returned if isinstance(returned, dict) else {}
    score = found.get("score", found.get("pass")) if found else returned
    if not isinstance(score, bool | int | float) or not 0 <= score <= 1:
        raise GraderError(f"{entry} returned {returned!r:.80}, expected a score from 0 to 1")
    holds = bool(found.get("pass", score > 0))
    if assertion.threshold is not None:
        holds = holds and score >= assertion.threshold
    negated = is_negated(assertion)
    passed = holds != negated
    soft = float(passed) if negated or isinstance(score, bool) else float(score)
    return Verdict(passed, soft, str(found.get("reason") or f"{entry} gave {score}"))
