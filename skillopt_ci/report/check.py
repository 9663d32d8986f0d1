"""Checks on a commit: what a step came to, told where people look for what blocks a merge."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from skillopt_ci.github.types import Annotation, WantedCheck
from skillopt_ci.report.comment import dashboard, footer, interruption
from skillopt_ci.report.markdown import COMMENT_BYTES, Links, clip, cut, join, single_line
from skillopt_ci.report.sections import step_body
from skillopt_ci.report.view import RunView, step_headline

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
    decision = None if newest is None or inconclusive else newest.decision
    title = f"Training starts at {run.state.current.measurement.score:.3f}"
    if inconclusive:
        title = f"Inconclusive: {clip(single_line(inconclusive), 200)}"
    elif newest is not None:
        title = step_headline(newest)
    remarks: list[tuple[str, str, str]] = []
    if decision is not None:
        lost = () if decision.measurement is None else decision.measurement.errors
        remarks = [
            (task, word, text)
            for tasks_of, word, text in (
                (decision.broken, "broken", "solved before this change, not after it"),
                (lost, "not measured", "infrastructure or its scorer failed"),
                (decision.fixed, "fixed", "solved after this change, not before it"),
            )
            for task in tasks_of
        ]
    summary = join(
        interruption(inconclusive),
        dashboard(run),
        "" if newest is None else step_body(newest, run.place(newest.step), links),
        footer(run, links),
    )
    return WantedCheck(
        name=f"skillopt-ci / {run.state.run}",
        head_sha=run.commit,
        title=title,
        summary=cut(summary, COMMENT_BYTES),
        conclusion="success" if decision is not None and decision.better else "neutral",
        annotations=tuple(annotations(remarks, tasks or {})),
        details_url=links.workflow_run,
    )


def annotations(
    remarks: Iterable[tuple[str, str, str]], tasks: Mapping[str, TaskPlace]
) -> Iterator[Annotation]:
    """Remarks on tasks, where these are defined: a task's name, what became of it, a sentence."""
    placed = [remark for remark in remarks if remark[0] in tasks]
    for task, word, text in placed[:_MOST_ANNOTATIONS]:
        place = tasks[task]
        yield Annotation(
            path=place.path,
            start_line=place.line,
            end_line=place.line,
            level="warning" if word == "broken" else "notice",
            message=f"Task {clip(single_line(task), 100)}: {text}.",
            title=f"Task {word}",
        )
