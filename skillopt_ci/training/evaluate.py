"""Evaluate: candidate against incumbent on the selection tasks, until the gate can decide."""

from dataclasses import replace

from skillopt_ci.aio import Begun, map_ordered
from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Action, BoundaryRecord, Decision, Measurement, ProposalRecord
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.text import plural, score
from skillopt_ci.training.gate import decide
from skillopt_ci.training.measure import Scores, measure, measurement_of, rounds, tallies
from skillopt_ci.training.memory import measured_before, past_tallies
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.sequential_test import (
    Answer,
    Ask,
    Lot,
    Measured,
    Outcome,
    Setup,
    Test,
    sequential_test,
    setup,
)
from skillopt_ci.training.state import Candidate, ScoredCheckout

STAGE = "selection"

#: A skill in a comparison, and the number of the first round of attempts that counts.
Side = tuple[str, int]


async def evaluate(
    run: Run, checkout: ScoredCheckout, candidate: Candidate, models: OpenModels
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
        return await evaluate_text(run, checkout, skill, models, evaluation)
    proposal, notes = record.proposal, record.proposal.notes
    if not proposal.changed:
        action, reason = _without_candidate(proposal)
        return Decision(
            action=action,
            reason=reason,
            metric=evaluation.gate_metric,
            score_before=checkout.state.current.measurement.score,
            score_after=None,
        )
    forced = run.config.optimizer.skill_aware_appendix_gate == "forced"
    for_notes = evaluation.model_copy(update={"use_gate": False}) if forced else evaluation
    if notes is not None and notes.alone:
        return await evaluate_text(run, checkout, skill, models, for_notes, notes_only=True)
    decision = await evaluate_text(run, checkout, skill, models, evaluation)
    if decision.stays or notes is None or not notes.added:
        return decision
    skill = with_notes(checkout.skill, notes.appendix)
    alone = await evaluate_text(run, checkout, skill, models, for_notes, notes_only=True)
    return decision.model_copy(update={"notes": alone})


def evaluation_at_epoch_end(run: Run, record: BoundaryRecord) -> Evaluation:
    """The gate's configuration; it stands open for a placeholder and where updates are forced."""
    slow, evaluation = record.slow_update, run.config.evaluation
    placeholder = slow is not None and slow.action == "inject_placeholder"
    if placeholder or not run.config.optimizer.slow_update_gate_with_selection:
        return evaluation.model_copy(update={"use_gate": False})
    return evaluation


def _without_candidate(proposal: ProposalRecord) -> tuple[Action, str]:
    """The action and the reason of a step that left the skill as it was."""
    lost = proposal.unusable
    if not proposal.n_failure_patches + proposal.n_success_patches:
        if lost is not None and lost.all:
            return "skip_no_patches", "no reply of the optimizer could be used"
        refused = "the guard refused all that was proposed"
        why = refused if proposal.screened else "no edit was proposed"
        if lost is not None:
            why += f"; {len(lost.replies)} of {lost.asked} replies could not be used"
        return "skip_no_patches", why
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


async def evaluate_text(
    run: Run,
    checkout: ScoredCheckout,
    skill: str,
    models: OpenModels,
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Decision:
    """Roll out the text ``skill`` as far as the decision needs it, and decide.

    Nothing depends on the order in which results arrive. Raises TooManyErrors.
    """
    reused, known = known_measurement(run, checkout, skill) or (None, None)
    terms = _setup(run, checkout, skill, evaluation, notes_only=notes_only)
    if known is not None and known.asked >= set(terms.order):
        whole = terms.settings.model_copy(update={"early_stop": False})
        terms = replace(terms, settings=whole)
    before = checkout.state.current.measurement
    first = 0 if known is None else known.first_attempt
    sides = ((skill, first), (checkout.skill, before.first_attempt))
    test = sequential_test(terms, tallies(before), {} if known is None else tallies(known))
    planned = len(terms.order)
    outcome, scores = await _roll_out(run, models, test, sides, planned)
    measured = outcome.measured
    asked, tallied = set(measured.asked), measured.candidate
    names = [task.id for task in run.selection if task.id in asked]
    found = measurement_of(
        {name: tallied[name] for name in names if name in tallied},
        [name for name in names if name not in tallied],
        evaluation,
        skill,
        planned if len(names) < planned else 0,
        first,
    )
    if scores.made:
        found = scores.described(found, models.runner.caveat)
    incumbent = _of_current(measured, before, evaluation, checkout.skill)
    flips = paired((incumbent or before).hard_scores, found.hard_scores)
    types = {task.id: task.task_type for task in run.selection}
    decision = decide(
        terms, outcome, found, checkout.state, types, evaluation, notes_only=notes_only
    ).model_copy(
        update={
            "measurement": found,
            "compared": flips.n,
            "fixed": flips.fixed,
            "broken": flips.broken,
            "measured_under": run.measured_under,
            "reused_from": None if measured.candidate_attempts else reused,
            "incumbent": incumbent,
        }
    )
    told = f"{len(measured.candidate)} of {plural(planned, 'task')} measured"
    clear = "" if outcome.end == "measured" else ", then the verdict was clear"
    after = score(decision.score_after, estimated=len(names) < planned)
    change = f"{score(decision.score_before)} → {after}"
    run.observer(StageFinished(STAGE, f"{change}, {told}{clear}"))
    run.observer(StageFinished("gate", decision.verdict))
    return await _remeasured(run, decision, skill, models, evaluation)


def known_measurement(
    run: Run, checkout: ScoredCheckout, skill: str
) -> tuple[int, Measurement] | None:
    """What an earlier step, and which, found of a text that reads the same; it may be partial."""
    if reading(skill) == reading(checkout.skill):
        return checkout.state.current.step, checkout.state.current.measurement
    return measured_before(run, checkout, skill)


def _setup(
    run: Run,
    checkout: ScoredCheckout,
    skill: str,
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Setup:
    return setup(
        skill,
        [task.id for task in run.selection],
        checkout.state.current.measurement,
        checkout.state.best.measurement,
        past_tallies(run, checkout),
        evaluation,
        notes_only=notes_only,
    )


# -- the rollouts that the sequential test asks for ----------------------------------------------


def first_attempts(
    run: Run, checkout: ScoredCheckout, skill: str, evaluation: Evaluation
) -> tuple[AttemptRequest, ...]:
    """The attempts with which a comparison begins, if nothing is known of the candidate yet."""
    if known_measurement(run, checkout, skill) is not None:
        return ()
    current = checkout.state.current.measurement
    first = next(sequential_test(_setup(run, checkout, skill, evaluation), tallies(current), {}))
    sides = ((skill, 0), (checkout.skill, current.first_attempt))
    return tuple(
        request
        for ask in (first, *first.sure({}))
        for side, lot in zip(sides, (ask.candidate, ask.current), strict=True)
        for request in _requests(run, side, lot)
    )


def _requests(run: Run, side: Side, lot: Lot) -> tuple[AttemptRequest, ...]:
    (skill, first), tasks = side, {task.id: task for task in run.selection}
    numbered = ((tasks[name], first + earlier) for name, earlier in lot)
    return rounds(numbered, skill, STAGE, run.config.rollout.attempts)


async def _roll_out(
    run: Run, models: OpenModels, test: Test, sides: tuple[Side, Side], planned: int
) -> tuple[Outcome, Scores]:
    """Make what ``test`` asks for until it ends, and early what it is sure to ask for next."""
    run.observer(StageStarted(STAGE, planned))
    limit, each = run.config.evaluation.max_error_rate, models.runner.attempts
    made, arrived = Scores(), Scores()

    async def attempt(work: tuple[Side, Lot]) -> tuple[Rollout, ...]:
        side, lot = work

        def done(rollout: Rollout) -> None:
            run.observer(StageAdvanced(STAGE, rollout.task_id))
            if side is sides[0]:
                arrived.add(rollout)
                look()

        return await models.runner.carry_out(_requests(run, side, lot), done)

    async def put(asked: Ask) -> list[tuple[Rollout, ...]]:
        work = zip(sides, (asked.candidate, asked.current), strict=True)
        return await map_ordered(attempt, work, limit=2)

    def look(*, first: bool = False) -> None:
        # each look costs as much as some answers: it is worth it where few answers are out
        tasks = [task for task, _ in ask.candidate]
        missing = sum(arrived.made[task] < each for task in tasks)
        if first or missing in {len(tasks) >> n for n in range(1, len(tasks).bit_length())}:
            for one in ask.sure(arrived.means(each)):
                under_way.begin(one)

    async with Begun(put) as under_way:
        try:
            ask = next(test)
            while True:
                under_way.begin(ask)
                look(first=True)
                sides_made = await under_way.result(ask)
                for rollout in (one for side in sides_made for one in side):
                    made.add(rollout)
                if made.failed.total() > limit * max(planned, made.made.total()):
                    made.refuse_errors(limit, STAGE)
                ask = test.send(Answer(*(Scores(rollouts=side).means() for side in sides_made)))
        except StopIteration as done:
            outcome: Outcome = done.value
    made.refuse_errors(limit, STAGE)
    return outcome, arrived


def _of_current(
    measured: Measured, before: Measurement, evaluation: Evaluation, skill: str
) -> Measurement | None:
    """The current skill's measurement with the attempts that were added, if there are any."""
    if not measured.current_attempts:
        return None
    ordered = {name: measured.current[name] for name in (*before.tasks, *measured.current)}
    errors = [name for name in before.errors if name not in ordered]
    return measurement_of(ordered, errors, evaluation, skill, 0, before.first_attempt)


async def _remeasured(
    run: Run, decision: Decision, skill: str, models: OpenModels, evaluation: Evaluation
) -> Decision:
    """With ``evaluation.gate.remeasure``, measure an accepted ``skill`` on fresh attempts.

    A score that won a comparison is on average too high (the winner's curse).
    """
    found, gate = decision.measurement, decision.gate
    wanted = evaluation.gate.remeasure and evaluation.use_gate
    if not (wanted and decision.stays and found is not None and gate is not None):
        return decision
    attempt = found.first_attempt + max(found.attempts.values(), default=1)
    baseline = await measure(run, models, skill, run.selection, attempt=attempt)
    gate = gate.model_copy(update={"baseline_attempts": len(baseline.asked)})
    return decision.model_copy(update={"baseline": baseline, "gate": gate})
