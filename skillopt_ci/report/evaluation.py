"""The evaluation of a person's change: the skill at base against the skill at head."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skillopt_ci.github.types import Annotation, Conclusion, WantedCheck
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.report.check import TaskPlace
from skillopt_ci.report.comment import SIMULATED, marker
from skillopt_ci.report.text import (
    COMMENT_BYTES,
    Links,
    clip,
    code,
    codes,
    cut,
    details,
    inline,
    single_line,
    table,
    usage_text,
)
from skillopt_ci.report.words import Finding, chance, reservations, with_pessimistic
from skillopt_ci.rollout.metrics import PairedDifference
from skillopt_ci.text import plural, score_text

_ICONS = {
    Finding.IMPROVEMENT: "✅",
    Finding.REGRESSION: "❌",
    Finding.UNCLEAR: "➖",
    Finding.INCONCLUSIVE: "⚠️",
}
_MOST_PAIRS = 100
_MOST_ANNOTATIONS = 50


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two skills."""

    commit: str
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """What an evaluation found; both sides are None where nothing could be measured.

    ``difference`` is head minus base over the tasks that both measured. ``why`` says what kept
    the evaluation from a finding, if something did.
    """

    run: str
    skill: str
    split: str
    finding: Finding
    base: Side | None = None
    head: Side | None = None
    difference: PairedDifference | None = None
    confidence: float = 0.95
    usage: Usage = field(default_factory=Usage)
    simulated: bool = False
    why: str = ""


def evaluation_comment(view: EvaluationView, links: Links) -> str:
    """The comment's whole text, within GitHub's limit."""
    head = f"### {_ICONS[view.finding]} {code(view.skill, 120)}: {headline(view)}"
    parts = (marker(view.run, "evaluation"), head, *_parts(view, links))
    return cut("\n\n".join(part for part in parts if part), COMMENT_BYTES)


def evaluation_check(
    view: EvaluationView,
    links: Links,
    head_sha: str,
    *,
    fail_on: str = "regression",
    tasks: Mapping[str, TaskPlace] | None = None,
) -> WantedCheck:
    """The check on the head of the pull request; with ``fail_on: never`` it cannot be red."""
    return WantedCheck(
        name=f"skillopt-ci / {view.run} evaluation",
        head_sha=head_sha,
        title=clip(single_line(f"{view.finding.capitalize()}{_numbers(view)}"), 200),
        summary=cut("\n\n".join(part for part in _parts(view, links) if part), COMMENT_BYTES),
        conclusion=_conclusion(view.finding, fail_on),
        annotations=tuple(_annotations(view, tasks or {})),
        details_url=links.workflow_run,
    )


def headline(view: EvaluationView) -> str:
    """The finding in a line."""
    return inline(f"{view.finding}{_numbers(view)}")


def _numbers(view: EvaluationView) -> str:
    difference = view.difference
    if difference is None or not difference.n:
        return ""
    interval = difference.interval
    spread = "" if interval is None else f" ± {interval.high - difference.mean:.3f}"
    return f" ({difference.mean:+.3f}{spread} on {plural(difference.n, 'task')})"


def _parts(view: EvaluationView, links: Links) -> Iterator[str]:
    if view.why or view.finding is Finding.INCONCLUSIVE:
        why = inline(view.why, 500) or "no task was measured on both sides"
        yield (
            f"> [!NOTE]\n> **Not measured:** {why}. "
            "This says nothing about the change, neither for nor against it."
        )
    if view.base is not None and view.head is not None:
        yield _scores(view, view.base, view.head, links)
        yield "\n".join(_reserved(view.base, view.head))
    if view.difference is not None:
        yield from _flips(view, view.difference)
    if view.simulated:
        yield SIMULATED
    if view.base is not None and view.head is not None:
        yield _pairs(view.base.measurement, view.head.measurement)
    about = [f"used {inline(usage_text(view.usage))}", links.run("workflow run")]
    yield f"<sub>{' · '.join(part for part in about if part)}</sub>"


def _scores(view: EvaluationView, base: Side, head: Side, links: Links) -> str:
    rows = [
        (
            f"{name} {links.commit(side.commit)}",
            inline(_solved(side.measurement)),
            f"{side.measurement.soft:.3f}",
        )
        for name, side in (("base", base), ("head", head))
    ]
    headings = (f"{inline(view.split, 20)} tasks", "solved (95 % interval)", "soft")
    return table(headings, rows)


def _solved(measurement: Measurement) -> str:
    return with_pessimistic(score_text(measurement.hard, measurement.n), measurement)


def _reserved(base: Side, head: Side) -> Iterator[str]:
    for name, side in (("base", base), ("head", head)):
        yield from (f"- {name}: {inline(one, 900)}" for one in reservations(side.measurement))


def _flips(view: EvaluationView, difference: PairedDifference) -> Iterator[str]:
    fixed, broken = difference.fixed, difference.broken
    same = difference.n - len(fixed) - len(broken)
    odds = chance(len(fixed), len(broken))
    changed = len(fixed) + len(broken)
    told = (
        f"If the change made no difference, {plural(changed, 'changed task')} would split as "
        f"unevenly as {len(fixed)} : {len(broken)} in {odds:.0%} of all cases; "
        f"below {1 - view.confidence:.0%} counts as clear."
        if changed
        else "No task changed its result."
    )
    yield (
        f"- **Fixed ({len(fixed)}):** {codes(fixed)}\n"
        f"- **Broken ({len(broken)}):** {codes(broken)}\n"
        f"- **Same ({same}).** {told}"
    )


def _pairs(base: Measurement, head: Measurement) -> str:
    """The changed pairs first, then the others."""
    ids = sorted(
        {**base.tasks, **head.tasks},
        key=lambda task: (base.tasks.get(task) == head.tasks.get(task), task),
    )
    rows = [
        (code(task, 60), _score(base, task), _score(head, task), _change(base, head, task))
        for task in ids[:_MOST_PAIRS]
    ]
    rest = len(ids) - len(rows)
    more = f"\n\n<sub>and {rest:,} more</sub>" if rest > 0 else ""
    pairs = table(("task", "base", "head", ""), rows, "lrrl") + more
    return details("Pair by pair", pairs) if rows else ""


def _score(measurement: Measurement, task: str) -> str:
    found = measurement.tasks.get(task)
    return "not measured" if found is None else f"{found[0]:.2f}"


def _change(base: Measurement, head: Measurement, task: str) -> str:
    before, after = base.tasks.get(task), head.tasks.get(task)
    if before is None or after is None or before[0] == after[0]:
        return ""
    return "fixed" if after[0] > before[0] else "broken"


def _annotations(view: EvaluationView, tasks: Mapping[str, TaskPlace]) -> Iterator[Annotation]:
    broken = () if view.difference is None else view.difference.broken
    for task in [task for task in broken if task in tasks][:_MOST_ANNOTATIONS]:
        place = tasks[task]
        text = f"Task {clip(single_line(task), 100)}: solved with the skill at base, not at head."
        yield Annotation(place.path, place.line, place.line, "warning", text, "Task broken")


def _conclusion(finding: Finding, fail_on: str) -> Conclusion:
    if finding is Finding.IMPROVEMENT:
        return "success"
    return "failure" if finding is Finding.REGRESSION and fail_on == "regression" else "neutral"
