"""The evaluation of a person's change: the skill at base against the skill at head."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from skillopt_ci.github.types import NOT_EVALUATED, NOTHING_TO_DO, Conclusion, WantedCheck
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.report import markdown as md
from skillopt_ci.report.comment import SIMULATED, TaskPlace, annotations, marker
from skillopt_ci.report.words import gain_text, reservations, usage_text, with_pessimistic
from skillopt_ci.rollout.metrics import PairedDifference
from skillopt_ci.stats import sign_test
from skillopt_ci.text import capitalized, percent, plural, rounded, score, score_text

_Scores = Mapping[str, tuple[float, float]]


class Finding(StrEnum):
    IMPROVEMENT = "improvement"
    REGRESSION = "regression"
    UNCLEAR = "no clear difference"
    #: The change could not be measured.
    INCONCLUSIVE = "inconclusive"


_ICONS = {
    Finding.IMPROVEMENT: "✅",
    Finding.REGRESSION: "❌",
    Finding.UNCLEAR: "➖",
    Finding.INCONCLUSIVE: "⚠️",
}


def judge(
    difference: PairedDifference, *, confidence: float = 0.95, threshold: float = 0.0
) -> Finding:
    """The finding on second minus first.

    An improvement or regression needs a mean change of at least ``threshold``, and a split of the
    changed tasks that has a chance below 1 − ``confidence`` (exact sign test, sound for few tasks).
    """
    if not difference.n:
        return Finding.INCONCLUSIVE
    fixed, broken = len(difference.fixed), len(difference.broken)
    if chance(fixed, broken) > 1 - confidence + 1e-12 or abs(difference.mean) < threshold:
        return Finding.UNCLEAR
    if difference.mean > 0 and fixed > broken:
        return Finding.IMPROVEMENT
    return Finding.REGRESSION if difference.mean < 0 and broken > fixed else Finding.UNCLEAR


def chance(fixed: int, broken: int) -> float:
    """The probability of a split at least this uneven if better and worse are equally likely."""
    return min(1.0, 2 * sign_test(max(fixed, broken), min(fixed, broken)))


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """The result of an evaluation on the selection tasks.

    ``why`` says why nothing was measured; for a regression, that head has no skill to compare.
    ``sides`` are commit and measurement of base and of head. ``difference`` is head minus base over
    the tasks measured on both; ``worth`` is head minus ``baseline``, the score without a skill.
    """

    run: str
    skill: str
    finding: Finding
    sides: tuple[tuple[str, Measurement], ...] = ()
    difference: PairedDifference | None = None
    baseline: Measurement | None = None
    worth: PairedDifference | None = None
    confidence: float = 0.95
    usage: Usage = field(default_factory=Usage)
    simulated: bool = False
    why: str = ""

    @property
    def headline(self) -> str:
        found = self.difference
        if self.why and self.finding is Finding.REGRESSION:
            return f"{self.finding} (head cannot be evaluated)"
        if found is None or not found.n:
            return f"{self.finding}"
        return f"{self.finding} ({gain_text(found)} on {plural(found.n, 'task')})"


def evaluation_comment(view: EvaluationView, links: md.Links) -> str:
    head = f"### {_ICONS[view.finding]} {md.code(view.skill, 120)}: {md.inline(view.headline)}"
    return md.cut(md.join(marker(view.run, "evaluation"), head, *_parts(view, links)))


def evaluation_check(
    view: EvaluationView,
    links: md.Links,
    head_sha: str,
    *,
    fail_on: str = "regression",
    tasks: Mapping[str, TaskPlace] | None = None,
) -> WantedCheck:
    """The check on head; with ``fail_on: never`` it never fails."""
    conclusion: Conclusion = "success" if view.finding is Finding.IMPROVEMENT else "neutral"
    if view.finding is Finding.REGRESSION and fail_on == "regression":
        conclusion = "failure"
    broken = () if view.difference is None else view.difference.broken
    remarks = ((task, "broken", "solved with the skill at base, not at head") for task in broken)
    return WantedCheck(
        name=_check_name(view.run),
        head_sha=head_sha,
        title=md.clip(md.single_line(capitalized(view.headline)), 200),
        summary=md.cut(md.join(*_parts(view, links))),
        conclusion=conclusion,
        annotations=tuple(annotations(remarks, tasks or {})),
        details_url=links.workflow_run,
    )


#: Why there is nothing to compare.
UNCHANGED = "the skill is the same as at base"
#: Why a commit of the skills branch is not evaluated.
TRAINED = "training gates this branch itself, and measures what people push here in its next step"


def unevaluated_check(
    run: str,
    head_sha: str,
    conclusion: Literal["success", "neutral"] | None,
    why: str,
    links: md.Links,
    *,
    again: bool = False,
) -> WantedCheck:
    """The same check on a commit that is not evaluated; without a conclusion it stays pending."""
    titles = {"success": NOTHING_TO_DO, "neutral": NOT_EVALUATED}
    return WantedCheck(
        name=_check_name(run),
        head_sha=head_sha,
        title=titles.get(conclusion or "", "Waiting"),
        summary=f"{md.inline(capitalized(why), 500)}.\n\n<sub>{links.run('workflow run')}</sub>",
        conclusion=conclusion,
        details_url=links.workflow_run,
        yields=conclusion != "success" or why == TRAINED,  # which somebody may have measured
        again=again,
    )


def untouched_comment(run: str, why: str, links: md.Links) -> str:
    told = f"### ➖ {md.code(run)}: {NOTHING_TO_DO}\n\n{md.inline(capitalized(why), 500)}."
    return md.join(marker(run, "evaluation"), told, f"<sub>{links.run('workflow run')}</sub>")


def _check_name(run: str) -> str:
    return f"skillopt-ci / {run} evaluation"


def _parts(view: EvaluationView, links: md.Links) -> Iterator[str]:
    why = md.inline(view.why, 500) or "no task was measured on both sides"
    if view.why and view.finding is Finding.REGRESSION:
        yield f"> [!CAUTION]\n> {why}. Nothing was evaluated and nothing spent."
    elif view.why or view.finding is Finding.INCONCLUSIVE:
        yield (
            f"> [!NOTE]\n> **Not measured:** {why}. "
            "This says nothing about the change, neither for nor against it."
        )
    rows, caveats = [], []
    sides = [
        (name, f"{name} {links.commit(commit)}", side)
        for name, (commit, side) in zip(("base", "head"), view.sides, strict=False)
    ]
    sides += [("no skill", "no skill", view.baseline)] if view.baseline else []
    for name, heading, found in sides:
        solved = md.inline(with_pessimistic(score_text(found.hard, found.n), found))
        rows.append((heading, solved, score(found.soft)))
        caveats += [f"- {name}: {md.inline(one, 900)}" for one in reservations(found)]
    if rows:
        yield md.table(("selection tasks", "solved (95 % interval)", "soft"), rows)
        yield "\n".join(caveats)
    if view.difference is not None:
        yield _flips(view.difference, view.confidence)
    if (worth := view.worth) is not None and worth.n:
        yield (
            "Against no skill at all, head is worth "
            f"{gain_text(worth)} on {plural(worth.n, 'task')}."
        )
    if view.simulated:
        yield SIMULATED
    if view.sides:
        yield _pairs(*(found.tasks for _, found in view.sides))
    used = f"used {md.inline(usage_text(view.usage))}" if view.usage.calls else ""
    yield f"<sub>{md.join(used, links.run('workflow run'), by=' · ')}</sub>"


def _flips(difference: PairedDifference, confidence: float) -> str:
    fixed, broken = difference.fixed, difference.broken
    changed, told = len(fixed) + len(broken), "No task changed its result."
    if changed:
        told = (
            f"If the change made no difference, {plural(changed, 'changed task')} would split as "
            f"unevenly as {len(fixed)} : {len(broken)} in "
            f"{percent(chance(len(fixed), len(broken)), digits=1)} of all cases; "
            f"below {100 * (1 - confidence):g}% counts as clear."
        )
    return (
        f"- **Fixed ({len(fixed)}):** {md.codes(fixed)}\n"
        f"- **Broken ({len(broken)}):** {md.codes(broken)}\n"
        f"- **Same ({difference.n - changed}).** {told}"
    )


def _pairs(base: _Scores, head: _Scores) -> str:
    rows = []
    for task in sorted({**base, **head}):
        before, after = (side[task][0] if task in side else None for side in (base, head))
        if before != after:
            scores = ("not measured" if one is None else rounded(one, 2) for one in (before, after))
            change = ""
            if before is not None and after is not None:
                change = "fixed" if after > before else "broken"
            rows.append((md.code(task, 60), *scores, change))
    text = md.cut_table(("task", "base", "head", ""), rows, "lrrl", most=100)
    return md.details("Tasks that changed or were not measured", text) if text else ""
