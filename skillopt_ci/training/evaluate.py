"""Evaluate: candidate against incumbent on the selection tasks, until the gate can decide."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from skillopt_ci.aio import Begun, map_ordered
from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import BudgetExhausted, TooManyErrors
from skillopt_ci.ledger.records import (
    Action,
    BoundaryRecord,
    Decision,
    GateRecord,
    Measurement,
    ProposalRecord,
    State,
)
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.text import plural
from skillopt_ci.training.attempts import Numbered, roll_out_numbered, round_of
from skillopt_ci.training.gate import gate_record, losses, partial_rejection, tested
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
from skillopt_ci.training.resume import Candidate
from skillopt_ci.training.run_context import Bench, Run
from skillopt_ci.training.sequential_test import (
    Answer,
    Ask,
    Measured,
    Outcome,
    Setup,
    Test,
    rotated,
    sequential_test,
    setup,
)
from skillopt_ci.training.state import Settled, Standing

STAGE = "selection"

#: Tasks with the number of earlier attempts at each.
_Lot = tuple[tuple[str, int], ...]


async def evaluate(
    run: Run, standing: Settled, candidate: Candidate, bench: Bench
) -> Decision | None:
    """Decide on ``candidate``; roll it out unless that was done before.

    None for an epoch's end that leaves the skill as it is. Reminders whose edits are rejected are
    decided on by themselves.
    """
    record, skill = candidate.record, candidate.skill
    evaluation = run.config.evaluation
    if isinstance(record, BoundaryRecord):
        if not record.changed:
            return None
        evaluation = evaluation_at_epoch_end(run, record)
        return await evaluate_text(run, standing, skill, bench, evaluation)
    proposal, notes = record.proposal, record.proposal.notes
    if not proposal.changed:
        action, reason = _without_candidate(proposal)
        return Decision(
            action=action,
            reason=reason,
            metric=evaluation.gate_metric,
            score_before=standing.state.current.measurement.score,
            score_after=None,
        )
    forced = run.config.optimizer.skill_aware_appendix_gate == "forced"
    for_notes = evaluation.model_copy(update={"use_gate": False}) if forced else evaluation
    if notes is not None and notes.alone:
        return await evaluate_text(run, standing, skill, bench, for_notes, admit_notes)
    decision = await evaluate_text(run, standing, skill, bench, evaluation)
    if decision.stays or notes is None or not notes.added:
        return decision
    skill = with_notes(standing.skill, notes.appendix)
    alone = await evaluate_text(run, standing, skill, bench, for_notes, admit_notes)
    return decision.model_copy(update={"notes": alone})


def evaluation_at_epoch_end(run: Run, record: BoundaryRecord) -> Evaluation:
    """The gate's configuration; it stands open for a placeholder and where updates are forced."""
    slow, evaluation = record.slow_update, run.config.evaluation
    placeholder = slow is not None and slow.action == "inject_placeholder"
    if placeholder or not run.config.optimizer.slow_update_gate_with_selection:
        return evaluation.model_copy(update={"use_gate": False})
    return evaluation


async def evaluate_text(
    run: Run,
    standing: Settled,
    skill: str,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate = decide,
) -> Decision:
    """Evaluate the text ``skill`` as far as the decision needs it, and decide by ``gate``."""
    known = known_measurement(run, standing, skill)
    if known is None:
        _refuse_overuse(run, standing)
    before = known and known[1]
    found = await run_comparison(run, standing, skill, before, bench, evaluation, gate)
    verdict, record = _decide(run, found, standing.state, evaluation, gate)
    current = found.incumbent or standing.state.current.measurement
    flips = paired(_hard(current), _hard(found.candidate))
    decision = Decision(
        action=verdict.action,
        reason=verdict.reason,
        metric=evaluation.gate_metric,
        score_before=verdict.current,
        score_after=verdict.candidate,
        measurement=found.candidate,
        compared=flips.n,
        fixed=flips.fixed,
        broken=flips.broken,
        measured_under=run.measured_under,
        reused_from=known[0] if known and not record.candidate_attempts else None,
        beats_best=verdict.beats_best,
        gate=record,
        incumbent=found.incumbent,
    )
    run.observer(StageFinished("gate", decision.verdict))
    return await _finish_baseline(run, decision, skill, bench, evaluation)


def known_measurement(run: Run, standing: Settled, skill: str) -> tuple[int, Measurement] | None:
    """The step that measured ``skill``, or a text that reads the same, and what it found.

    That may be partial.
    """
    if reading(skill) == reading(standing.skill):
        return standing.state.current.step, standing.state.current.measurement
    return measured_before(run, standing, skill)


def overused(run: Run, standing: Standing) -> bool:
    """Whether the selection tasks have decided on as many candidates as they may."""
    most = run.config.evaluation.gate.max_consultations
    return bool(most) and _consultations(standing) >= most


def _consultations(standing: Standing) -> int:
    kinds = ("step", "slow_update")
    return sum(entry.kind in kinds and entry.tasks > 0 for entry in standing.history)


def _refuse_overuse(run: Run, standing: Standing) -> None:
    """Choosing again and again by the same tasks fits the skill to them."""
    if overused(run, standing):
        raise BudgetExhausted(
            f"{_consultations(standing)} candidates were measured on the selection tasks, which is "
            "all that evaluation.gate.max_consultations allows.",
            hint="Add new selection tasks (and raise the limit), or finish the run.",
        )


def _without_candidate(proposal: ProposalRecord) -> tuple[Action, str]:
    """The action and the reason of a step that left the skill as it was."""
    if not proposal.n_failure_patches + proposal.n_success_patches:
        refused = "the guard refused all that was proposed"
        return "skip_no_patches", refused if proposal.screened else "no edit was proposed"
    if proposal.outcome == "skip_no_rewrite":
        return "skip_no_rewrite", "nobody wrote a usable document"
    rate, race = proposal.learning_rate, proposal.race
    if proposal.refused:
        return "reject", f"the guard refused the document: {proposal.refused}"
    if not proposal.n_edits_merged and race is None:
        return "reject", "no proposed edit was left after merging"
    if race is not None and not any(one.kept for one in race.effects):
        return "reject", "no edit proved itself in the race"
    if rate is not None and not rate.learning_rate:
        why = "gave no usable learning rate" if rate.fallback else "chose to apply no edit"
        return "reject", f"the optimizer {why}"
    return "reject", "no proposed edit changed the skill"


# -- the rollouts that the sequential test asks for ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """A skill in a comparison; attempts before number ``first`` were put aside."""

    skill: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sequential test that has ended, and what it says of both skills.

    ``candidate`` is partial where the test stopped early; ``incumbent`` is the current skill's
    measurement with the attempts that were added, None if there are none.
    """

    terms: Setup
    outcome: Outcome
    candidate: Measurement
    incumbent: Measurement | None


def planned_tasks(run: Run, standing: Settled, evaluation: Evaluation) -> tuple[str, ...]:
    """The selection tasks on which the next candidate is compared."""
    names = [task.id for task in run.selection]
    size = evaluation.gate.subset if evaluation.use_gate else 0
    return rotated(names, size, standing.state.step)


def first_attempts(
    run: Run, standing: Settled, skill: str, evaluation: Evaluation
) -> tuple[AttemptRequest, ...]:
    """The attempts with which a comparison begins if nothing is known of the candidate."""
    current = standing.state.current.measurement
    first = next(
        sequential_test(_terms(run, standing, skill, evaluation, decide), tallies(current), {})
    )
    sides = (Side(skill), Side(standing.skill, current.first_attempt))
    return tuple(
        order
        for ask in (first, *first.sure({}))
        for side, lot in zip(sides, (ask.candidate, ask.current), strict=True)
        for order in _orders(run, side, lot)
    )


def _orders(run: Run, side: Side, lot: _Lot) -> Iterator[AttemptRequest]:
    tasks = {task.id: task for task in run.selection}
    for name, earlier in lot:
        for number in round_of(side.first + earlier, run.config.rollout.attempts):
            yield AttemptRequest(tasks[name], side.skill, STAGE, number)


def _terms(run: Run, standing: Settled, skill: str, evaluation: Evaluation, gate: Gate) -> Setup:
    current, best = standing.state.current.measurement, standing.state.best.measurement
    planned = planned_tasks(run, standing, evaluation)
    past = past_tallies(run, standing)
    return setup(skill, planned, current, best, past, evaluation, gate)


async def run_comparison(
    run: Run,
    standing: Settled,
    skill: str,
    known: Measurement | None,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate,
) -> Comparison:
    """Roll out ``skill``, of which some may be ``known``, as far as the decision needs it.

    What is asked at once runs at once; results are looked at together and in a fixed order, so that
    nothing depends on the order in which they arrive. Raises TooManyErrors when so many tasks fail
    that a decision would be dishonest.
    """
    current = standing.state.current.measurement
    terms = _terms(run, standing, skill, evaluation, gate)
    planned = planned_tasks(run, standing, evaluation)
    if known is not None and set(planned) <= {*known.tasks, *known.errors}:
        whole = terms.settings.model_copy(update={"early_stop": False})
        terms = replace(terms, settings=whole)
    sides = (
        Side(skill, 0 if known is None else known.first_attempt),
        Side(standing.skill, current.first_attempt),
    )
    test = sequential_test(terms, tallies(current), {} if known is None else tallies(known))
    outcome, scores = await _roll_out(run, bench, test, sides, len(planned))
    found = _of_candidate(run, outcome.measured, sides[0], evaluation, len(planned))
    if scores.total:
        found = with_reservations(found, scores, bench.runner.caveat)
    incumbent = _of_current(outcome.measured, current, sides[1], evaluation)
    return Comparison(terms, outcome, found, incumbent)


class Arrived:
    """The candidate's attempts as they come, ``each`` at every task."""

    def __init__(self, each: int) -> None:
        self.completed: Callable[[], object] = lambda: None
        """Called whenever the last attempt at a task is there."""
        self._each = each
        self._made: dict[str, list[Rollout]] = {}

    def add(self, rollout: Rollout) -> None:
        made = self._made.setdefault(rollout.task_id, [])
        made.append(rollout)
        if len(made) == self._each:
            self.completed()

    def lacks(self, tasks: Sequence[str]) -> int:
        """Of how many tasks attempts are still to come."""
        return sum(len(self._made.get(task, ())) < self._each for task in tasks)

    def scores(self) -> Mapping[str, tuple[float, float]]:
        """(Hard, soft) scores of the tasks of which all attempts came, where any was measured."""
        whole = (made for made in self._made.values() if len(made) >= self._each)
        return Scores.of(one for made in whole for one in made).means()


async def _roll_out(
    run: Run, bench: Bench, test: Test, sides: tuple[Side, Side], planned: int
) -> tuple[Outcome, Scores]:
    """Make the attempts that ``test`` asks for until it ends; also return the candidate's scores.

    Lots that are sure to be asked next begin as soon as that is sure, so that few places stay empty
    for want of a look and no attempt is made in vain.
    """
    run.observer(StageStarted(STAGE, planned))
    limit, made, scores = run.config.evaluation.max_error_rate, list[Rollout](), Scores(())
    arrived = Arrived(run.config.rollout.attempts)
    heard = (arrived.add, lambda _: None)

    async def put(lots: tuple[_Lot, _Lot]) -> list[list[Rollout]]:
        work = zip(sides, lots, heard, strict=True)
        return await map_ordered(partial(_attempt, run, bench), work, limit=2)

    async with Begun(put) as under_way:
        try:
            ask = next(test)
            while True:
                lots = await _answered(ask, under_way, arrived)
                made += [one for lot in lots for one in lot]
                for rollout in lots[0]:
                    scores.add(rollout)
                if sum(not one.status.measured for one in made) > limit * max(planned, len(made)):
                    refuse_too_many_errors(made, limit, STAGE)
                ask = test.send(Answer(*(Scores.of(lot).means() for lot in lots)))
        except StopIteration as done:
            outcome: Outcome = done.value
    refuse_too_many_errors(made, limit, STAGE)
    measured = f"{len(outcome.measured.candidate)} of {plural(planned, 'task')} measured"
    clear = "" if outcome.end == "measured" else ", then the verdict was clear"
    run.observer(StageFinished(STAGE, measured + clear))
    return outcome, scores


async def _answered(
    ask: Ask, under_way: Begun[tuple[_Lot, _Lot], list[list[Rollout]]], arrived: Arrived
) -> list[list[Rollout]]:
    """What comes of ``ask``; what is asked next in any case begins as soon as that is known."""
    tasks = [task for task, _ in ask.candidate]
    # each look costs as much as some answers: they are worth it where few answers are out
    looks = {len(tasks) >> halved for halved in range(1, len(tasks).bit_length())}

    def begin_sure() -> None:
        for one in ask.sure(arrived.scores()):
            under_way.begin((one.candidate, one.current))

    def look() -> None:
        if arrived.lacks(tasks) in looks:
            begin_sure()

    under_way.begin((ask.candidate, ask.current))
    begin_sure()
    arrived.completed = look
    return await under_way.result((ask.candidate, ask.current))


async def _attempt(
    run: Run, bench: Bench, work: tuple[Side, _Lot, Callable[[Rollout], None]]
) -> list[Rollout]:
    side, lot, heard = work
    tasks = {task.id: task for task in run.selection}

    def done(rollout: Rollout) -> None:
        run.observer(StageAdvanced(STAGE, rollout.task_id))
        heard(rollout)

    rounds = [Numbered(tasks[name], side.first + earlier) for name, earlier in lot]
    return list(await roll_out_numbered(bench.runner, rounds, side.skill, stage=STAGE, done=done))


def _of_candidate(
    run: Run, measured: Measured, side: Side, evaluation: Evaluation, planned: int
) -> Measurement:
    """In the tasks' own order, whatever order they were measured in."""
    found = measured.candidate
    names = [task.id for task in run.selection if task.id in measured.asked]
    return measurement_of(
        {name: found[name] for name in names if name in found},
        [name for name in names if name not in found],
        evaluation,
        side.skill,
        planned if len(names) < planned else 0,
        side.first,
    )


def _of_current(
    measured: Measured, before: Measurement, side: Side, evaluation: Evaluation
) -> Measurement | None:
    if not measured.current_attempts:
        return None
    ordered = {name: measured.current[name] for name in (*before.tasks, *measured.current)}
    errors = [name for name in before.errors if name not in ordered]
    return measurement_of(ordered, errors, evaluation, side.skill, 0, side.first)


# -- the decision --------------------------------------------------------------------------------


def _decide(
    run: Run, found: Comparison, state: State, evaluation: Evaluation, gate: Gate
) -> tuple[Verdict, GateRecord]:
    """The verdict and its arithmetic.

    Raises TooManyErrors when no task was measured under all skills.
    """
    verdict = _verdict(found, state, evaluation, gate)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate else None
    types = {task.id: task.task_type for task in run.selection}
    lost = losses(found.outcome.measured, found.terms, types, allowed)
    if lost and verdict.action != "reject" and gate is not admit_notes:
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{verdict.reason}, but types of task lost more than {allowed:g}: {told}"
        verdict = replace(verdict, action="reject", reason=reason, beats_best=False)
    return verdict, gate_record(found.outcome, found.terms, lost)


def _verdict(found: Comparison, state: State, evaluation: Evaluation, gate: Gate) -> Verdict:
    current, best, candidate = state.current.measurement, state.best.measurement, found.candidate
    # only tasks that all sides measured, so that an error tips no scale
    shared = [task for task in candidate.tasks if task in current.tasks and task in best.tasks]
    if not shared:
        raise TooManyErrors("No selection task was measured under both skills.")
    weight = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    density: Fraction = exact(weight) * exact(current.density)
    if found.outcome.end in ("certain", "futile") and candidate.partial:
        return partial_rejection(found.outcome, found.terms, density)
    ours, theirs, record = (
        Contender([one.tasks[task] for task in shared], one.density, one.words)
        for one in (candidate, current, best)
    )
    if found.terms.settings.policy == "strict":
        return gate(ours, theirs, record, evaluation=evaluation)
    beats = state.best.sha256 == state.current.sha256 or score(ours, evaluation) > score(
        record, evaluation
    )
    return tested(found.outcome, found.terms, density, beats_best=beats)


async def _finish_baseline(
    run: Run, decision: Decision, skill: str, bench: Bench, evaluation: Evaluation
) -> Decision:
    """Measure what is missing of an accepted ``skill``, or all of it afresh.

    A score that won a comparison is on average too high (the winner's curse), so that candidates
    as good as the skill, or a little better, would be turned away. With
    ``evaluation.gate.remeasure`` the winning attempts are put aside and new ones count.
    """
    found = decision.measurement
    if found is None or decision.gate is None or not decision.stays:
        return decision
    afresh = evaluation.gate.remeasure and evaluation.use_gate
    asked = set() if afresh else {*found.tasks, *found.errors}
    missing = [task for task in run.selection if task.id not in asked]
    if not missing:
        return decision
    baseline = await measure(
        skill,
        missing,
        runner=bench.runner,
        evaluation=evaluation,
        observer=run.observer,
        attempt=found.first_attempt + max(found.attempts.values(), default=1) * afresh,
    )
    attempts = baseline.n + len(baseline.errors)
    if not afresh:
        both: dict[str, Tally] = {**tallies(found), **tallies(baseline)}
        errors = {*found.errors, *baseline.errors}
        names = [task.id for task in run.selection]
        baseline = measurement_of(
            {name: both[name] for name in names if name in both},
            [name for name in names if name in errors],
            evaluation,
            skill,
            0,
            found.first_attempt,
        )
        attempts = baseline.n + len(baseline.errors) - found.n - len(found.errors)
    record = decision.gate.model_copy(update={"baseline_attempts": attempts})
    return decision.model_copy(update={"baseline": baseline, "gate": record})


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
