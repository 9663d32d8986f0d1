"""Commit message and rows of the end of a run."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import DifferenceRecord, FinalSkill, HistoryEntry, Summary
from skillopt_ci.report.accounts import stage_rows
from skillopt_ci.report.commit import CommitText, exact, paragraphs, simulated_note, usage_trailers
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.stats import t_quantile

_Rows = Iterator[tuple[str, str]]


def finished(entry: HistoryEntry, summary: Summary, seconds: float) -> CommitText:
    """The commit that ends a run; ``seconds`` is the time that all of the run took."""
    return CommitText(
        subject=f"Finish training: {_headline(summary)}",
        body=paragraphs(
            "\n".join(map(_bullet, summary_rows(summary, seconds))),
            simulated_note(entry.simulated),
        ),
        trailers={
            "Skillopt-Step": str(entry.step),
            "Skillopt-Epoch": str(entry.epoch),
            "Skillopt-Action": entry.action,
            "Skillopt-Score-Before": exact(_shown(summary.initial)),
            "Skillopt-Score-After": exact(_shown(summary.best)),
            "Skillopt-Tasks": str(_count(summary)),
            "Skillopt-Skill-Sha256": entry.skill_sha256,
            "Skillopt-Config-Sha256": entry.config_sha256,
            **usage_trailers(entry.usage, entry.simulated),
        },
    )


def summary_rows(summary: Summary, seconds: float) -> tuple[tuple[str, str], ...]:
    """A run at a glance; ``seconds`` is the time that all of it took."""
    return (
        ("steps", f"{summary.step} of {summary.total_steps}"),
        *_skill_rows(summary),
        *_gain_rows(summary),
        *_type_rows(summary.best),
        *_epoch_rows(summary),
        ("used", f"{usage_text(summary.usage.usage())}, {seconds:.1f} s"),
        *stage_rows(summary.accounts, summary.usage, summary.stages),
    )


def _bullet(row: tuple[str, str]) -> str:
    label = row[0].lstrip()
    return f"{row[0][: -len(label)]}- {label}: {row[1]}"


def _skill_rows(summary: Summary) -> _Rows:
    for name, skill in (("initial", summary.initial), ("best", summary.best)):
        yield name, _scores(skill)
    same = summary.last.sha256 == summary.best.sha256
    yield "last", "the same text as the best" if same else _scores(summary.last)


def _scores(skill: FinalSkill) -> str:
    tested = "" if skill.test is None else f"test {score_text(skill.test.hard, skill.test.n)}, "
    return f"{tested}selection {score(skill.score)} ({skill.origin})"


def _gain_rows(summary: Summary) -> _Rows:
    if summary.best_gain is not None:
        yield "best − initial", _gain(summary.best_gain)
    if summary.last_gain is not None and summary.last.sha256 != summary.best.sha256:
        yield "last − initial", _gain(summary.last_gain)


def _gain(gain: DifferenceRecord) -> str:
    error = gain.standard_error
    spread = "" if error is None else f" ± {t_quantile(0.95, gain.n - 1) * error:.3f}"
    return (
        f"{gain.mean:+.3f}{spread} on {plural(gain.n, 'test task')}, "
        f"{len(gain.fixed)} fixed, {len(gain.broken)} broken"
    )


def _type_rows(skill: FinalSkill) -> _Rows:
    if len(skill.by_type) > 1:
        for kind, found in sorted(skill.by_type.items()):
            yield f"  {kind}", f"best: {score_text(found.hard, found.n)}"


def _epoch_rows(summary: Summary) -> _Rows:
    for one in summary.epochs:
        steps = f"{one.accepts} merged, {one.rejects} reverted, {one.skips} without a proposal"
        scores = f"best {score(one.best_score)}, current {score(one.current_score)}"
        yield f"epoch {one.epoch}", f"{plural(one.steps, 'step')}: {steps}; {scores}"


def _headline(summary: Summary) -> str:
    what = "test task" if summary.best.test is not None else "selection task"
    arrow = f"{score(_shown(summary.initial))} → {score(_shown(summary.best))}"
    count = _count(summary)
    return f"{arrow} on {plural(count, what)}" if count else f"{arrow} on the {what}s"


def _shown(skill: FinalSkill) -> float | None:
    return skill.score if skill.test is None else skill.test.hard


def _count(summary: Summary) -> int:
    return 0 if summary.best.test is None else summary.best.test.n
