"""Commit messages: the subject says in words what changed, the trailers carry the facts."""

from collections.abc import Iterator, Mapping, Sequence

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    DifferenceRecord,
    EpochSummary,
    FinalSkill,
    HistoryEntry,
    Measurement,
    StepRecord,
    Summary,
)
from skillopt_ci.report.words import (
    account_rows,
    arithmetic,
    arrow,
    categories,
    edit_text,
    headline,
    note_outcomes,
    notes_gist,
    notes_verdict,
    race_text,
    refusal_lines,
    reminders,
    reservations,
    rewriting,
    usage_text,
)
from skillopt_ci.sanitize import one_line
from skillopt_ci.stats import t_quantile
from skillopt_ci.text import plural, score, score_text
from skillopt_ci.training.state import Event

_SIMULATED = "The models were simulated: these scores say nothing about a real model."
_MOST_NAMES = 12


def started(entry: HistoryEntry, skill: str, measurement: Measurement) -> CommitText:
    """The first commit of a run: the skill as it was found, measured."""
    return CommitText(
        subject=f"Start training {skill}: {score(measurement.score)} on "
        f"{plural(measurement.n, 'task')}",
        body=_paragraphs(
            f"The skill as it stands scores {score_text(measurement.score, measurement.n)} on the "
            "selection tasks. From here on every training step is a commit: merged if it scored "
            "higher on the same tasks, reverted otherwise.",
            *reservations(measurement),
            _simulated(entry),
        ),
        trailers=_entry_trailers(entry),
    )


def measured(
    entry: HistoryEntry, measurement: Measurement, changes: Sequence[str] = ()
) -> CommitText:
    """The skill, the tasks or the configuration changed under way; scores start afresh."""
    return CommitText(
        subject=f"Measure again: {score(measurement.score)} on {plural(measurement.n, 'task')}, "
        f"{entry.reason}",
        body=_paragraphs(
            f"Reason: {entry.reason}. The current skill scores "
            f"{score_text(measurement.score, measurement.n)} on the selection tasks; the next "
            "candidates are compared with that.",
            *reservations(measurement),
            _changed(changes),
            _simulated(entry),
        ),
        trailers=_entry_trailers(entry),
    )


def set_aside(entry: HistoryEntry, work: str) -> CommitText:
    """A candidate of ``work`` that became outdated before the gate decided on it.

    The commit keeps it as a parent, not as content.
    """
    return CommitText(
        subject=f"Set aside the candidate of {work}: {entry.reason}",
        body="The candidate stays reachable as this commit's second parent. "
        "The work is done again from the skill as it is now.",
        trailers=_entry_trailers(entry),
    )


def took_in_base(base: str, skill: str) -> CommitText:
    """The base branch changed the skill or the run's folder."""
    return CommitText(
        subject=f"Take in {base}: {skill} changed there",
        body=f"Merged without conflict, so that this branch can still be merged into {base}.",
        trailers={"Skillopt-Action": "take_in_base"},
    )


# A step.


def proposed(record: StepRecord) -> CommitText:
    """A step's candidate, before it is measured."""
    proposal = record.proposal
    when = "One version earlier" if proposal.skill_attempted else "Before this change"
    if proposal.mode == "patch":
        changes = tuple(map(edit_text, proposal.applied_edits))
    else:
        changes = rewriting(proposal)
    return CommitText(
        subject=f"Step {record.step}: {headline(proposal)}",
        body=_paragraphs(
            f"{when} the model scored {score(proposal.rollout.hard)} on "
            f"{plural(proposal.rollout.n, 'training task')}.",
            _list("", changes),
            _list("", reminders(proposal)),
            f"Why: {one_line(proposal.reasoning, 600)}" if proposal.reasoning else "",
            _guidance(record),
            _list("Refused by the guard:", refusal_lines(proposal)),
            _changed(record.changes),
            _simulated(record),
        ),
        trailers=_step_trailers(record, "proposed", proposal.skill_after, {}),
    )


def noted(record: StepRecord, decision: Decision, entry: HistoryEntry) -> CommitText:
    """Reminders that stay although the edits of their step were reverted.

    ``decision`` is the one on the reminders alone. What the step consumed is in the verdict on its
    edits.
    """
    return CommitText(
        subject=f"Step {record.step} ({arrow(decision)}): {notes_gist(record.proposal)}",
        body=_paragraphs(
            f"The edits of step {record.step} did not stay, its reminders do. "
            f"{_sentence(decision.reason)}",
            _list("", reminders(record.proposal)),
            _flips(decision),
            _simulated(record),
        ),
        trailers=_trailers(
            entry,
            {
                "Skillopt-Action": entry.action,
                **_scores(entry.score_before, entry.score_after, entry.tasks),
            },
            entry.skill_sha256,
            entry.config_sha256,
            used=False,
        ),
    )


def decided(
    record: StepRecord, decision: Decision, candidate: str | None, seconds: float
) -> CommitText:
    """What became of a step: its ``candidate`` (None: there was none) is merged or reverted."""
    proposal, raced = record.proposal, race_text(record.proposal)
    did = "Merge" if decision.stays else "Revert"
    subject = f"{did} step {record.step} ({arrow(decision)}): {headline(proposal)}"
    if candidate is None:
        subject = f"Step {record.step}: {decision.reason}"
    return CommitText(
        subject=subject,
        body=_paragraphs(
            "" if candidate is None or decision.stays else f"This reverts commit {candidate}.",
            f"Verdict: {decision.verdict}. {_sentence(decision.reason)}",
            "" if decision.measurement is None else _flips(decision),
            arithmetic(decision),
            f"Race: {raced}" if raced else "",
            *reservations(decision.measurement),
            _guidance(record),
            notes_verdict(proposal, decision),
            "" if proposal.changed else _list("Refused by the guard:", refusal_lines(proposal)),
            ""
            if decision.reused_from is None
            else f"Measured in step {decision.reused_from}, not again.",
            f"Used {usage_text(record.usage.usage())}.",
            _changed(record.changes),
            _simulated(record),
        ),
        trailers={
            **_step_trailers(
                record,
                decision.action,
                proposal.skill_after if decision.stays else proposal.skill_before,
                _scores(decision.score_before, decision.score_after, decision.compared),
            ),
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


# The end of an epoch.


def boundary_proposed(record: BoundaryRecord) -> CommitText:
    """The candidate of an epoch's end, before it is measured."""
    return CommitText(
        subject=f"End of epoch {record.epoch}: {record.gist}",
        body=_paragraphs(*_evidence(record), _simulated(record)),
        trailers=_boundary_trailers(record, "proposed", record.skill_after),
    )


def boundary_landed(record: BoundaryRecord, candidate: str | None, seconds: float) -> CommitText:
    """The end of an epoch with its verdict; with ``candidate`` None there was none to judge."""
    decision = None if candidate is None else record.decision
    subject, stays = f"End of epoch {record.epoch}: {record.gist}", False
    verdict: tuple[str, ...] = ()
    scores: dict[str, str] = {}
    if decision is not None:
        stays = decision.stays
        subject = (
            f"{'Merge' if stays else 'Revert'} end of epoch {record.epoch} ({arrow(decision)}): "
            f"{record.gist}"
        )
        verdict = (
            "" if stays else f"This reverts commit {candidate}.",
            f"Verdict: {decision.action}. {decision.reason}",
            arithmetic(decision),
        )
        scores = _scores(decision.score_before, decision.score_after, decision.compared)
    return CommitText(
        subject=subject,
        body=_paragraphs(
            *verdict,
            *_evidence(record),
            f"Used {usage_text(record.usage.usage())}.",
            _simulated(record),
        ),
        trailers={
            **_boundary_trailers(
                record, record.action, record.skill_after if stays else record.skill_before
            ),
            **scores,
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


def _evidence(record: BoundaryRecord) -> Iterator[str]:
    slow, meta = record.slow_update, record.meta_skill
    if record.pairs:
        yield (
            f"Compared on {plural(len(record.pairs), 'training task')}: {categories(record)}; "
            f"{score(record.previous_hard)} under the last epoch's skill, "
            f"{score(record.current_hard)} under this one's."
        )
    if slow is not None:
        yield f"Guidance: {one_line(slow.content, 600)}" if slow.content else ""
        yield f"Why: {one_line(slow.reasoning, 600)}" if slow.reasoning else ""
        yield f"Guidance refused: {one_line(slow.refused, 300)}" if slow.refused else ""
    if meta is not None:
        yield f"For the optimizer: {one_line(meta.content, 600)}" if meta.content else ""
        yield f"Notes refused: {one_line(meta.refused, 300)}" if meta.refused else ""


# The end of a run.


def finished(entry: HistoryEntry, summary: Summary, seconds: float) -> CommitText:
    """The commit that ends a run; ``seconds`` is the time that all of the run took."""
    initial, best = (
        one.score if one.test is None else one.test.hard for one in (summary.initial, summary.best)
    )
    tasks = 0 if summary.best.test is None else summary.best.test.n
    what = "selection task" if summary.best.test is None else "test task"
    on = plural(tasks, what) if tasks else f"the {what}s"
    rows = summary_rows(summary, seconds)
    indented = ((label[: -len(label.lstrip())], label.lstrip(), told) for label, told in rows)
    return CommitText(
        subject=f"Finish training: {score(initial)} → {score(best)} on {on}",
        body=_paragraphs(
            "\n".join(f"{indent}- {label}: {told}" for indent, label, told in indented),
            _simulated(entry),
        ),
        trailers=_trailers(
            entry,
            {"Skillopt-Action": entry.action, **_scores(initial, best, tasks)},
            entry.skill_sha256,
            entry.config_sha256,
        ),
    )


def summary_rows(summary: Summary, seconds: float) -> tuple[tuple[str, str], ...]:
    """A run at a glance; ``seconds`` is the time that all of it took."""
    return (
        ("steps", f"{summary.step} of {summary.total_steps}"),
        *_skill_rows(summary),
        *((f"epoch {one.epoch}", _epoch(one)) for one in summary.epochs),
        ("used", f"{usage_text(summary.usage.usage())}, {seconds:.1f} s"),
        *account_rows(summary.accounts, summary.usage, summary.stages),
    )


def _skill_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    same = summary.last.sha256 == summary.best.sha256
    yield "initial", _final_scores(summary.initial)
    yield "best", _final_scores(summary.best)
    yield "last", "the same text as the best" if same else _final_scores(summary.last)
    if summary.best_gain is not None:
        yield "best − initial", _gain(summary.best_gain)
    if summary.last_gain is not None and not same:
        yield "last − initial", _gain(summary.last_gain)
    if len(summary.best.by_type) > 1:
        for kind, found in sorted(summary.best.by_type.items()):
            yield f"  {kind}", f"best: {score_text(found.hard, found.n)}"


def _epoch(one: EpochSummary) -> str:
    steps = f"{one.accepts} merged, {one.rejects} reverted, {one.skips} without a proposal"
    scores = f"best {score(one.best_score)}, current {score(one.current_score)}"
    return f"{plural(one.steps, 'step')}: {steps}; {scores}"


def _final_scores(skill: FinalSkill) -> str:
    tested = "" if skill.test is None else f"test {score_text(skill.test.hard, skill.test.n)}, "
    return f"{tested}selection {score(skill.score)} ({skill.origin})"


def _gain(gain: DifferenceRecord) -> str:
    error = gain.standard_error
    spread = "" if error is None else f" ± {t_quantile(0.95, gain.n - 1) * error:.3f}"
    return (
        f"{gain.mean:+.3f}{spread} on {plural(gain.n, 'test task')}, "
        f"{len(gain.fixed)} fixed, {len(gain.broken)} broken"
    )


# Parts of messages.


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _list(heading: str, lines: Iterator[str] | Sequence[str]) -> str:
    items = "\n".join(f"- {line}" for line in lines)
    return f"{heading}\n\n{items}" if heading and items else items


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _flips(decision: Decision) -> str:
    return f"Fixed: {_names(decision.fixed)}. Broken: {_names(decision.broken)}."


def _names(tasks: Sequence[str]) -> str:
    shown = ", ".join(one_line(task, 40) for task in tasks[:_MOST_NAMES]) or "none"
    rest = len(tasks) - _MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def _guidance(record: StepRecord) -> str:
    """Who asked for what, and what became of it."""
    return _list(
        "Reviewer guidance:",
        [
            f"{one_line(one.note.author, 60)} ({one.note.id}): “{one_line(one.note.text, 200)}” "
            f"({one.fate})"
            for one in note_outcomes(record)
        ],
    )


def _changed(changes: Sequence[str]) -> str:
    listed = ", ".join(one_line(change, 120) for change in changes)
    return f"Changed since the last step: {listed}." if changes else ""


def _simulated(record: HistoryEntry | StepRecord | BoundaryRecord) -> str:
    return _SIMULATED if record.simulated else ""


def _trailers(
    record: HistoryEntry | StepRecord | BoundaryRecord,
    facts: Mapping[str, str],
    skill: str,
    config: str,
    *,
    used: bool = True,
) -> dict[str, str]:
    cost = record.usage.cost_usd
    usage = {
        "Skillopt-Tokens": str(record.usage.usage().tokens),
        "Skillopt-Cost-Usd": "unknown" if cost is None else f"{cost:.6f}",
    }
    return {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        **facts,
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": config,
        **(usage if used else {}),
        **({"Skillopt-Simulated": "true"} if record.simulated else {}),
    }


def _entry_trailers(entry: HistoryEntry) -> dict[str, str]:
    facts = {
        "Skillopt-Action": entry.action,
        "Skillopt-Score-After": _exact(entry.score_after),
        "Skillopt-Tasks": str(entry.tasks),
    }
    return _trailers(entry, facts, entry.skill_sha256, entry.config_sha256)


def _step_trailers(
    record: StepRecord, action: str, skill: str, scores: Mapping[str, str]
) -> dict[str, str]:
    edits = {"Skillopt-Edits": str(record.proposal.change_count)}
    facts = {"Skillopt-Action": action, **scores, **edits}
    return _trailers(record, facts, skill, record.proposal.config_sha256)


def _boundary_trailers(record: BoundaryRecord, action: str, skill: str) -> dict[str, str]:
    facts = {"Skillopt-Epoch-End": "true", "Skillopt-Action": action}
    return _trailers(record, facts, skill, record.config_sha256)


def _scores(before: float | None, after: float | None, tasks: int) -> dict[str, str]:
    return {
        "Skillopt-Score-Before": _exact(before),
        "Skillopt-Score-After": _exact(after),
        "Skillopt-Tasks": str(tasks),
    }


def _exact(value: float | None) -> str:
    """A score for programs: six digits, or ``none``."""
    return "none" if value is None else f"{value:.6g}"


class CommitWords:
    """The words of every commit, see :class:`~skillopt_ci.training.run_context.Render`."""

    def event(
        self, event: Event, entry: HistoryEntry, summary: Summary | None, candidate: str | None
    ) -> CommitText:
        record, current = event.record, event.state.current.measurement
        match entry.kind:
            case "start":
                return started(entry, event.state.skill, current)
            case "measure":
                return measured(entry, current, event.changes)
            case "set_aside":
                return set_aside(entry, event.work)
        if summary is not None:
            return finished(entry, summary, event.seconds)
        if isinstance(record, BoundaryRecord):
            return boundary_landed(record, candidate, event.seconds)
        assert record is not None and record.decision is not None  # noqa: S101, PT018
        decision = record.decision
        if entry.kind == "notes":
            return noted(record, decision.notes or decision, entry)
        return decided(record, decision, candidate, event.seconds)

    def candidate(self, record: StepRecord | BoundaryRecord) -> CommitText:
        return proposed(record) if isinstance(record, StepRecord) else boundary_proposed(record)

    def base(self, base: str, skill: str) -> CommitText:
        return took_in_base(base, skill)
