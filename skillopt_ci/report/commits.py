"""Commit messages: the subject says in words what changed, the trailers carry the facts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    DifferenceRecord,
    EditRecord,
    FinalSkill,
    HistoryEntry,
    Measurement,
    ProposalRecord,
    StepRecord,
    Summary,
    UsageRecord,
)
from skillopt_ci.report.text import usage_text
from skillopt_ci.report.words import (
    arithmetic,
    guidance_lines,
    notes_gist,
    notes_verdict,
    race_text,
    refusals,
    reminders,
    reservations,
    rewriting,
    stage_rows,
)
from skillopt_ci.sanitize import one_line
from skillopt_ci.stats import t_quantile
from skillopt_ci.text import plural, score, score_text

_SIMULATED = "The models were simulated: these scores say nothing about a real model."


def started(entry: HistoryEntry, skill: str, measurement: Measurement) -> CommitText:
    """The first commit of a run: the skill as it was found, measured."""
    return CommitText(
        subject=f"Start training {skill}: {score(measurement.score)} on "
        f"{plural(measurement.n, 'task')}",
        body=paragraphs(
            f"The skill as it stands scores {score_text(measurement.score, measurement.n)} on the "
            "selection tasks. From here on every training step is a commit: merged if it scored "
            "higher on the same tasks, reverted otherwise.",
            *reservations(measurement),
            simulated_note(entry.simulated),
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
        body=paragraphs(
            f"Reason: {entry.reason}. The current skill scores "
            f"{score_text(measurement.score, measurement.n)} on the selection tasks; the next "
            "candidates are compared with that.",
            *reservations(measurement),
            _changed(changes),
            simulated_note(entry.simulated),
        ),
        trailers=_entry_trailers(entry),
    )


def set_aside(entry: HistoryEntry, work: str) -> CommitText:
    """A candidate whose ground changed before it was judged; kept as a parent, not as content.

    ``work`` is what it was the candidate of.
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


def proposed(record: StepRecord) -> CommitText:
    """A step's candidate, before it is measured."""
    proposal = record.proposal
    return CommitText(
        subject=f"Step {record.step}: {headline(proposal)}",
        body=paragraphs(
            f"{_attempted(proposal)} the model scored {score(proposal.rollout.hard)} on "
            f"{plural(proposal.rollout.n, 'training task')}.",
            "\n".join(f"- {text}" for text in _changes(proposal)),
            "\n".join(f"- {text}" for text in reminders(proposal)),
            f"Why: {one_line(proposal.reasoning, 600)}" if proposal.reasoning else "",
            _guidance(record),
            refusals(proposal),
            _changed(record.changes),
            simulated_note(record.simulated),
        ),
        trailers=_step_trailers(record, "proposed", proposal.skill_after, {}),
    )


def merged(record: StepRecord, decision: Decision, seconds: float) -> CommitText:
    """The candidate scored higher and stays."""
    return CommitText(
        subject=f"Merge step {record.step} ({arrow(decision)}): {headline(record.proposal)}",
        body=_verdict(record, decision),
        trailers=_decision_trailers(record, decision, seconds),
    )


def reverted(record: StepRecord, decision: Decision, candidate: str, seconds: float) -> CommitText:
    """The candidate did not score higher: the skill is again what it was."""
    return CommitText(
        subject=f"Revert step {record.step} ({arrow(decision)}): {headline(record.proposal)}",
        body=paragraphs(f"This reverts commit {candidate}.", _verdict(record, decision)),
        trailers=_decision_trailers(record, decision, seconds),
    )


def unchanged(record: StepRecord, decision: Decision, seconds: float) -> CommitText:
    """A step without a candidate: nothing was proposed, or nothing that changes the text."""
    return CommitText(
        subject=f"Step {record.step}: {decision.reason}",
        body=_verdict(record, decision),
        trailers=_decision_trailers(record, decision, seconds),
    )


def headline(proposal: ProposalRecord) -> str:
    """What a step did to the document, in a few words of the model's own."""
    edits = gist(proposal.applied_edits) if proposal.applied_edits else ""
    body = edits if proposal.mode == "patch" else "; ".join(rewriting(proposal))
    return "; ".join(filter(None, (body, notes_gist(proposal)))) or "no change"


def gist(edits: Sequence[EditRecord]) -> str:
    """What the edits say, in a few words of the model's own."""
    return "; ".join(_gist_of(edit) for edit in edits) or "no change"


def edit_text(edit: EditRecord) -> str:
    """What an edit does, and on how much evidence, in one line."""
    content, target = _quoted(edit.content, 200), _quoted(edit.target, 100)
    words = {
        "append": f"add “{content}”",
        "insert_after": f"after “{target}” add “{content}”",
        "replace": f"replace “{target}” by “{content}”",
        "delete": f"drop “{target}”",
    }
    kind = "failed attempt" if edit.source_type == "failure" else "successful attempt"
    what = words.get(edit.op) or f"unknown operation “{one_line(edit.op, 40)}”"
    if edit.source_type == "attribution":
        return f"{what} (did harm, by all that was measured)"
    return f"{what} (seen in {plural(edit.support_count, kind)})"


def _changes(proposal: ProposalRecord) -> tuple[str, ...]:
    if proposal.mode == "patch":
        return tuple(edit_text(edit) for edit in proposal.applied_edits)
    return rewriting(proposal)


def _gist_of(edit: EditRecord) -> str:
    if edit.op == "delete":
        return f"drop “{_quoted(edit.target, 60)}”"
    return _quoted(edit.content, 60) or "empty text"


def _quoted(text: str, limit: int) -> str:
    """The words of a Markdown text, without what makes it a heading, list item or sentence."""
    return one_line(text.lstrip("#-*> \n"), limit).rstrip(" .")


def _verdict(record: StepRecord, decision: Decision) -> str:
    measurement = decision.measurement
    return paragraphs(
        f"Verdict: {decision.verdict}. {decision.reason[:1].upper()}{decision.reason[1:]}.",
        "" if measurement is None else flips(decision),
        arithmetic(decision),
        _raced(record.proposal),
        *reservations(measurement),
        _guidance(record),
        notes_verdict(record.proposal, decision),
        "" if record.proposal.changed else refusals(record.proposal),
        ""
        if decision.reused_from is None
        else f"Measured in step {decision.reused_from}, not again.",
        f"Used {usage_text(record.usage.usage())}.",
        _changed(record.changes),
        simulated_note(record.simulated),
    )


def _raced(proposal: ProposalRecord) -> str:
    return f"Race: {told}" if (told := race_text(proposal)) else ""


def flips(decision: Decision) -> str:
    """The selection tasks whose outcome changed."""
    return f"Fixed: {_names(decision.fixed)}. Broken: {_names(decision.broken)}."


def _attempted(proposal: ProposalRecord) -> str:
    return "One version earlier" if proposal.skill_attempted else "Before this change"


def _guidance(record: StepRecord) -> str:
    """What reviewers asked for, and what became of it."""
    lines = "\n".join(f"- {line}" for line in guidance_lines(record))
    return f"Reviewer guidance:\n\n{lines}" if lines else ""


def _names(tasks: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(one_line(task, 40) for task in tasks[:limit]) or "none"
    rest = len(tasks) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def arrow(decision: Decision) -> str:
    """The scores before and after, for a subject."""
    after = score(decision.score_after, estimated=decision.partial)
    return f"{score(decision.score_before)} → {after}"


def _entry_trailers(entry: HistoryEntry) -> dict[str, str]:
    return {
        "Skillopt-Step": str(entry.step),
        "Skillopt-Epoch": str(entry.epoch),
        "Skillopt-Action": entry.action,
        "Skillopt-Score-After": exact(entry.score_after),
        "Skillopt-Tasks": str(entry.tasks),
        "Skillopt-Skill-Sha256": entry.skill_sha256,
        "Skillopt-Config-Sha256": entry.config_sha256,
        **usage_trailers(entry.usage, entry.simulated),
    }


def _step_trailers(
    record: StepRecord, action: str, skill: str, scores: Mapping[str, str]
) -> dict[str, str]:
    return {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        "Skillopt-Action": action,
        **scores,
        "Skillopt-Edits": str(record.proposal.change_count),
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": record.proposal.config_sha256,
        **usage_trailers(record.usage, record.simulated),
    }


def _decision_trailers(record: StepRecord, decision: Decision, seconds: float) -> dict[str, str]:
    after = record.proposal.skill_after if decision.stays else record.proposal.skill_before
    scores = {
        "Skillopt-Score-Before": exact(decision.score_before),
        "Skillopt-Score-After": exact(decision.score_after),
        "Skillopt-Tasks": str(decision.compared),
    }
    facts = _step_trailers(record, decision.action, after, scores)
    return {**facts, "Skillopt-Seconds": f"{seconds:.1f}"}


def exact(value: float | None) -> str:
    """A score for programs: six digits, or ``none``."""
    return "none" if value is None else f"{value:.6g}"


def usage_trailers(usage: UsageRecord, simulated: bool) -> dict[str, str]:
    """What it took, and whether the models were real."""
    cost = usage.cost_usd
    facts = {
        "Skillopt-Tokens": str(usage.usage().tokens),
        "Skillopt-Cost-Usd": "unknown" if cost is None else f"{cost:.6f}",
    }
    return {**facts, "Skillopt-Simulated": "true"} if simulated else facts


def simulated_note(simulated: bool) -> str:
    """The warning that belongs to every simulated number."""
    return _SIMULATED if simulated else ""


def _changed(changes: Sequence[str]) -> str:
    listed = ", ".join(one_line(change, 120) for change in changes)
    return f"Changed since the last step: {listed}." if changes else ""


def paragraphs(*parts: str) -> str:
    """The parts that say something, with blank lines between them."""
    return "\n\n".join(part for part in parts if part)


# Commit messages of an epoch's end, and what they say in words.


def boundary_proposed(record: BoundaryRecord) -> CommitText:
    """The candidate of an epoch's end, before it is measured."""
    return CommitText(
        subject=f"End of epoch {record.epoch}: {record.gist}",
        body=paragraphs(*_evidence(record), simulated_note(record.simulated)),
        trailers=_boundary_trailers(record, "proposed", record.skill_after),
    )


def boundary_landed(record: BoundaryRecord, candidate: str | None, seconds: float) -> CommitText:
    """The end of an epoch with its verdict."""
    decision = record.decision
    if decision is None or candidate is None:
        return _plain(record, seconds)
    verb = "Merge" if decision.stays else "Revert"
    after = record.skill_after if decision.stays else record.skill_before
    return CommitText(
        subject=f"{verb} end of epoch {record.epoch} ({arrow(decision)}): {record.gist}",
        body=paragraphs(
            "" if decision.stays else f"This reverts commit {candidate}.",
            f"Verdict: {decision.action}. {decision.reason}",
            arithmetic(decision),
            *_evidence(record),
            f"Used {usage_text(record.usage.usage())}.",
            simulated_note(record.simulated),
        ),
        trailers={
            **_boundary_trailers(record, decision.action, after),
            **_score_trailers(decision),
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


def categories(record: BoundaryRecord) -> str:
    """How many of the compared tasks fell into each category."""
    counts = Counter(pair.category for pair in record.pairs)
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.most_common())


def _plain(record: BoundaryRecord, seconds: float) -> CommitText:
    return CommitText(
        subject=f"End of epoch {record.epoch}: {record.gist}",
        body=paragraphs(
            *_evidence(record),
            f"Used {usage_text(record.usage.usage())}.",
            simulated_note(record.simulated),
        ),
        trailers={
            **_boundary_trailers(record, record.action, record.skill_before),
            "Skillopt-Seconds": f"{seconds:.1f}",
        },
    )


def _evidence(record: BoundaryRecord) -> tuple[str, ...]:
    slow, meta = record.slow_update, record.meta_skill
    compared = (
        f"Compared on {plural(len(record.pairs), 'training task')}: {categories(record)}; "
        f"{score(record.previous_hard)} under the last epoch's skill, "
        f"{score(record.current_hard)} under this one's."
    )
    return (
        compared if record.pairs else "",
        f"Guidance: {one_line(slow.content, 600)}" if slow and slow.content else "",
        f"Why: {one_line(slow.reasoning, 600)}" if slow and slow.reasoning else "",
        f"Guidance refused: {one_line(slow.refused, 300)}" if slow and slow.refused else "",
        f"For the optimizer: {one_line(meta.content, 600)}" if meta and meta.content else "",
        f"Notes refused: {one_line(meta.refused, 300)}" if meta and meta.refused else "",
    )


def _boundary_trailers(record: BoundaryRecord, action: str, skill: str) -> dict[str, str]:
    return {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        "Skillopt-Epoch-End": "true",
        "Skillopt-Action": action,
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": record.config_sha256,
        **usage_trailers(record.usage, record.simulated),
    }


def _score_trailers(decision: Decision) -> dict[str, str]:
    return {
        "Skillopt-Score-Before": exact(decision.score_before),
        "Skillopt-Score-After": exact(decision.score_after),
        "Skillopt-Tasks": str(decision.compared),
    }


# The commit of notes that stay although the edits of their step were reverted.


def noted(record: StepRecord, decision: Decision, entry: HistoryEntry) -> CommitText:
    """Its message; ``decision`` is the one on the notes alone."""
    return CommitText(
        subject=f"Step {record.step} ({arrow(decision)}): {notes_gist(record.proposal)}",
        body=paragraphs(
            f"The edits of step {record.step} did not stay, its reminders do. "
            f"{decision.reason[:1].upper()}{decision.reason[1:]}.",
            "\n".join(f"- {text}" for text in reminders(record.proposal)),
            flips(decision),
            simulated_note(record.simulated),
        ),
        trailers=_noted_trailers(entry),
    )


def _noted_trailers(entry: HistoryEntry) -> dict[str, str]:
    """The facts; what the step consumed is counted in the verdict on its edits."""
    return {
        "Skillopt-Step": str(entry.step),
        "Skillopt-Epoch": str(entry.epoch),
        "Skillopt-Action": entry.action,
        "Skillopt-Score-Before": exact(entry.score_before),
        "Skillopt-Score-After": exact(entry.score_after),
        "Skillopt-Tasks": str(entry.tasks),
        "Skillopt-Skill-Sha256": entry.skill_sha256,
        "Skillopt-Config-Sha256": entry.config_sha256,
        **({"Skillopt-Simulated": "true"} if entry.simulated else {}),
    }


# Commit message and rows of the end of a run.

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
