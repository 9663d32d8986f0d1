"""Runs as reports see them: a plain one, and strategies for any that a branch could hold."""

from typing import Any

from hostile import HOSTILE
from hypothesis import strategies as st
from records import proposal_record, state_of

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger import evidence, records
from skillopt_ci.ledger.evidence import PatternRecord, ProposalRecord, RolloutRecord, TaskOutcome
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, PairSide, State, StepRecord
from skillopt_ci.model.types import Usage
from skillopt_ci.report import commits
from skillopt_ci.report.view import RunView, StepPlace
from skillopt_ci.rollout.types import Status
from skillopt_ci.training.state import RunEvent

SHA = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "https://github.com/octo/skills"

TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=60),
    st.builds(lambda text, times: (text + "\n") * times, st.sampled_from(HOSTILE), st.just(80)),
)
NAMES = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), max_size=15).map(tuple)
SCORES = st.floats(0, 1)
ACTIONS = st.sampled_from(
    ["accept_new_best", "accept", "force_accept", "reject", "skip_no_patches", "skip_no_rewrite"]
)
USAGES = st.builds(
    Usage, calls=st.integers(0, 10**7), cost_usd=st.one_of(st.none(), st.floats(0, 10**5))
)
MEASUREMENTS = st.builds(
    evidence.Measurement,
    hard=SCORES,
    soft=SCORES,
    score=SCORES,
    tasks=st.dictionaries(TEXTS, st.tuples(SCORES, SCORES), max_size=5),
    errors=NAMES,
)
DECISIONS = st.builds(
    records.Decision,
    action=ACTIONS,
    reason=TEXTS,
    metric=TEXTS,
    score_before=SCORES,
    score_after=st.one_of(st.none(), SCORES),
    measurement=st.one_of(st.none(), MEASUREMENTS),
    compared=st.integers(0, 1000),
    fixed=NAMES,
    broken=NAMES,
    reused_from=st.one_of(st.none(), st.integers(1, 9)),
)
EDITS = st.builds(
    evidence.EditRecord,
    op=st.one_of(st.sampled_from(["append", "insert_after", "replace", "delete"]), TEXTS),
    target=TEXTS,
    content=TEXTS,
    source_type=TEXTS,
    status=st.one_of(st.just("applied_append"), TEXTS),
    reason=TEXTS,
)
OUTCOMES = st.builds(
    TaskOutcome, id=TEXTS, status=st.sampled_from(Status), hard=SCORES, soft=SCORES, reason=TEXTS
)
PROPOSALS = st.builds(
    ProposalRecord,
    rollout=st.builds(
        RolloutRecord,
        hard=SCORES,
        soft=SCORES,
        n=st.integers(0, 99),
        errors=st.integers(0, 9),
        tasks=st.lists(OUTCOMES, max_size=6).map(tuple),
    ),
    patterns=st.lists(
        st.builds(PatternRecord, description=TEXTS, count=st.integers(0, 99), task_ids=NAMES),
        max_size=12,
    ).map(tuple),
    n_failure_patches=st.just(1),
    n_success_patches=st.just(1),
    n_edits_merged=st.just(1),
    mode=st.sampled_from(["patch", "full_rewrite_minibatch"]),
    edit_budget=st.just(4),
    selection=st.just("ranked"),
    reasoning=TEXTS,
    edits=st.lists(EDITS, max_size=12).map(tuple),
    suggestions=st.lists(
        st.builds(evidence.SuggestionRecord, type=TEXTS, title=TEXTS, instruction=TEXTS), max_size=3
    ).map(tuple),
    change_summary=NAMES,
    notes=st.one_of(
        st.none(),
        st.builds(
            evidence.NotesRecord,
            proposed=st.just(1),
            added=NAMES,
            refused=st.lists(
                st.builds(evidence.RefusedNote, note=TEXTS, reason=TEXTS), max_size=2
            ).map(tuple),
        ),
    ),
    reviewer_notes=st.lists(
        st.builds(evidence.ReviewerNoteRecord, id=TEXTS, author=TEXTS, text=TEXTS, url=TEXTS),
        max_size=3,
    ).map(tuple),
    refused=TEXTS,
    diff=TEXTS,
    skill_before=st.just("a"),
    skill_after=st.sampled_from("ab"),
    config_sha256=st.just("c"),
)


def altered(
    step: StepRecord, decision: dict[str, object] | None = None, **proposal: object
) -> StepRecord:
    """``step`` with some values of its proposal and of its verdict replaced."""
    verdict = step.decision and step.decision.model_copy(update=decision or {})
    work = step.proposal.model_copy(update=proposal)
    return step.model_copy(update={"proposal": work, "decision": verdict})


def gate(difference: float, standard_error: float | None, **facts: object) -> records.GateRecord:
    """What a gate made of a candidate on 40 tasks."""
    usual = {"policy": "strict", "planned": 40, "compared": 40}
    seen = {"difference": difference, "standard_error": standard_error}
    return records.GateRecord.model_validate(usual | seen | facts)


def plain_run(steps: int = 3, *, simulated: bool = False) -> RunView:
    """A run that gains a tenth with every step on 40 tasks, except that even steps are reverted."""
    entries = [entry(0, kind="start", action="start", score_before=None, score_after=0.1)]
    score = 0.1
    for number in range(1, steps + 1):
        merged = number % 2 == 1
        after = min(1.0, score + 0.1) if merged else score - 0.05
        action = "accept_new_best" if merged else "reject"
        entries.append(entry(number, action=action, score_before=score, score_after=after))
        score = after if merged else score
    return RunView(
        state=state(score, steps, simulated=simulated),
        history=tuple(entries),
        steps=tuple(record(one) for one in entries[1:]),
        places={("step", number): StepPlace(SHA, SHA[::-1], 1.5) for number in range(1, steps + 1)},
        base="main",
        commit=SHA,
    )


def entry(step: int, **changes: object) -> HistoryEntry:
    """An event of the plain run."""
    values: dict[str, object] = {
        "kind": "step",
        "step": step,
        "epoch": 1,
        "action": "reject",
        "reason": "because",
        "tasks": 40,
        "skill_sha256": f"sha{step}",
    }
    return HistoryEntry.model_validate(values | changes)


def state(score: float, step: int, *, simulated: bool = False) -> State:
    """Where a run stands that has come to ``score`` on 40 tasks."""
    tasks = {f"task-{number}": (score, score) for number in range(40)}
    measured = evidence.Measurement(hard=score, soft=score, score=score, tasks=tasks)
    snapshot = records.Snapshot(
        sha256="now", step=step, origin=f"step {step}", measurement=measured
    )
    paid = Usage(calls=12, prompt_tokens=3000, cost_usd=1.25)
    skill = "skills/ledger/SKILL.md"
    return state_of(snapshot, epoch=1, skill=skill, usage=paid, simulated=simulated)


def record(event: HistoryEntry) -> StepRecord:
    """The evidence of a step of the plain run."""
    edit = evidence.EditRecord(
        op="replace", target="old", content="new", support_count=2, status="applied_replace"
    )
    failed = TaskOutcome(id="train-1", status=Status.SCORED, hard=0.0, soft=0.0)
    return StepRecord(
        step=event.step,
        epoch=1,
        step_in_epoch=event.step,
        simulated=False,
        proposal=proposal_record(
            rollout=RolloutRecord(hard=0.5, soft=0.5, n=2, errors=0, tasks=(failed,)),
            patterns=(PatternRecord(description="too old", count=2, task_ids=("train-1",)),),
            reasoning="The old is gone.",
            edits=(edit,),
        ),
        decision=records.Decision.model_validate(
            {
                "action": event.action,
                "reason": event.reason,
                "metric": "hard",
                "score_before": event.score_before,
                "score_after": event.score_after,
                "measurement": state(event.score_after or 0.0, event.step).current.measurement,
                "compared": 40,
                "fixed": ("task-1", "task-2"),
                "broken": ("task-3",),
            }
        ),
        usage=Usage(calls=4, cost_usd=0.25),
    )


@st.composite
def boundaries(draw: st.DrawFn, epoch: int) -> BoundaryRecord:
    """Any end of an epoch."""
    pair = st.builds(
        records.PairRecord,
        id=TEXTS,
        category=TEXTS,
        previous=st.builds(PairSide, hard=SCORES, soft=SCORES),
        current=st.builds(PairSide, hard=SCORES, soft=SCORES),
    )
    slow = records.SlowUpdateRecord(action="propose", content=draw(TEXTS), reasoning=draw(TEXTS))
    return BoundaryRecord(
        epoch=epoch,
        step=epoch,
        simulated=False,
        pairs=tuple(draw(st.lists(pair, max_size=10))),
        slow_update=draw(st.sampled_from([None, slow])),
        skill_before="a",
        skill_after="b",
        config_sha256="c",
        decision=draw(st.one_of(st.none(), DECISIONS)),
    )


@st.composite
def runs(draw: st.DrawFn) -> RunView:
    """Any run: records and history need not even agree."""
    kinds = ["start", "step", "step", "step", "notes", "measure", "set_aside", "slow_update"]
    count = draw(st.integers(0, 400))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))
    text, action, scored = draw(TEXTS), draw(ACTIONS), draw(st.one_of(st.none(), SCORES))
    history = tuple(
        entry(
            number,
            kind=chosen[number % len(chosen)],
            epoch=number,
            action=action,
            reason=text,
            score_after=scored,
        )
        for number in range(count)
    )
    steps = draw(
        st.lists(
            st.builds(
                StepRecord,
                step=st.integers(max(0, count - 30), count),
                epoch=st.just(1),
                step_in_epoch=st.just(1),
                simulated=st.booleans(),
                changes=NAMES,
                proposal=PROPOSALS,
                decision=st.one_of(st.none(), DECISIONS),
                usage=USAGES,
            ),
            max_size=2,
        )
    )
    many = [
        steps[0].model_copy(update={"step": number})
        for number in range(max(0, count - 25), count)
        if steps
    ]
    return RunView(
        state=state(draw(SCORES), count, simulated=draw(st.booleans())).model_copy(
            update={"skill": draw(TEXTS)}
        ),
        history=history,
        steps=tuple(draw(st.sampled_from([steps, many]))),
        epochs=tuple([draw(boundaries(count - 1))] if count else []),
        places={("step", count - 1): StepPlace(SHA, SHA)},
        base=draw(st.sampled_from(["main", "a b/é"])),
        commit=SHA,
    )


def told(
    entry: HistoryEntry,
    state: State,
    record: StepRecord | BoundaryRecord | None = None,
    candidate: str | None = None,
    **facts: Any,
) -> CommitText:
    """The message of the commit that adds ``entry`` to the history."""
    return commits.event(RunEvent(entry, state, "", record=record, **facts), candidate)


def landed(
    record: StepRecord | BoundaryRecord, candidate: str | None = "d" * 40, seconds: float = 1.0
) -> CommitText:
    """The message of the commit that records a step or an epoch's end with its verdict."""
    step, decision = isinstance(record, StepRecord), record.decision
    made = record.proposal if isinstance(record, StepRecord) else record
    stays = decision is not None and decision.stays
    one = HistoryEntry(
        kind="step" if step else "slow_update",
        step=record.step,
        epoch=record.epoch,
        action=record.action if decision is None else decision.action,  # type: ignore[union-attr]
        score_before=None if decision is None else decision.score_before,
        score_after=None if decision is None else decision.score_after,
        tasks=0 if decision is None else decision.compared,
        edits=record.proposal.change_count if isinstance(record, StepRecord) else 0,
        skill_sha256=made.skill_after if stays else made.skill_before,
        config_sha256=made.config_sha256,
        usage=record.usage,
        simulated=record.simulated,
    )
    return told(one, state(0.5, record.step), record, candidate, seconds=seconds)
