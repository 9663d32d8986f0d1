"""All of one step, for `show`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from skillopt_ci.estimate.estimate import Estimate as estimate_Estimate
from skillopt_ci.estimate.estimate import Part, Spread
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    EditRecord,
    HistoryEntry,
    MetaSkillRecord,
    ProposalRecord,
    SlowUpdateRecord,
    Snapshot,
    State,
    StepRecord,
)
from skillopt_ci.report.commits import categories, edit_text, gist
from skillopt_ci.report.text import usage_text
from skillopt_ci.report.words import (
    account_json,
    account_rows,
    after_text,
    arithmetic,
    follows,
    notes_gist,
    refusal_lines,
    reminders,
    reservations,
    rewriting,
    stage_rows,
    suggestion_rows,
    training_score,
    with_pessimistic,
)
from skillopt_ci.rollout.events import AttemptTrace
from skillopt_ci.rollout.metrics import Estimate, Summary
from skillopt_ci.stats import Interval
from skillopt_ci.text import cost_text, names_text, plural, score, score_text

#: How the edits were chosen, where there were more than the budget allows.
_CHOICE = {"ranked": ", ranked by the optimizer", "truncated": ", the first ones taken"}


def step_rows_in_full(record: StepRecord) -> tuple[tuple[str, str], ...]:
    """The facts of a step, label and value."""
    proposal, decision = record.proposal, record.decision
    rollout = proposal.rollout
    return (
        ("training tasks", training_score(proposal)),
        ("failed", names_text([task.id for task in rollout.tasks if task.failed])),
        *_unmeasured([task.id for task in rollout.tasks if not task.status.measured]),
        *(("pattern", f"{one.description} (×{one.count})") for one in proposal.patterns),
        ("proposals", _proposals(proposal)),
        *_rate_rows(proposal),
        ("reasoning", proposal.reasoning or "–"),
        *_step_page_edit_rows(proposal),
        *(_step_page_decision_rows(decision) if decision else (("verdict", "in flight"),)),
        ("used", usage_text(record.usage.usage())),
        *stage_rows(record.accounts, record.usage, proposal.usage),
    )


def _step_page_edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    for number, edit in enumerate(proposal.edits, start=1):
        yield f"edit {number}", f"{_fate(edit)}: {edit_text(edit)}"
        if wishes := follows(edit, proposal):
            yield "", wishes
    yield from suggestion_rows(proposal)
    yield from (("change", words) for words in proposal.change_summary)
    yield from (("refused", f"a proposal, because {reason}") for reason in proposal.screened)
    if proposal.refused:
        yield "refused", f"the new document, because {proposal.refused}"
    yield from (("note", words) for words in reminders(proposal))
    for refused in proposal.notes.refused if proposal.notes else ():
        yield "note", f"refused because {refused.reason}: {refused.note}"


def _fate(edit: EditRecord) -> str:
    if edit.reason:
        return f"refused because {edit.reason}"
    return "applied" if edit.applied else edit.status.replace("_", " ")


def _proposals(proposal: ProposalRecord) -> str:
    return (
        f"{proposal.n_failure_patches} from failures, {proposal.n_success_patches} from "
        f"successes; {plural(proposal.n_edits_merged, 'proposal')} after merging, "
        f"{_limit(proposal)}{_CHOICE.get(proposal.selection, '')}"
    )


def _limit(proposal: ProposalRecord) -> str:
    if proposal.edit_budget is None:
        return "no limit"
    chosen = ", chosen by the optimizer" if proposal.learning_rate else ""
    return f"at most {proposal.edit_budget} to apply{chosen}"


def _rate_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    rate = proposal.learning_rate
    if rate is not None:
        sure = f", {rate.confidence} confidence" if rate.confidence else ""
        yield "step size", f"{rate.learning_rate} of {rate.available}{sure}: {rate.reasoning}"
        yield from (("risk", risk) for risk in rate.risk_notes)


def _step_page_decision_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    yield "verdict", decision.verdict
    yield "because", decision.reason
    yield "before", score(decision.score_before)
    yield "after", after_text(decision)
    if told := arithmetic(decision):
        yield "arithmetic", told
    if decision.reused_from is not None:
        yield "measured in", f"step {decision.reused_from}: the text was the same"
    if measured is not None:
        yield "fixed", names_text(decision.fixed)
        yield "broken", names_text(decision.broken)
        yield from _unmeasured(measured.errors)
        yield from (("beware", sentence) for sentence in reservations(measured))
    if (alone := decision.notes) is not None:
        yield "notes alone", f"{alone.verdict}: {alone.reason}"


def _unmeasured(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if names:
        yield "not measured", names_text(names)


# A step at a glance: label and value, in the order in which a reader asks.


def step_rows(
    record: StepRecord, decision: Decision, state: State, seconds: float
) -> tuple[tuple[str, str], ...]:
    """What a step did, as rows of a table; a row without a label goes on with the one above."""
    proposal = record.proposal
    return (
        ("verdict", decision.verdict),
        ("because", decision.reason),
        ("training tasks", training_score(proposal) + _errors(proposal.rollout.errors)),
        *_step_table_edit_rows(proposal),
        *_selection_rows(decision),
        ("best so far", _best(state)),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def _step_table_edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    merged = plural(proposal.n_edits_merged, "proposal")
    taken = f"{proposal.change_count} of {merged}"
    yield "edits", taken if proposal.n_edits_merged else "none proposed"
    for edit in proposal.applied_edits:
        yield "", gist((edit,))
    if proposal.mode != "patch":
        yield from (("", words) for words in rewriting(proposal))
    yield from (("refused", words) for words in refusal_lines(proposal))
    if gist_of_notes := notes_gist(proposal):
        yield "notes", gist_of_notes


def _selection_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    if measured is None:
        yield "selection", "not measured"
        return
    after = after_text(decision)
    reused = "" if decision.reused_from is None else f", measured in step {decision.reused_from}"
    yield (
        "selection",
        f"{score(decision.score_before)} → {after}{_errors(len(measured.errors))}{reused}",
    )
    if told := arithmetic(decision):
        yield "arithmetic", told
    yield from (("beware", sentence) for sentence in reservations(measured))
    yield "flips", f"{len(decision.fixed)} fixed, {len(decision.broken)} broken"
    if (alone := decision.notes) is not None:
        fate = "kept" if alone.stays else "dropped"
        yield "notes alone", f"{fate}, {score(alone.score_before)} → {score(alone.score_after)}"


def _best(state: State) -> str:
    return f"{score(state.best.measurement.score)} ({state.best.origin})"


def _errors(count: int) -> str:
    return f", {plural(count, 'error')}" if count else ""


# An epoch's end as rows of a table: at a glance, and all of it.

_Rows = Iterator[tuple[str, str]]


def boundary_title(record: BoundaryRecord) -> str:
    """What the table is about."""
    note = " (simulated models)" if record.simulated else ""
    return f"End of epoch {record.epoch}, after step {record.step}{note}"


def boundary_verdict(record: BoundaryRecord) -> str:
    """Whether the skill changed, in a word or two."""
    if record.decision is None:
        return "in flight" if record.changed else "nothing changed"
    return record.decision.verdict


def boundary_rows(record: BoundaryRecord, seconds: float) -> tuple[tuple[str, str], ...]:
    """An epoch's end at a glance."""
    return (
        ("verdict", boundary_verdict(record)),
        ("because", record.reason),
        ("compared", _compared(record)),
        ("did", record.gist),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def boundary_rows_in_full(record: BoundaryRecord) -> tuple[tuple[str, str], ...]:
    """All of an epoch's end, for `show`."""
    return (
        ("verdict", boundary_verdict(record)),
        ("because", record.reason),
        *(_boundary_page_decision_rows(record.decision) if record.decision else ()),
        ("compared", _compared(record)),
        *_pair_rows(record),
        *(_slow_rows(record.slow_update) if record.slow_update else ()),
        *(_meta_rows(record.meta_skill) if record.meta_skill else ()),
        ("used", usage_text(record.usage.usage())),
        *stage_rows(record.accounts, record.usage, record.stages),
    )


def _compared(record: BoundaryRecord) -> str:
    if not record.pairs:
        return "nothing to compare"
    change = f"{score(record.previous_hard)} → {score(record.current_hard)}"
    return f"{change} on {len(record.pairs)} training tasks: {categories(record)}"


def _pair_rows(record: BoundaryRecord) -> _Rows:
    for category in dict.fromkeys(pair.category for pair in record.pairs):
        ids = [pair.id for pair in record.pairs if pair.category == category]
        yield f"  {category.replace('_', ' ')}", names_text(ids)


def _boundary_page_decision_rows(decision: Decision) -> _Rows:
    yield "before", score(decision.score_before)
    measured = decision.measurement
    if measured is not None:
        yield "after", after_text(decision)
        yield from (("arithmetic", told) for told in [arithmetic(decision)] if told)
        yield "fixed", names_text(decision.fixed)
        yield "broken", names_text(decision.broken)


def _slow_rows(slow: SlowUpdateRecord) -> _Rows:
    yield "old guidance", slow.previous_content or "–"
    yield "guidance", slow.content or "–"
    yield from _words(slow)


def _meta_rows(meta: MetaSkillRecord) -> _Rows:
    yield "meta skill", meta.content or "–"
    yield from _words(meta)


def _words(part: SlowUpdateRecord | MetaSkillRecord) -> _Rows:
    if part.refused:
        yield "refused", part.refused
    if part.reasoning:
        yield "reasoning", part.reasoning


# Where training stands.


def status_rows(
    state: State,
    history: Sequence[HistoryEntry],
    commit: str,
    coming: Iterable[tuple[str, str]] = (),
) -> tuple[tuple[str, str], ...]:
    """The run at a glance; ``coming`` are rows about what is under way and what comes next."""
    first = _first(history)
    return (
        ("skill", state.skill),
        ("branch at", commit[:10]),
        ("last step", f"{state.step} (epoch {state.epoch})" if state.step else "none yet"),
        ("steps", _counts(tally(history))),
        *_epoch_ends(state),
        *coming,
        ("started at", "–" if first is None else score_text(first.score_after or 0.0, first.tasks)),
        ("current", _snapshot(state.current)),
        ("best", _snapshot(state.best)),
        ("used", usage_text(state.usage.usage())),
        *account_rows(state.accounts, state.usage),
    )


def status_json(
    state: State,
    history: Sequence[HistoryEntry],
    commit: str,
    coming: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, object]:
    """The same as one object, with ``coming`` at its end."""
    first, usage = _first(history), state.usage.usage()
    return {
        "run": state.run,
        "skill": state.skill,
        "commit": commit,
        "step": state.step,
        "epoch": state.epoch,
        "epoch_end": state.boundary,
        "score_initial": None if first is None else first.score_after,
        "score_current": state.current.measurement.score,
        "score_best": state.best.measurement.score,
        "best_step": state.best.step,
        "tasks": state.current.measurement.n,
        **tally(history),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "accounts": account_json(state.accounts),
        "simulated": state.simulated,
        **coming,
    }


def tally(history: Sequence[HistoryEntry]) -> dict[str, int]:
    """How many steps were merged, reverted, or had no candidate."""
    steps = [entry for entry in history if entry.kind == "step"]
    merged = sum("accept" in entry.action for entry in steps)
    empty = sum(entry.score_after is None for entry in steps)
    return {"merged": merged, "reverted": len(steps) - merged - empty, "empty": empty}


def _epoch_ends(state: State) -> tuple[tuple[str, str], ...]:
    """Nothing for a run without slow update and meta skill."""
    if not state.boundary:
        return ()
    return (("last epoch end", f"epoch {state.boundary}"),)


def _counts(counts: Mapping[str, int]) -> str:
    empty = f", {counts['empty']} without a candidate" if counts["empty"] else ""
    return f"{counts['merged']} merged, {counts['reverted']} reverted{empty}"


def _snapshot(snapshot: Snapshot) -> str:
    measured = snapshot.measurement
    text = with_pessimistic(score_text(measured.score, measured.n), measured)
    return f"{text} ({snapshot.origin})"


def _first(history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    return next((entry for entry in history if entry.kind == "start"), None)


# The training log as a table: one row per event.

LOG_HEADINGS = ("step", "epoch", "before", "after", "best", "edits", "words", "verdict")


def log_row(entry: HistoryEntry) -> tuple[str, ...]:
    """The row of one event."""
    step = str(entry.step) if entry.kind == "step" else "–"
    return (
        step,
        str(entry.epoch),
        score(entry.score_before),
        score(entry.score_after, estimated=entry.planned > 0),
        score(entry.best_score),
        str(entry.edits) if entry.kind == "step" else "–",
        str(entry.words),
        _what(entry),
    )


def _what(entry: HistoryEntry) -> str:
    if entry.kind == "step":
        return entry.verdict
    if entry.kind == "notes":
        return f"notes of step {entry.step} kept"
    if entry.kind == "slow_update":
        return f"end of epoch: {_training_log_outcome(entry)}"
    return f"{entry.action.replace('_', ' ')}: {entry.reason}"


def _training_log_outcome(entry: HistoryEntry) -> str:
    if entry.score_after is None:
        return entry.reason
    # a placeholder, or guidance that is not gated: that no gate stood in its way says nothing
    return "merged" if entry.action == "force_accept" else entry.verdict


# The course of an attempt as text for a terminal.

#: A longer text is shown with its head and tail, unless all of it is asked for.
SHORT = 2_000


def course_lines(course: AttemptTrace, *, whole: bool = False) -> Iterator[tuple[str, str]]:
    """Headings and texts, in order: who did what. ``whole`` leaves nothing out."""
    yield "attempt", _head(course)
    for event in course.events:
        for heading, text in _told(event):
            yield heading, text if whole else shortened(text, SHORT)
    if course.end is None:
        yield "unfinished", "the record ends here"


def _head(course: AttemptTrace) -> str:
    return (
        f"task {course.task}, attempt {course.attempt}, stage {course.stage}, "
        f"solver {course.solver}, skill {course.skill_sha256[:12]}"
    )


def _told(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _step(event)
    match event.get("type"):
        case "try_failed":
            yield f"try {int(event.get('retry', 0)) + 1} failed", str(event.get("reason", ""))
        case "work_ended":
            yield "result", _result(event)
        case "attempt_ended":
            yield "outcome", _course_text_outcome(event)


def _step(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    match event.get("type"):
        case "asked":
            for message in event.get("messages", ()):
                yield str(message.get("role")), str(message.get("content"))
        case "model_said":
            yield "model", _said(event.get("message", {}))
        case "tool_used":
            status = event.get("exit_code")
            ended = "" if status is None else f" (exit status {status})"
            name = event.get("call", {}).get("name", "tool")
            yield f"{name}{ended}", str(event.get("output", ""))
        case "nudged":
            yield "nudge", str(event.get("text", ""))
        case "told":
            yield str(event.get("kind", "told")), str(event.get("text", ""))
        case "step_graded":
            found = event.get("score", {})
            yield "score so far", f"{score(found.get('soft'))}: {found.get('reason', '')}"


def _said(message: Mapping[str, Any]) -> str:
    calls = (f"→ {one.get('name')} {one.get('arguments')}" for one in message.get("tool_calls", ()))
    return "\n".join(filter(None, (str(message.get("content") or ""), *calls)))


def _result(event: Mapping[str, Any]) -> str:
    response = event.get("response")
    parts = ["as said last" if response is None else str(response)]
    if event.get("limit"):
        parts.append(f"[cut off by the limit of {event['limit']}]")
    if event.get("artifact_bytes"):
        parts.append(f"[left {plural(int(event['artifact_bytes']), 'byte')} of files behind]")
    if event.get("stored"):
        parts.append("[made before, taken from the store]")
    return "\n".join(parts)


def _course_text_outcome(event: Mapping[str, Any]) -> str:
    cost = event.get("cost_usd")
    used = f"{plural(int(event.get('calls') or 0), 'call')}, " + plural(
        int(event.get("tokens") or 0), "token"
    )
    priced = "" if not cost else f", ${cost:.4f}"
    return (
        f"{event.get('status')}: solved {score(event.get('hard'))}, partial credit "
        f"{score(event.get('soft'))}. {event.get('reason', '')} ({used}{priced})"
    )


def shortened(text: str, limit: int) -> str:
    """``text``, or about ``limit`` characters of it: its head and its tail."""
    if len(text) <= limit:
        return text
    left_out, half = len(text) - limit, limit // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


# What attempts amount to, as people and as programs read it: pure text and plain values.


def estimate_text(found: Estimate) -> str:
    """A mean with its 95 % interval: ``0.625 [0.47, 0.76] n=40``."""
    if found.mean is None:
        return "– n=0"
    interval = found.interval
    within = "" if interval is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
    clusters = "" if found.clusters is None else f" in {plural(found.clusters, 'cluster')}"
    return f"{found.mean:.3f}{within} n={found.n}{clusters}"


def remarks(summary: Summary, *, all_of_them: bool = False) -> Iterator[str]:
    """What is to be said besides the means, a sentence a line; the usual only on demand."""
    lost = summary.attempts - summary.measured
    if not summary.complete:
        yield (
            f"incomplete: {plural(lost, 'attempt')} of {summary.attempts} not measured, and left "
            f"out; counted as failures: {_share(summary.pessimistic_hard)} "
            f"(soft {_share(summary.pessimistic_soft)})"
        )
    for row in summary.errors:
        yield f"  {row.count} × {row.status}: {row.reason}"
    if summary.missing:
        yield f"never measured: {', '.join(summary.missing)}"
    for one in summary.limits:
        of_unsolved = "" if one.of_unsolved is None else f", {one.of_unsolved:.0%} of the unsolved"
        yield f"ended by the limit of {one.limit}: {one.of_all:.0%}{of_unsolved}"
    if summary.pass_at:
        yield f"solved at least once (pass@k): {_by_k(summary.pass_at)}"
        yield f"solved every time (pass^k): {_by_k(summary.pass_hat)}"
    if all_of_them and summary.lengths is not None:
        low, middle, high = summary.lengths.low, summary.lengths.median, summary.lengths.high
        yield f"messages in a conversation: {low:g}, {middle:g}, {high:g} (quartiles)"


def as_values(summary: Summary) -> dict[str, object]:
    """The summary as JSON."""
    lengths = summary.lengths
    return {
        "attempts": summary.attempts,
        "measured": summary.measured,
        "solved": summary.solved,
        "complete": summary.complete,
        "hard_estimate": estimate_values(summary.hard),
        "soft_estimate": estimate_values(summary.soft),
        "pessimistic": {"hard": summary.pessimistic_hard, "soft": summary.pessimistic_soft},
        "missing": list(summary.missing),
        "error_table": [
            {"status": row.status.value, "reason": row.reason, "count": row.count}
            for row in summary.errors
        ],
        "by_type": {
            bucket.task_type: {
                "hard": bucket.hard.mean,
                "tasks": bucket.hard.n,
                "soft": bucket.soft.mean,
                "interval": interval_values(bucket.hard.interval),
            }
            for bucket in summary.by_type
        },
        "limits": {
            one.limit.value: {"of_all": one.of_all, "of_unsolved": one.of_unsolved}
            for one in summary.limits
        },
        "model_ended_of_unsolved": summary.model_ended,
        "lengths": None if lengths is None else [lengths.low, lengths.median, lengths.high],
        "pass_at": {str(k): value for k, value in summary.pass_at.items()},
        "pass_hat": {str(k): value for k, value in summary.pass_hat.items()},
    }


def estimate_values(found: Estimate) -> dict[str, object]:
    """An estimate as JSON."""
    return {
        "mean": found.mean,
        "standard_error": found.standard_error,
        "interval": interval_values(found.interval),
        "tasks": found.n,
        "clusters": found.clusters,
    }


def interval_values(interval: Interval | None) -> list[float] | None:
    """An interval as JSON."""
    return None if interval is None else [interval.low, interval.high]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _by_k(values: Mapping[int, float]) -> str:
    return ", ".join(f"{k}: {value:.3f}" for k, value in values.items())


# An estimate as tables and as JSON.

ESTIMATE_HEADINGS = ("role", "stage", "calls", "tokens a call", "tokens", "cost")


def part_rows(part: Part) -> Iterator[tuple[str, ...]]:
    """A row for each stage and two for all of them; counts as `likely (least–most)`."""
    for one in part.stages:
        usage, count = one.size.usage, one.calls
        size = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}"
        cost = None if one.cost_usd is None else one.cost_usd * count.likely
        about = "" if one.size.measured else "about "
        yield (
            *one.account,
            spread_text(count),
            f"{about}{size}",
            f"{one.tokens().likely:,}",
            cost_text(cost),
        )
    dollars = part.cost_usd() or (None, None, None)
    calls, tokens = part.calls(), part.tokens()
    yield "likely", "", f"{calls.likely:,}", "", f"{tokens.likely:,}", cost_text(dollars[1])
    yield "at most", "", f"{calls.high:,}", "", f"{tokens.high:,}", cost_text(dollars[2])


def spread_text(count: Spread) -> str:
    """``40``, or ``40 (0–80)``."""
    if count.low == count.high:
        return f"{count.likely:,}"
    return f"{count.likely:,} ({count.low:,}–{count.high:,})"


def estimate_json(found: estimate_Estimate) -> dict[str, object]:
    """The estimate as one object; keys are never removed or renamed within a major version."""
    return {
        "step": _part_json(found.step),
        "epoch": _part_json(found.epoch),
        "rest": _part_json(found.rest),
        "prices": {
            role: {"source": tariff.source, "text": tariff.text}
            for role, tariff in found.tariffs.items()
        },
        "assumptions": list(found.assumptions),
    }


def _part_json(part: Part) -> dict[str, object]:
    dollars = part.cost_usd()
    return {
        "name": part.name,
        "calls": _spread_json(part.calls()),
        "tokens": _spread_json(part.tokens()),
        "cost_usd": None
        if dollars is None
        else dict(zip(("least", "likely", "most"), dollars, strict=True)),
        "stages": [
            {
                "role": one.account.role,
                "stage": one.account.stage,
                "calls": _spread_json(one.calls),
                "prompt_tokens_per_call": one.size.usage.prompt_tokens,
                "completion_tokens_per_call": one.size.usage.completion_tokens,
                "measured": one.size.measured,
                "cost_usd_per_call": one.cost_usd,
            }
            for one in part.stages
        ],
    }


def _spread_json(count: Spread) -> dict[str, int]:
    return {"least": count.low, "likely": count.likely, "most": count.high}
