"""Checks on a commit: what a step came to, told where people look for what blocks a merge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from skillopt_ci.github.types import Annotation, Conclusion, WantedCheck
from skillopt_ci.ledger.records import Decision, StepRecord
from skillopt_ci.report.comment import dashboard, footer, interruption, step_body, step_headline
from skillopt_ci.report.text import COMMENT_BYTES, Links, clip, cut, single_line
from skillopt_ci.report.view import RunView

_MOST_ANNOTATIONS = 50


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task is written: a file of the repository, and a line of it."""

    path: str
    line: int


def step_check(
    run: RunView,
    links: Links,
    *,
    inconclusive: str = "",
    tasks: Mapping[str, TaskPlace] | None = None,
) -> WantedCheck:
    """The check on the tip of the skills branch.

    Green is only what was measured to be better; what was reverted, or came to no verdict, is
    neutral.
    """
    newest = run.newest
    name = f"skillopt-ci / {run.state.run}"
    parts = [interruption(inconclusive), dashboard(run)]
    if newest is not None:
        parts.append(step_body(newest, run.place(newest.step), links))
    parts.append(footer(run, links))
    decision = None if newest is None or inconclusive else newest.decision
    return WantedCheck(
        name=name,
        head_sha=run.commit,
        title=_title(run, newest, inconclusive),
        summary=cut("\n\n".join(part for part in parts if part), COMMENT_BYTES),
        conclusion=_conclusion(newest, inconclusive),
        annotations=() if decision is None else tuple(annotations(decision, tasks or {})),
        details_url=links.workflow_run,
    )


def annotations(decision: Decision, tasks: Mapping[str, TaskPlace]) -> Iterator[Annotation]:
    """Remarks on the tasks whose result changed, broken ones first."""
    measured = decision.measurement
    errors = () if measured is None else measured.errors
    remarks = (
        *((task, "broken", "solved before this change, not after it") for task in decision.broken),
        *((task, "not measured", "infrastructure or its scorer failed") for task in errors),
        *((task, "fixed", "solved after this change, not before it") for task in decision.fixed),
    )
    placed = [remark for remark in remarks if remark[0] in tasks][:_MOST_ANNOTATIONS]
    for task, word, text in placed:
        place = tasks[task]
        yield Annotation(
            path=place.path,
            start_line=place.line,
            end_line=place.line,
            level="warning" if word == "broken" else "notice",
            message=f"Task {clip(single_line(task), 100)}: {text}.",
            title=f"Task {word}",
        )


def _title(run: RunView, newest: StepRecord | None, inconclusive: str) -> str:
    if inconclusive:
        return f"Inconclusive: {clip(single_line(inconclusive), 200)}"
    if newest is None:
        return f"Training starts at {run.state.current.measurement.score:.3f}"
    return step_headline(newest)


def _conclusion(newest: StepRecord | None, inconclusive: str) -> Conclusion:
    decision = None if newest is None else newest.decision
    if inconclusive or decision is None:
        return "neutral"
    green = decision.better
    return "success" if green else "neutral"
