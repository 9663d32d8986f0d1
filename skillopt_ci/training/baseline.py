"""The score that candidates are held against, and what the first one says.

The current skill has no valid score at the start of a run, when a person changed it on a branch,
and when something that scores depend on changed (selection tasks, scorers, target model, metric,
prompts). Then it is measured before anything else.
"""

from collections.abc import Iterable
from pathlib import Path

from skillopt_ci.config.config import Config
from skillopt_ci.errors import NothingToLearn
from skillopt_ci.ledger.records import (
    Measurement,
    Snapshot,
    State,
    booked,
    rounded,
)
from skillopt_ci.progress import Note
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.validation import unloadable
from skillopt_ci.training.measure import measure
from skillopt_ci.training.review_comments import unheard
from skillopt_ci.training.run_context import Bench, Run
from skillopt_ci.training.state import (
    Event,
    Settled,
    Standing,
    basis_of,
    changes_since,
    record_events,
)

#: From this score on most of what candidates differ by is chance.
NEARLY = 0.95


def learns_nothing(run: Run, standing: Settled) -> bool:
    """Whether no candidate can stay: the gate wants a higher score, and there is none.

    Only before the first step, and if no reviewer asks for anything. A skill that came to solve
    everything by training is trained on until the epochs are over.
    """
    untouched = standing.state.step == 0 and not unheard(run.notes, standing.state)
    return untouched and no_score_is_higher(run.config, standing.state.current)


def no_score_is_higher(config: Config, current: Snapshot) -> bool:
    """Whether only a higher score lets anything stay, and the current one is the highest."""
    measured = current.measurement
    return _is_strict(config) and measured.n > 0 and _rounds_to_all(measured.score)


def refuse_to_learn_nothing(run: Run, standing: Settled) -> None:
    """Raise NothingToLearn before an optimizer is paid in vain."""
    if not learns_nothing(run, standing):
        return
    measured = standing.state.current.measurement
    unmeasured = f" that were measured ({len(measured.errors)} were not)" if measured.errors else ""
    raise NothingToLearn(
        f"There is nothing to learn: before any training, all {measured.n} selection tasks"
        f"{unmeasured} are solved, so no edit can score higher.",
        hint="Put harder tasks into the selection and training sets, grade more strictly, or name "
        "a weaker model.target. To shorten the skill without losing score, set "
        "evaluation.ties: prefer_shorter.",
    )


def first_impression(current: Measurement) -> Note | None:
    """What a person should know of the score that training starts from."""
    if current.n == 0 or _rounds_to_all(current.score):
        return None
    if current.score >= NEARLY:
        return Note(
            f"The skill scores {current.score:.3f} before any training: there is little left to "
            "gain on these selection tasks. Harder tasks would show more.",
            level="warning",
        )
    if not any(hard or soft for hard, soft in current.tasks.values()):
        return Note(
            "No selection task was solved. If the answers should be right, see that the scorer "
            "can find them in a reply (scorer.answer) and that the references are written alike."
        )
    return None


def hardly_loaded(text: str, path: str) -> Note | None:
    """What to say of a skill that can be trained, but that agents would not load."""
    reason = unloadable(text, Path(path))
    return Note(reason, level="warning") if reason else None


def all_solved(step: int, rollouts: Iterable[Rollout]) -> Note | None:
    """What to say of a first step in which the training tasks taught nothing."""
    attempts = list(rollouts)
    if step != 1 or not attempts or not all(one.succeeded for one in attempts):
        return None
    return Note(
        f"All {len(attempts)} training tasks of the first step were solved without training: "
        "there are no failures to learn from. Harder tasks would show some.",
        level="warning",
    )


def _rounds_to_all(score: float) -> bool:
    return score > 1 - 1e-9


def _is_strict(config: Config) -> bool:
    """Whether only a higher score lets anything stay."""
    evaluation = config.evaluation
    return (
        evaluation.use_gate
        and evaluation.ties == "reject"
        and not evaluation.use_semantic_density
        and not config.optimizer.use_skill_aware_reflection
    )


async def ensure_scored(run: Run, standing: Standing) -> Settled:
    """Measure and record the current skill if it has no valid score; otherwise change nothing."""
    why, before = unscored(run, standing), standing.state
    if not why and before is not None:
        return as_settled(standing, before)
    if before is None and (note := hardly_loaded(standing.skill, run.skill_path)):
        run.observer(note)
    run.observer(Note(f"Measuring the current skill: {why}."))
    meter = run.meter(standing.spent)
    async with run.bench(f"{run.config.run}/measure@{standing.commit}", meter) as bench:
        measurement = await _measure(run, standing.skill, bench)
        origin = "initial" if before is None else before.current.origin
        if before is not None and before.current.sha256 != standing.sha256:
            origin = "edited by hand"
        step = 0 if before is None else before.step
        current = Snapshot(
            sha256=standing.sha256, step=step, origin=origin, measurement=measurement
        )
        best_skill, best = await _best(run, standing, current, bench)
    if before is None and (note := first_impression(measurement)):
        run.observer(note)
    usage = rounded(meter.total())
    state = State(
        run=run.config.run,
        skill=run.skill_path,
        step=step,
        epoch=0 if before is None else before.epoch,
        current=current,
        best=best,
        boundary=0 if before is None else before.boundary,
        measured_under=run.measured_under,
        config_sha256=run.config_sha256,
        basis=basis_of(run) if before is None else before.basis,
        heard_notes=() if before is None else before.heard_notes,
        usage=rounded(standing.spent + meter.total()),
        accounts=booked({} if before is None else before.accounts, meter.accounts()),
        simulated=run.simulated,
    )
    folder = run.folder
    event = Event(
        kind="start" if before is None else "measure",
        action="start" if before is None else "measure",
        reason=why,
        state=state,
        skill=standing.skill,
        score_before=None if before is None else before.current.measurement.score,
        score_after=measurement.score,
        tasks=measurement.n,
        usage=usage,
        changes=() if before is None else changes_since(before.basis, basis_of(run)),
        files={
            **folder.furniture(),
            **({folder.initial_skill: standing.skill} if before is None else {}),
            folder.best_skill: best_skill,
        },
    )
    return record_events(run, standing, event)


def as_settled(standing: Standing, state: State) -> Settled:
    """The same checkout, whose skill is known to have a valid score."""
    return Settled(standing.commit, standing.branch, standing.skill, state, standing.history)


def unscored(run: Run, standing: Standing) -> str:
    """Why the current skill must be measured, in words; empty if its score is valid."""
    state = standing.state
    if state is None:
        return "training starts"
    if state.current.sha256 != standing.sha256:
        return "the skill was changed by hand"
    if state.measured_under != run.measured_under:
        return "the selection tasks or the way of measuring changed"
    return ""


async def _measure(run: Run, skill: str, bench: Bench) -> Measurement:
    return await measure(
        skill,
        run.selection,
        runner=bench.runner,
        evaluation=run.config.evaluation,
        observer=run.observer,
    )


async def _best(
    run: Run, standing: Standing, current: Snapshot, bench: Bench
) -> tuple[str, Snapshot]:
    """The best text and its snapshot: a person's change becomes best only by a higher score."""
    state, text = standing.state, best_text(run, standing)
    if state is None or text is None:
        return standing.skill, current
    best = state.best
    if state.measured_under != run.measured_under:
        again = await _measure(run, text, bench)
        best = best.model_copy(update={"measurement": again})
    beaten = current.measurement.score > best.measurement.score
    return (standing.skill, current) if beaten else (text, best)


def best_text(run: Run, standing: Standing) -> str | None:
    """The best skill so far, if it is known and not the current one."""
    state = standing.state
    if state is None or state.best.sha256 == standing.sha256:
        return None
    text = run.ledger.read(standing.commit, run.folder.best_skill) or ""
    return text if sha256(text) == state.best.sha256 else None
