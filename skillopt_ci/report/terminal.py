"""Reports for terminals (rows of label and value) and for programs (JSON objects)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from skillopt_ci.estimate.estimate import Estimate, Part
from skillopt_ci.ledger.records import BoundaryRecord, Conclusion, HistoryEntry, State, StepRecord
from skillopt_ci.model.types import Usage
from skillopt_ci.report import words as say
from skillopt_ci.report.view import EventView, Fact, RunView, run_facts
from skillopt_ci.rollout.events import AttemptTrace
from skillopt_ci.rollout.metrics import MeanEstimate, Statistics
from skillopt_ci.rollout.types import Status
from skillopt_ci.text import cost_text, names_text, percent, plural, rounded, score, with_interval
from skillopt_ci.util import pick

Rows = tuple[tuple[str, str], ...]

LOG_HEADINGS = ("step", "epoch", "before", "after", "best", "edits", "words", "verdict")
#: The fields of a range in JSON.
_SPREAD = "least=low likely most=high"
ESTIMATE_HEADINGS = ("role", "stage", "calls", "tokens a call", "tokens", "cost")
#: Longer texts are shown as head and tail, unless the whole text is requested.
SHORT = 2_000
MEASURED = tuple(one.value for one in Status if one.measured)


def title(record: StepRecord | BoundaryRecord, total: int | None = None) -> str:
    note = " (simulated models)" if record.simulated else ""
    if isinstance(record, BoundaryRecord):
        return f"End of epoch {record.epoch}, after step {record.step}{note}"
    of = "" if total is None else f" of {total}"
    return f"Step {record.step}{of}, epoch {record.epoch}{note}"


def rows_at_a_glance(view: EventView, state: State) -> Rows:
    """A step or an epoch's end; a row without a label continues the one above."""
    record, best = view.record, state.best
    verdict = _told(fact for fact in view.gate if fact.label not in ("fixed", "broken"))
    if isinstance(record, BoundaryRecord):
        return (*verdict, *_told(view.work), ("did", record.gist), *_told([view.used]))
    proposal, decision = record.proposal, record.decision
    flips = ("selection tasks", "not measured")
    if decision is not None and decision.measurement is not None:
        flips = ("flips", f"{len(decision.fixed)} fixed, {len(decision.broken)} broken")
    lost = f", {plural(proposal.rollout.errors, 'error')}" if proposal.rollout.errors else ""
    count = proposal.n_edits_merged
    edits = f"{proposal.change_count} of {plural(count, 'proposal')}" if count else "none proposed"
    return (
        *verdict,
        flips,
        ("training tasks", say.training_score(proposal) + lost),
        ("edits", edits),
        *(("", words) for words in say.rules(proposal)),
        *(("refused", words) for words in say.refusal_lines(proposal)),
        *(("unusable reply", words) for words in say.unusable_lines(proposal)),
        ("best so far", f"{score(best.measurement.score)} ({best.origin})"),
        *_told([view.used]),
    )


def rows_in_full(view: EventView) -> Rows:
    record = view.record
    rows: list[tuple[str, str]] = []
    if isinstance(record, StepRecord):
        patterns = say.failures(record.proposal.patterns)
        rows += [("pattern", f"{one.description} (×{one.count})") for one in patterns]
        rows += [
            (f"edit {number}", f"{say.edit_fate(edit)}: {say.edit_text(edit)}")
            for number, edit in enumerate(record.proposal.edits, start=1)
        ]
    else:
        if (slow := record.slow_update) is not None:
            rows.append(("old guidance", slow.previous_content or "–"))
            rows.append(("guidance", slow.content or "–"))
        if record.meta_skill is not None:
            rows.append(("meta skill", record.meta_skill.content or "–"))
    return (
        *_told(view.work),
        *(("reasoning", text) for text in view.reasoning),
        *rows,
        *_told((*view.extras, *view.gate, view.used)),
        *say.account_rows(record.accounts),
    )


def _told(facts: Iterable[Fact]) -> Iterator[tuple[str, str]]:
    for fact in facts:
        yield fact.label, fact.text if fact.names is None else names_text(fact.names)


def status_rows(run: RunView, coming: Iterable[tuple[str, str]] = ()) -> Rows:
    """The run at a glance; ``coming`` are rows about work in progress and what comes next."""
    state = run.state
    return (
        ("skill", state.skill),
        ("branch at", run.commit[:10]),
        *coming,
        *_told(run_facts(run)),
        *say.account_rows(state.accounts),
    )


def status_json(run: RunView, coming: Mapping[str, object]) -> dict[str, object]:
    return {
        **pick(run, "run=state.run skill=state.skill commit step=state.step epoch=state.epoch"),
        "epoch_end": run.state.boundary,
        "score_initial": run.origin and run.origin.score_after,
        **pick(run.state, "score_current=current.measurement.score"),
        **pick(run.state, "score_best=best.measurement.score best_step=best.step"),
        **pick(run.state, "tasks=current.measurement.n"),
        **run.counts,
        **pick(run.state.usage, "calls tokens cost_usd"),
        "accounts": [
            {**account._asdict(), **asdict(used)} for account, used in run.state.accounts.items()
        ],
        "simulated": run.state.simulated,
        **({} if run.state.confirmed is None else {"provisional": run.state.provisional}),
        **coming,
    }


def log_row(entry: HistoryEntry, conclusion: Conclusion | None = None) -> tuple[str, ...]:
    """A row of the log; its ``conclusion``, if known, tells whether the verdict is within noise."""
    step, verdict = entry.kind == "step", ((conclusion and conclusion.decision) or entry).verdict
    if step:
        what = entry.reason if entry.action.startswith("skip") else verdict
    elif entry.kind == "slow_update":
        what = f"end of epoch: {entry.reason if entry.score_after is None else verdict}"
    elif entry.kind == "notes":
        what = f"notes of step {entry.step} kept"
    elif entry.kind == "confirm":  # the scores have their own columns
        what = f"{entry.verdict}, {plural(entry.tasks, 'fresh pair')}"
    else:
        what = f"{entry.action.replace('_', ' ')}: {entry.reason}"
    return (
        str(entry.step) if step else "–",
        str(entry.epoch),
        score(entry.score_before),
        score(entry.score_after, estimated=entry.planned > 0),
        score(entry.best_score),
        str(entry.edits) if step else "–",
        str(entry.words),
        what,
    )


def flight_row(view: EventView, state: State) -> tuple[str, ...]:
    record, number, edits, what = view.record, "–", "–", "end of epoch: in flight"
    if isinstance(record, StepRecord):
        number, edits, what = str(record.step), str(record.proposal.change_count), "in flight"
    scores = (score(state.current.measurement.score), "–", score(state.best.measurement.score))
    return (number, str(record.epoch), *scores, edits, "–", what)


def trace_lines(trace: AttemptTrace, *, whole: bool = False) -> Iterator[tuple[str, str]]:
    """Headings and texts in order: who did what. ``whole`` disables shortening."""
    made = f"task {trace.task}, attempt {trace.attempt}, stage {trace.stage}"
    yield "attempt", f"{made}, solver {trace.solver}, skill {trace.skill_sha256[:12]}"
    for event in trace.events:
        for heading, text in _event_lines(event):
            yield heading, text if whole else shortened(text, SHORT)
    if trace.end is None:
        yield "unfinished", "the record ends here"


def _event_lines(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    match event.get("type"):
        case "asked":
            for message in event.get("messages", ()):
                yield str(message.get("role")), str(message.get("content"))
        case "model_said":
            message = event.get("message", {})
            calls = (
                f"→ {one.get('name')} {one.get('arguments')}"
                for one in message.get("tool_calls", ())
            )
            yield "model", "\n".join(filter(None, (str(message.get("content") or ""), *calls)))
        case "tool_used":
            tool, status = event.get("call", {}).get("name", "tool"), event.get("exit_code")
            ended = "" if status is None else f" (exit status {status})"
            yield f"{tool}{ended}", str(event.get("output", ""))
        case "nudged":
            yield "nudge", str(event.get("text", ""))
        case "told":
            yield str(event.get("kind", "told")), str(event.get("text", ""))
        case "step_graded":
            found = event.get("score", {})
            yield "score so far", f"{score(found.get('soft'))}: {found.get('reason', '')}"
        case "try_failed":
            yield f"try {int(event.get('retry', 0)) + 1} failed", str(event.get("reason", ""))
        case "work_ended":
            response = event.get("response")
            parts = ["as said last" if response is None else str(response)]
            if event.get("limit"):
                parts.append(f"[cut off by the limit of {event['limit']}]")
            if left := int(event.get("artifact_bytes") or 0):
                parts.append(f"[left files behind, a tar of {plural(left, 'byte')}]")
            if event.get("stored"):
                parts.append("[made before, taken from the store]")
            yield "result", "\n".join(parts)
        case "attempt_ended":
            made, tokens = (int(event.get(name) or 0) for name in ("calls", "tokens"))
            used = say.usage_text(Usage(made, tokens, cost_usd=event.get("cost_usd")))
            told = (
                f"solved {score(event.get('hard'))}, partial credit {score(event.get('soft'))}"
                if event.get("status") in MEASURED
                else "not measured"
            )
            yield "outcome", f"{event.get('status')}: {told}. {event.get('reason', '')} ({used})"


def shortened(text: str, limit: int) -> str:
    """``text``, or about ``limit`` characters of it: its head and its tail."""
    if len(text) <= limit:
        return text
    left_out, half = len(text) - limit, limit // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


def estimate_text(found: MeanEstimate) -> str:
    """A mean with its 95 % interval: ``0.625 [0.47, 0.76] n=40``."""
    if found.mean is None:
        return "– n=0"
    clusters = "" if found.clusters is None else f" in {plural(found.clusters, 'cluster')}"
    told = with_interval(found.mean, found.interval) if found.interval else score(found.mean)
    return f"{told} n={found.n}{clusters}"


def remarks(summary: Statistics, *, all_of_them: bool = False) -> Iterator[str]:
    if not summary.complete:
        yield (
            f"incomplete: {plural(summary.attempts - summary.measured, 'attempt')} of "
            f"{summary.attempts} not measured, and left out; counted as failures: "
            f"{score(summary.pessimistic_hard)} (soft {score(summary.pessimistic_soft)})"
        )
    for row in summary.errors:
        yield f"  {row.count} × {row.status}: {row.reason}"
    if summary.missing:
        yield f"never measured: {', '.join(summary.missing)}"
    for one in summary.limits:
        shares = percent(one.of_all)
        if one.of_unsolved is not None:
            shares += f", {percent(one.of_unsolved)} of the unsolved"
        yield f"ended by the limit of {one.limit}: {shares}"
    if summary.pass_at:
        yield f"solved at least once (pass@k): {_by_k(summary.pass_at)}"
        yield f"solved every time (pass^k): {_by_k(summary.pass_hat)}"
    if all_of_them and summary.lengths is not None:
        lengths = ", ".join(f"{length:g}" for length in summary.lengths)
        yield f"messages in a conversation: {lengths} (quartiles)"


def as_values(summary: Statistics) -> dict[str, object]:
    estimate = "mean standard_error interval tasks=n clusters"
    of_type = "hard=hard.mean tasks=hard.n soft=soft.mean interval=hard.interval"
    return {
        **pick(summary, "attempts measured solved complete"),
        "hard_estimate": pick(summary.hard, estimate),
        "soft_estimate": pick(summary.soft, estimate),
        "pessimistic": pick(summary, "hard=pessimistic_hard soft=pessimistic_soft"),
        "missing": summary.missing,
        "error_table": [pick(row, "status=status.value reason count") for row in summary.errors],
        "by_type": {one.task_type: pick(one, of_type) for one in summary.by_type},
        "limits": {one.limit.value: pick(one, "of_all of_unsolved") for one in summary.limits},
        **pick(summary, "model_ended_of_unsolved=model_ended lengths pass_at pass_hat"),
    }


def _by_k(values: Mapping[int, float]) -> str:
    return ", ".join(f"{k}: {rounded(value)}" for k, value in values.items())


def part_rows(part: Part, left: Sequence[float]) -> Iterator[tuple[str, ...]]:
    """A row for each stage, and totals within the calls, tokens and dollars that are ``left``."""
    for one in part.stages:
        usage, count = one.size.usage, one.calls
        size = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}"
        cost = None if one.cost_usd is None else one.cost_usd * count.likely
        apart = "" if count.low == count.high else f" ({count.low:,}–{count.high:,})"
        yield (
            *one.account,
            f"{count.likely:,}{apart}",
            f"{'' if one.size.measured else 'about '}{size}",
            f"{one.tokens().likely:,}",
            cost_text(cost),
        )
    calls, tokens, dollars = part.calls(), part.tokens(), part.cost_usd()
    cost = None if dollars is None else dollars.likely
    yield "", "likely", f"{calls.likely:,}", "", f"{tokens.likely:,}", cost_text(cost)
    made, used = min(calls.high, left[0]), min(tokens.high, left[1])
    paid = None if dollars is None else min(dollars.high, left[2])
    most = "at most in budget" if min(left) < math.inf else "at most"
    yield "", most, f"{made:,}", "", f"{used:,}", cost_text(paid)


def estimate_json(found: Estimate) -> dict[str, object]:
    """The estimate as one object; keys are never removed or renamed within a major version."""
    return {
        "step": _part_json(found.step),
        "epoch": _part_json(found.epoch),
        "rest": _part_json(found.rest),
        "prices": {role: pick(one, "source text") for role, one in found.tariffs.items()},
        "assumptions": list(found.assumptions),
    }


def _part_json(part: Part) -> dict[str, object]:
    dollars = part.cost_usd()
    return {
        "name": part.name,
        "calls": pick(part.calls(), _SPREAD),
        "tokens": pick(part.tokens(), _SPREAD),
        "cost_usd": dollars and pick(dollars, _SPREAD),
        "stages": [
            {
                **pick(one.account, "role stage"),
                "calls": pick(one.calls, _SPREAD),
                **pick(one.size, "prompt_tokens_per_call=usage.prompt_tokens"),
                **pick(one.size, "completion_tokens_per_call=usage.completion_tokens measured"),
                "cost_usd_per_call": one.cost_usd,
            }
            for one in part.stages
        ],
    }
