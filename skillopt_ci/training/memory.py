"""What earlier steps left behind for this one: the step buffer, and skills measured already."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from skillopt_ci.ledger.records import (
    Decision,
    HistoryEntry,
    Measurement,
    ProposalRecord,
    StepRecord,
)
from skillopt_ci.messages import fenced
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.edits import Edit
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.training.measure import Tally, tallies
from skillopt_ci.training.replies import FailurePattern, SkillCandidate, Suggestion
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Settled, Standing

# Step buffer: what the steps of this epoch tried, told to the next analysts.

#: A change that was tried: an edit, a suggestion, or a document by its title alone.
Tried = Edit | Suggestion | SkillCandidate

#: Characters of one value; what is remembered must not crowd out what is to be looked at.
MAX_VALUE_CHARS = 600

_INTRODUCTION = (
    "What earlier steps of this epoch saw and tried. Do not repeat edits that did not help, in "
    "whatever words; give priority to patterns that are still unsolved."
)


@dataclass(frozen=True, slots=True)
class BufferedStep:
    """What one step leaves to the following ones.

    ``n_fail`` of ``n_total`` measured rollouts failed. For a rejected step the gate's scores are
    those of the current skill (``score_before``) and of the candidate (``score_after``).
    """

    step: int
    action: str
    n_total: int
    n_fail: int
    patterns: tuple[FailurePattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    rejected_edits: tuple[Tried, ...] = ()


def render(steps: Sequence[BufferedStep]) -> str:
    """Return the text on ``steps`` for a prompt, the remembered part as data; empty for none."""
    if not steps:
        return ""
    blocks = "\n\n".join(_block(step) for step in steps)
    return f"{_INTRODUCTION}\n\n{fenced(blocks)}"


def _block(step: BufferedStep) -> str:
    heading = f"### Step {step.step} — {step.action.upper()} ({step.n_fail}/{step.n_total} failed)"
    return "\n".join([heading, *map(_pattern, step.patterns), *_rejected(step)])


def _pattern(pattern: FailurePattern) -> str:
    named = ": ".join(filter(None, (pattern.failure_type, pattern.description)))
    tasks = f", tasks: {', '.join(pattern.task_ids)}" if pattern.task_ids else ""
    return f"- {_quoted(named)} (×{pattern.count}{tasks})"


def _rejected(step: BufferedStep) -> Iterable[str]:
    if not step.rejected_edits:
        return
    scores = ""
    if step.score_before is not None and step.score_after is not None:
        scores = f" (score {step.score_before:.4g} → {step.score_after:.4g})"
    yield f"Rejected edits{scores}:"
    for number, tried in enumerate(step.rejected_edits, start=1):
        yield f"{number}. {_told(tried)}"


def _told(tried: Tried) -> str:
    match tried:
        case Edit():
            target = f" target={_quoted(tried.target)} →" if tried.target else ""
            return f"[{_word(tried.op)}]{target} {_quoted(tried.content)}"
        case Suggestion():
            return f"[{_word(tried.type)}] {_quoted(tried.title)} → {_quoted(tried.instruction)}"
        case SkillCandidate():
            return f"[new document] {_quoted(tried.title)}"


def _word(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """Return ``text`` on one line, so that nothing inside it can pass for a line of the list."""
    shown = text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + " […]"
    return json.dumps(shown, ensure_ascii=False)


#: Candidates of which it is remembered how they fared on each task.
_REMEMBERED = 8
#: Steps whose races and verdicts still say something about single rules.
_REMEMBERED_STEPS = 60


def steps_of_epoch(run: Run, standing: Standing, epoch: int) -> tuple[StepRecord, ...]:
    """The evidence of the epoch's steps so far, read from the tree: it survives any restart."""
    read = partial(run.ledger.read, standing.commit)
    numbers = [one.step for one in standing.history if one.kind == "step" and one.epoch == epoch]
    records = (run.folder.read_step(read, number) for number in numbers)
    return tuple(record for record in records if record is not None)


def all_steps(run: Run, standing: Standing) -> tuple[StepRecord, ...]:
    """The evidence of the latest steps that were decided under what counts today."""
    read = partial(run.ledger.read, standing.commit)
    numbers = [one.step for one in standing.history if one.kind == "step"][-_REMEMBERED_STEPS:]
    records = (run.folder.read_step(read, number) for number in numbers)
    return tuple(record for record in records if record is not None)


def buffered(record: StepRecord) -> BufferedStep | None:
    """What the optimizer is told of an earlier step; None if nothing was proposed."""
    decision, proposal = record.decision, record.proposal
    if decision is None or decision.action in ("skip_no_patches", "skip_no_rewrite"):
        return None
    return BufferedStep(
        step=record.step,
        action=decision.action,
        n_total=proposal.rollout.n,
        n_fail=sum(task.failed for task in proposal.rollout.tasks),
        patterns=tuple(
            FailurePattern("", pattern.description, pattern.count, pattern.task_ids)
            for pattern in proposal.patterns
        ),
        score_before=decision.score_before,
        score_after=decision.score_after,
        rejected_edits=() if record.merged else tuple(_tried(proposal)),
    )


def meta_skill(run: Run, standing: Standing) -> str:
    """What the optimizer noted for itself at the end of the last epoch, if that is wanted."""
    if not run.config.optimizer.use_meta_skill:
        return ""
    return run.ledger.read(standing.commit, run.folder.meta_skill) or ""


def measured_before(run: Run, standing: Settled, candidate: str) -> tuple[int, Measurement] | None:
    """The step that measured this text under the same conditions, and what it found.

    A text that reads the same counts as this text; what was found may be partial.
    """
    state, name, read_as = standing.state, sha256(candidate), reading_sha256(candidate)
    if state.measured_under == run.measured_under:
        for snapshot in (state.current, state.best):
            if snapshot.sha256 == name:
                return snapshot.step, snapshot.measurement
    for entry in reversed(standing.history):
        if entry.candidate_sha256 == name or entry.candidate_reading == read_as:
            decision = _valid(run, standing, entry)
            if decision is not None and decision.measurement is not None:
                return entry.step, decision.measurement
    return None


def past_tallies(run: Run, standing: Standing) -> list[dict[str, Tally]]:
    """How the latest candidates fared on the selection tasks, where their scores still compare."""
    gated = [one for one in standing.history if one.kind in ("step", "slow_update") and one.tasks]
    found = (_valid(run, standing, entry) for entry in gated[-_REMEMBERED:])
    return [
        tallies(decision.measurement)
        for decision in found
        if decision is not None and decision.measurement is not None
    ]


def _valid(run: Run, standing: Standing, entry: HistoryEntry) -> Decision | None:
    decision = _decision(run, standing, entry)
    same = decision is not None and decision.measured_under == run.measured_under
    return decision if same else None


def _decision(run: Run, standing: Standing, entry: HistoryEntry) -> Decision | None:
    read, folder = partial(run.ledger.read, standing.commit), run.folder
    if entry.kind == "slow_update":
        boundary = folder.read_boundary(read, entry.epoch)
        return None if boundary is None else boundary.decision
    step = folder.read_step(read, entry.step)
    decision = None if step is None else step.decision
    return decision.notes if decision is not None and entry.kind == "notes" else decision


def _tried(proposal: ProposalRecord) -> Iterator[Tried]:
    """What was tried in vain: the edits, the suggestions, or the gist of the whole document."""
    for edit in proposal.applied_edits:
        yield Edit(edit.op, edit.target, edit.content)
    for told in proposal.suggestions:
        yield Suggestion(told.type, told.title, told.instruction)
    if proposal.body_changed and proposal.mode == "full_rewrite_minibatch":
        yield SkillCandidate("", "; ".join(proposal.change_summary))
