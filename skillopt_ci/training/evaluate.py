"""Evaluate: compare candidate and incumbent on selection tasks until the gate can decide."""

from dataclasses import replace

from skillopt_ci.aio import Begun
from skillopt_ci.config.config import Evaluation, Optimizer
from skillopt_ci.ledger.evidence import ProposalRecord
from skillopt_ci.ledger.records import Action, BoundaryRecord, Decision, Snapshot, StepRecord
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.text import plural, score
from skillopt_ci.training.gate import Ask, Ending, Setup, Test, decide, sequential_test, set_up
from skillopt_ci.training.measure import Scores, measurement_of, round_of, text_of
from skillopt_ci.training.memory import measured_before, past_scores
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Candidate, ScoredCheckout

STAGE = "selection"


async def evaluate(
    run: Run, checkout: ScoredCheckout, candidate: Candidate, models: OpenModels
) -> Decision | None:
    """Decide on ``candidate``, rolling it out unless its scores are known.

    None if an epoch's end changes nothing. If edits are rejected, reminders are decided separately.
    """
    record, skill = candidate.record, candidate.skill
    evaluation = evaluation_of(run.config.evaluation, run.config.optimizer, record)
    if isinstance(record, BoundaryRecord):
        if not record.changed:
            return None
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
    for_notes = evaluation_of(evaluation, run.config.optimizer, record, notes=True)
    if notes is not None and notes.alone:
        return await evaluate_text(run, checkout, skill, models, for_notes, notes_only=True)
    decision = await evaluate_text(run, checkout, skill, models, evaluation)
    if decision.stays or notes is None or not notes.added:
        return decision
    skill = with_notes(checkout.skill, notes.appendix)
    alone = await evaluate_text(run, checkout, skill, models, for_notes, notes_only=True)
    return decision.model_copy(update={"notes": alone})


def evaluation_of(
    evaluation: Evaluation,
    optimizer: Optimizer,
    record: StepRecord | BoundaryRecord,
    *,
    notes: bool = False,
) -> Evaluation:
    """How a candidate is evaluated, or the ``notes`` of one alone: the gate is open to some."""
    if isinstance(record, StepRecord):
        forced = notes and optimizer.skill_aware_appendix_gate == "forced"
    else:
        slow = record.slow_update
        placeholder = slow is not None and slow.action == "inject_placeholder"
        forced = placeholder or not optimizer.slow_update_gate_with_selection
    return evaluation.model_copy(update={"use_gate": False}) if forced else evaluation


def _without_candidate(proposal: ProposalRecord) -> tuple[Action, str]:
    lost = proposal.unusable
    if not proposal.n_failure_patches + proposal.n_success_patches:
        if lost is not None and lost.all:
            return "skip_no_patches", "no reply of the optimizer could be used"
        why = "the guard refused every proposal" if proposal.screened else "no edit was proposed"
        if lost is not None:
            why += f"; {len(lost.replies)} of {lost.asked} replies could not be used"
        return "skip_no_patches", why
    if proposal.outcome == "skip_no_rewrite":
        return "skip_no_rewrite", "no usable document was written"
    rate = proposal.learning_rate
    if proposal.refused:
        return "reject", f"the guard refused the document: {proposal.refused}"
    if not proposal.n_edits_merged:
        return "reject", "no proposed edit was left after merging"
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
    """Roll out ``skill`` on as many tasks as the decision needs, and decide."""
    source = known_snapshot(run, checkout, skill)
    known = None if source is None else source.measurement
    setup = _set_up(run, checkout, skill, evaluation, notes_only=notes_only)
    if known is not None and known.asked >= set(setup.order):
        setup = replace(setup, stop=False)  # stopping saves nothing: nothing is left to attempt
    planned = len(setup.order)
    test = sequential_test(setup, {} if known is None else known.tasks)
    outcome, scores = await _roll_out(run, models, test, skill, planned)
    asked, tallied = set(outcome.asked), outcome.candidate
    names = [task.id for task in run.selection if task.id in asked]
    found = measurement_of(
        {name: tallied[name] for name in names if name in tallied},
        [name for name in names if name not in tallied],
        evaluation,
        skill,
        planned if len(names) < planned else 0,
    )
    if scores.made:
        found = scores.described(found, models.runner.caveat)
    elif known is not None and (known.tasks, known.planned) == (found.tasks, found.planned):
        found = known  # with what is to be said of its attempts
    flips = paired(checkout.state.current.measurement.hard_scores, found.hard_scores)
    types = {task.id: task.task_type for task in run.selection}
    decision = decide(setup, outcome, found, checkout.state, types).model_copy(
        update={
            "measurement": found,
            "compared": flips.n,
            "fixed": flips.fixed,
            "broken": flips.broken,
            "measured_under": run.measured_under,
            "reused_from": None if outcome.attempts or source is None else source.step,
        }
    )
    told = f"{len(tallied):,} of {plural(planned, 'task')} measured"
    clear = "" if outcome.end == "measured" else ", then the verdict was clear"
    after = score(decision.score_after, estimated=len(names) < planned)
    run.observer(StageFinished(STAGE, f"{score(decision.score_before)} → {after}, {told}{clear}"))
    run.observer(StageFinished("gate", decision.verdict))
    return decision


def known_snapshot(run: Run, checkout: ScoredCheckout, skill: str) -> Snapshot | None:
    """Like :func:`measured_before`, but first compares the text with the current skill's."""
    if reading(skill) == reading(checkout.skill):
        return checkout.state.current
    return measured_before(run, checkout, skill)


def _set_up(
    run: Run,
    checkout: ScoredCheckout,
    skill: str,
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Setup:
    return set_up(
        text_of(skill, evaluation),
        [task.id for task in run.selection],
        checkout.state.current.measurement,
        checkout.state.best.measurement,
        past_scores(run, checkout),
        evaluation,
        notes_only=notes_only,
    )


def first_attempts(
    run: Run, checkout: ScoredCheckout, candidate: Candidate
) -> tuple[AttemptRequest, ...]:
    """The attempts that the comparison will certainly need, if the candidate has no scores yet."""
    record, skill = candidate.record, candidate.skill
    # reminders by themselves have their own gate, which may need other attempts
    alone = isinstance(record, StepRecord) and not record.proposal.body_changed
    if alone or known_snapshot(run, checkout, skill) is not None:
        return ()
    evaluation = evaluation_of(run.config.evaluation, run.config.optimizer, record)
    first = next(sequential_test(_set_up(run, checkout, skill, evaluation), {}))
    tasks = {task.id: task for task in run.selection}
    asked = (tasks[name] for ask in (first, *first.sure({})) for name in ask.tasks)
    return round_of(run, asked, skill, STAGE)


async def _roll_out(
    run: Run, models: OpenModels, test: Test, skill: str, planned: int
) -> tuple[Ending, Scores]:
    limit, each = run.config.evaluation.max_error_rate, run.config.rollout.attempts
    run.observer(StageStarted(STAGE, planned * each))
    tasks = {task.id: task for task in run.selection}
    # ``taken`` has the looks that the test has taken in, ``arrived`` also what came early
    taken, arrived, means = Scores(), Scores(), dict[str, tuple[float, float]]()

    def arrive(rollout: Rollout) -> None:
        run.observer(StageAdvanced(STAGE, rollout.task_id))
        arrived.add(rollout)
        means.update(arrived.means(each, [rollout.task_id]))
        # looking is expensive: do it each time the number of missing tasks has halved
        missing, count = sum(arrived.made[task] < each for task in ask.tasks), len(ask.tasks)
        if missing in {count >> n for n in range(1, count.bit_length())}:
            for one in ask.sure(means):
                under_way.begin(one)

    async def carry_out(asked: Ask) -> tuple[Rollout, ...]:
        requests = round_of(run, map(tasks.__getitem__, asked.tasks), skill, STAGE)
        return await models.runner.carry_out(requests, arrive)

    async with Begun(carry_out) as under_way:
        try:
            ask = next(test)
            while True:
                for one in (ask, *ask.sure(means)):
                    under_way.begin(one)
                rollouts = await under_way.result(ask)
                taken.add(*rollouts)
                taken.refuse_errors(limit, STAGE, planned * each)
                ask = test.send(Scores(rollouts=rollouts).means())
        except StopIteration as end:
            outcome: Ending = end.value
    taken.finish(run, STAGE, len(outcome.asked) * each)
    return outcome, arrived
