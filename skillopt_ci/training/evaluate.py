"""The second half of a step: measure the candidate and let the gate decide."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from skillopt_ci.aio import Begun, begun, map_ordered
from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import BudgetExhausted, TooManyErrors
from skillopt_ci.ledger.records import (
    Action,
    Decision,
    GateRecord,
    Measurement,
    ProposalRecord,
    State,
)
from skillopt_ci.ledger.records import verdict as in_words
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.text import plural
from skillopt_ci.training.attempts import Numbered, roll_out_numbered, round_of
from skillopt_ci.training.gate import (
    Answer,
    Ask,
    Duel,
    Outcome,
    Standoff,
    Terms,
    duel,
    gate_record,
    losses,
    partial_rejection,
    rotated,
    terms_of,
    tested,
)
from skillopt_ci.training.measure import (
    Contender,
    Gate,
    Scores,
    Tally,
    Verdict,
    admit_notes,
    decide,
    exact,
    measure,
    measurement_of,
    score,
    tallies,
    with_reservations,
)
from skillopt_ci.training.memory import measured_before, past_tallies
from skillopt_ci.training.run_context import Bench, Session
from skillopt_ci.training.state import Settled, Standing

# Incoming: what the attempts of a duel come to, before all that were asked for are there.


class Incoming:
    """The candidate's attempts as they come, ``each`` at every task.

    ``completed`` is called whenever the last attempt at a task is there.
    """

    def __init__(self, each: int) -> None:
        self.completed: Callable[[], object] = lambda: None
        self._each = each
        self._made: dict[str, list[Rollout]] = {}

    def add(self, rollout: Rollout) -> None:
        """Tell of an attempt."""
        made = self._made.setdefault(rollout.task_id, [])
        made.append(rollout)
        if len(made) == self._each:
            self.completed()

    def lacks(self, tasks: Iterable[str]) -> int:
        """Of how many tasks attempts are still to come."""
        return sum(len(self._made.get(task, ())) < self._each for task in tasks)

    def scores(self) -> Mapping[str, tuple[float, float]]:
        """(Hard, soft) scores of the tasks of which all attempts came, where any was measured."""
        whole = (made for made in self._made.values() if len(made) >= self._each)
        return Scores.of(one for made in whole for one in made).means()


# Contest: the attempts that a duel asks for, made with the models.

STAGE = "selection"

#: Tasks with the number of earlier attempts at each.
_Lot = tuple[tuple[str, int], ...]
#: Those of the candidate and those of the current skill.
_Lots = tuple[_Lot, _Lot]


@dataclass(frozen=True, slots=True)
class Side:
    """A skill in a duel; attempts before number ``first`` were put aside."""

    skill: str
    first: int = 0


async def fight(
    session: Session,
    bench: Bench,
    duel: Duel,
    candidate: Side,
    current: Side,
    planned: int,
    before: Mapping[str, tuple[float, float]],
) -> tuple[Outcome, Scores]:
    """Make the attempts of ``duel`` until it is decided.

    What is asked at once runs at once; its results are looked at together, so that nothing depends
    on the order in which they come. Lots that are sure to be asked next begin meanwhile, as soon as
    that is sure: few places stay empty for want of a look, and none is taken for naught. Which
    verdict it looks like is told to who works ahead; ``before`` are the current skill's scores,
    hard and soft. Returned is also what the candidate's attempts came to. Raises
    :class:`~skillopt_ci.errors.TooManyErrors` when so many of the ``planned`` tasks fail that a
    verdict would be dishonest.
    """
    session.observer(StageStarted(STAGE, planned))
    limit, made = session.config.evaluation.max_error_rate, list[Rollout]()
    scores = Scores(())
    incoming, sides = Incoming(session.config.rollout.attempts), (candidate, current)
    async with begun(partial(_put, session, bench, sides, incoming)) as under_way:
        try:
            ask = next(duel)
            while True:
                lots = await _contest_asked(ask, under_way, incoming)
                made += [one for lot in lots for one in lot]
                for rollout in lots[0]:
                    scores.add(rollout)
                if sum(not one.status.measured for one in made) > limit * max(planned, len(made)):
                    refuse_too_many_errors(made, limit, STAGE)
                ask = duel.send(Answer(*map(_scores, lots)))
                session.ahead.favour(merged=_leads(scores, before))
        except StopIteration as done:
            outcome: Outcome = done.value
    refuse_too_many_errors(made, limit, STAGE)
    session.observer(StageFinished(STAGE, _told(outcome, planned)))
    return outcome, scores


def orders_of(session: Session, side: Side, lot: _Lot) -> Iterator[AttemptRequest]:
    """The attempts of a lot."""
    tasks = {task.id: task for task in session.selection}
    for name, earlier in lot:
        for number in round_of(side.first + earlier, session.config.rollout.attempts):
            yield AttemptRequest(tasks[name], side.skill, STAGE, number)


async def _contest_asked(
    ask: Ask, under_way: Begun[_Lots, list[list[Rollout]]], incoming: Incoming
) -> list[list[Rollout]]:
    """What comes of ``ask``; what is asked next in any case begins as soon as that is known."""
    tasks = [task for task, _ in ask.candidate]
    # each look costs as much as some answers: they are worth it where few answers are out
    looks = {len(tasks) >> halved for halved in range(1, len(tasks).bit_length())}

    def begin_sure() -> None:
        for one in ask.sure(incoming.scores()):
            under_way.begin((one.candidate, one.current))

    def look() -> None:
        if incoming.lacks(tasks) in looks:
            begin_sure()

    under_way.begin((ask.candidate, ask.current))
    begin_sure()
    incoming.completed = look
    return await under_way.result((ask.candidate, ask.current))


async def _put(
    session: Session, bench: Bench, sides: tuple[Side, Side], incoming: Incoming, lots: _Lots
) -> list[list[Rollout]]:
    """Both sides at the same time."""
    heard = (incoming.add, lambda _: None)

    async def one(work: tuple[Side, _Lot, Callable[[Rollout], None]]) -> list[Rollout]:
        return await _attempt(session, bench, *work)

    return await map_ordered(one, zip(sides, lots, heard, strict=True), limit=2)


async def _attempt(
    session: Session, bench: Bench, side: Side, lot: _Lot, heard: Callable[[Rollout], None]
) -> list[Rollout]:
    tasks = {task.id: task for task in session.selection}

    def done(rollout: Rollout) -> None:
        session.observer(StageAdvanced(STAGE, rollout.task_id))
        heard(rollout)

    made = await roll_out_numbered(
        bench.runner,
        [Numbered(tasks[name], side.first + earlier) for name, earlier in lot],
        side.skill,
        stage=STAGE,
        done=done,
    )
    return list(made)


def _leads(scores: Scores, before: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the candidate solved more than the current skill, of what was attempted so far."""
    found = scores.means()
    return sum(found[task][0] - before[task][0] for task in found.keys() & before.keys()) > 0


def _scores(rollouts: Sequence[Rollout]) -> Mapping[str, tuple[float, float]]:
    return Scores.of(rollouts).means()


def _told(outcome: Outcome, planned: int) -> str:
    measured = f"{len(outcome.standoff.candidate)} of {plural(planned, 'task')} measured"
    return measured if outcome.end == "measured" else f"{measured}, then the verdict was clear"


# Meeting: a candidate meets the current skill on the selection tasks.


@dataclass(frozen=True, slots=True)
class Meeting:
    """A duel that was fought, and what it says of both skills.

    ``candidate`` is partial where measuring stopped early; ``incumbent`` is the current skill's
    measurement with the attempts that were added, None if there are none.
    """

    terms: Terms
    outcome: Outcome
    candidate: Measurement
    incumbent: Measurement | None


def planned_tasks(session: Session, standing: Settled, evaluation: Evaluation) -> tuple[str, ...]:
    """The selection tasks on which the next candidate is compared."""
    names = [task.id for task in session.selection]
    size = evaluation.gate.subset if evaluation.use_gate else 0
    return rotated(names, size, standing.state.step)


async def meet(
    session: Session,
    standing: Settled,
    skill: str,
    known: Measurement | None,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate,
) -> Meeting:
    """Measure ``skill``, of which some may be ``known``, as far as the verdict needs it."""
    current = standing.state.current.measurement
    planned = planned_tasks(session, standing, evaluation)
    terms = _terms(session, standing, skill, planned, evaluation, gate)
    if known is not None and set(planned) <= {*known.tasks, *known.errors}:
        whole = terms.settings.model_copy(update={"early_stop": False})
        terms = replace(terms, settings=whole)
    candidate = Side(skill, 0 if known is None else known.first_attempt)
    incumbent = Side(standing.skill, current.first_attempt)
    battle = duel(terms, tallies(current), {} if known is None else tallies(known))
    outcome, scores = await fight(
        session, bench, battle, candidate, incumbent, len(planned), current.tasks
    )
    standoff = outcome.standoff
    found = _of_candidate(session, standoff, candidate, evaluation, len(planned))
    if scores.total:
        found = with_reservations(found, scores, bench.runner.caveat)
    return Meeting(
        terms,
        outcome,
        found,
        _of_current(standoff, current, incumbent, evaluation),
    )


def first_attempts(
    session: Session, standing: Settled, skill: str, evaluation: Evaluation
) -> tuple[AttemptRequest, ...]:
    """The attempts with which :func:`meet` begins for a candidate of which nothing is known."""
    planned = planned_tasks(session, standing, evaluation)
    terms = _terms(session, standing, skill, planned, evaluation, decide)
    current = standing.state.current.measurement
    first = next(duel(terms, tallies(current), {}))
    sides = (Side(skill), Side(standing.skill, current.first_attempt))
    return tuple(
        order
        for ask in (first, *first.sure({}))
        for side, lot in zip(sides, (ask.candidate, ask.current), strict=True)
        for order in orders_of(session, side, lot)
    )


def _terms(
    session: Session,
    standing: Settled,
    skill: str,
    planned: Sequence[str],
    evaluation: Evaluation,
    gate: Gate,
) -> Terms:
    current, best = standing.state.current.measurement, standing.state.best.measurement
    past = past_tallies(session, standing)
    return terms_of(skill, planned, current, best, past, evaluation, gate)


def _of_candidate(
    session: Session, standoff: Standoff, side: Side, evaluation: Evaluation, planned: int
) -> Measurement:
    """In the tasks' own order, whatever order they were measured in."""
    found = standoff.candidate
    names = [task.id for task in session.selection if task.id in standoff.asked]
    return measurement_of(
        {name: found[name] for name in names if name in found},
        [name for name in names if name not in found],
        evaluation,
        side.skill,
        planned if len(names) < planned else 0,
        side.first,
    )


def _of_current(
    standoff: Standoff, before: Measurement, side: Side, evaluation: Evaluation
) -> Measurement | None:
    if not standoff.current_attempts:
        return None
    names = {*before.tasks, *standoff.current}
    ordered = {name: standoff.current[name] for name in (*before.tasks, *standoff.current)}
    errors = [name for name in before.errors if name not in names]
    return measurement_of(ordered, errors, evaluation, side.skill, 0, side.first)


# Rule: the verdict that follows from a meeting of two skills.


def rule(
    meeting: Meeting, state: State, evaluation: Evaluation, gate: Gate, types: Mapping[str, str]
) -> tuple[Verdict, GateRecord]:
    """The verdict and its arithmetic; ``types`` maps tasks to their types.

    Raises :class:`~skillopt_ci.errors.TooManyErrors` when no task was measured under all skills.
    """
    terms, outcome = meeting.terms, meeting.outcome
    verdict = _verdict(meeting, state, evaluation, gate)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate else None
    lost = losses(outcome.standoff, terms, types, allowed)
    if lost and verdict.action != "reject" and gate is not admit_notes:
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{verdict.reason}, but types of task lost more than {allowed:g}: {told}"
        verdict = replace(verdict, action="reject", reason=reason, beats_best=False)
    return verdict, gate_record(outcome, terms, lost)


def _verdict(meeting: Meeting, state: State, evaluation: Evaluation, gate: Gate) -> Verdict:
    current, best = state.current.measurement, state.best.measurement
    shared = _shared(meeting.candidate, current, best)
    density = _density(current, evaluation)
    outcome, terms = meeting.outcome, meeting.terms
    if outcome.end in ("certain", "futile") and meeting.candidate.partial:
        return partial_rejection(outcome, terms, density)
    if terms.settings.policy == "strict":
        ours, theirs, record = (
            contender(one, shared) for one in (meeting.candidate, current, best)
        )
        return gate(ours, theirs, record, evaluation=evaluation)
    beats = state.best.sha256 == state.current.sha256 or score(
        contender(meeting.candidate, shared), evaluation
    ) > score(contender(best, shared), evaluation)
    return tested(outcome, terms, density, beats_best=beats)


def contender(measurement: Measurement, tasks: Sequence[str]) -> Contender:
    """What of a measurement the gate compares over ``tasks``."""
    scores = [measurement.tasks[task] for task in tasks]
    return Contender(scores, measurement.density, measurement.words)


def _shared(candidate: Measurement, current: Measurement, best: Measurement) -> list[str]:
    """The tasks that all sides measured, so that an error tips no scale."""
    shared = [task for task in candidate.tasks if task in current.tasks and task in best.tasks]
    if not shared:
        raise TooManyErrors("No selection task was measured under both skills.")
    return shared


def _density(current: Measurement, evaluation: Evaluation) -> Fraction:
    weight = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    return exact(weight) * exact(current.density)


# Baseline: the score that later candidates are held against, once a candidate is accepted.


async def with_baseline(
    session: Session, decision: Decision, skill: str, bench: Bench, evaluation: Evaluation
) -> Decision:
    """Measure what is missing of an accepted ``skill``, or all of it afresh.

    A score that won a comparison is on average too high (the winner's curse), so that candidates
    as good as the skill, or a little better, would be turned away. With
    ``evaluation.gate.remeasure`` the winning attempts are put aside and new ones count.
    """
    found = decision.measurement
    if found is None or decision.gate is None or not decision.stays:
        return decision
    if evaluation.gate.remeasure and evaluation.use_gate:
        baseline = await _measure(session, skill, bench, evaluation, found.next_attempt)
        attempts = baseline.n + len(baseline.errors)
    else:
        baseline = await _completed(session, skill, bench, evaluation, found)
        attempts = baseline.n + len(baseline.errors) - found.n - len(found.errors)
        if not attempts:
            return decision
    record = decision.gate.model_copy(update={"baseline_attempts": attempts})
    return decision.model_copy(update={"baseline": baseline, "gate": record})


async def _measure(
    session: Session, skill: str, bench: Bench, evaluation: Evaluation, attempt: int
) -> Measurement:
    return await measure(
        skill,
        session.selection,
        runner=bench.runner,
        evaluation=evaluation,
        observer=session.observer,
        attempt=attempt,
    )


async def _completed(
    session: Session, skill: str, bench: Bench, evaluation: Evaluation, found: Measurement
) -> Measurement:
    """The measurement with the tasks that the verdict did not need."""
    asked = {*found.tasks, *found.errors}
    missing = [task for task in session.selection if task.id not in asked]
    if not missing:
        return found
    rest = await measure(
        skill,
        missing,
        runner=bench.runner,
        evaluation=evaluation,
        observer=session.observer,
        attempt=found.first_attempt,
    )
    both: dict[str, Tally] = {**tallies(found), **tallies(rest)}
    names = [task.id for task in session.selection]
    return measurement_of(
        {name: both[name] for name in names if name in both},
        [name for name in names if name in (*found.errors, *rest.errors)],
        evaluation,
        skill,
        0,
        found.first_attempt,
    )


# How often the selection tasks may be asked for a verdict: each one wears them out a little.


def refuse_overuse(session: Session, standing: Standing) -> None:
    """Raise BudgetExhausted when ``evaluation.gate.max_consultations`` is used up.

    Choosing again and again by the same tasks fits the skill to them (adaptive overfitting).
    """
    if overused(session, standing):
        raise BudgetExhausted(
            f"{_consultations(standing)} candidates were measured on the selection tasks, which is "
            "all that evaluation.gate.max_consultations allows.",
            hint="Add new selection tasks (and raise the limit), or finish the run.",
        )


def overused(session: Session, standing: Standing) -> bool:
    """Whether no further candidate may be measured on them."""
    most = session.config.evaluation.gate.max_consultations
    return bool(most) and _consultations(standing) >= most


def _consultations(standing: Standing) -> int:
    kinds = ("step", "slow_update")
    return sum(entry.kind in kinds and entry.tasks > 0 for entry in standing.history)


async def judge(
    session: Session, standing: Settled, proposal: ProposalRecord, skill: str, bench: Bench
) -> Decision:
    """The verdict on the candidate ``skill``; measures it unless that was done before.

    Notes whose edits are rejected are judged by themselves.
    """
    if not proposal.changed:
        return _unmeasured(session, standing.state.current.measurement, proposal)
    notes, evaluation = proposal.notes, session.config.evaluation
    if notes is not None and notes.alone:
        return await _judge_notes(session, standing, skill, bench)
    decision = await judge_text(session, standing, skill, bench, evaluation)
    if decision.stays or notes is None or not notes.added:
        return decision
    alone = await _judge_notes(session, standing, with_notes(standing.skill, notes.appendix), bench)
    return decision.model_copy(update={"notes": alone})


async def _judge_notes(session: Session, standing: Settled, skill: str, bench: Bench) -> Decision:
    evaluation = session.config.evaluation
    if session.config.optimizer.skill_aware_appendix_gate == "forced":
        evaluation = evaluation.model_copy(update={"use_gate": False})
    return await judge_text(session, standing, skill, bench, evaluation, admit_notes)


async def judge_text(
    session: Session,
    standing: Settled,
    skill: str,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate = decide,
) -> Decision:
    """Measure the text ``skill`` as far as the verdict needs it, and judge it by ``gate``."""
    known = known_measurement(session, standing, skill)
    if known is None:
        refuse_overuse(session, standing)
    before = known and known[1]
    meeting = await meet(session, standing, skill, before, bench, evaluation, gate)
    types = {task.id: task.task_type for task in session.selection}
    verdict, record = rule(meeting, standing.state, evaluation, gate, types)
    current = meeting.incumbent or standing.state.current.measurement
    flips = paired(_hard(current), _hard(meeting.candidate))
    session.observer(StageFinished("gate", in_words(verdict.action, verdict.candidate)))
    decision = Decision(
        action=verdict.action,
        reason=verdict.reason,
        metric=evaluation.gate_metric,
        score_before=verdict.current,
        score_after=verdict.candidate,
        measurement=meeting.candidate,
        compared=flips.n,
        fixed=flips.fixed,
        broken=flips.broken,
        measured_under=session.measured_under,
        reused_from=known[0] if known and not record.candidate_attempts else None,
        beats_best=verdict.beats_best,
        gate=record,
        incumbent=meeting.incumbent,
    )
    return await with_baseline(session, decision, skill, bench, evaluation)


def known_measurement(
    session: Session, standing: Settled, skill: str
) -> tuple[int, Measurement] | None:
    """The step that measured ``skill``, or a text that reads the same, and its finding.

    The finding may be partial.
    """
    return _read_the_same(standing, skill) or measured_before(session, standing, skill)


def _read_the_same(standing: Settled, skill: str) -> tuple[int, Measurement] | None:
    """The current skill's measurement, where the target reads the same: an empty region is new."""
    current = standing.state.current
    if reading(skill) != reading(standing.skill):
        return None
    return current.step, current.measurement


def _unmeasured(session: Session, before: Measurement, proposal: ProposalRecord) -> Decision:
    action, reason = _without_candidate(proposal)
    return Decision(
        action=action,
        reason=reason,
        metric=session.config.evaluation.gate_metric,
        score_before=before.score,
        score_after=None,
    )


def _without_candidate(proposal: ProposalRecord) -> tuple[Action, str]:
    """What it is called that a proposal left the skill as it was, and why it did."""
    if not proposal.n_failure_patches + proposal.n_success_patches:
        refused = "the guard refused all that was proposed"
        return "skip_no_patches", refused if proposal.screened else "no edit was proposed"
    if proposal.outcome == "skip_no_rewrite":
        return "skip_no_rewrite", "nobody wrote a usable document"
    return "reject", _without_change(proposal)


def _without_change(proposal: ProposalRecord) -> str:
    rate, race = proposal.learning_rate, proposal.race
    if proposal.refused:
        return f"the guard refused the document: {proposal.refused}"
    if not proposal.n_edits_merged and race is None:
        return "no proposed edit was left after merging"
    if race is not None and not any(one.kept for one in race.effects):
        return "no edit proved itself in the race"
    if rate is not None and not rate.learning_rate:
        why = "gave no usable learning rate" if rate.fallback else "chose to apply no edit"
        return f"the optimizer {why}"
    return "no proposed edit changed the skill"


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
