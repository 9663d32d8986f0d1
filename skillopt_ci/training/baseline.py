"""Settle: before a step, the current skill must have a score that candidates can be held against.

It has none at the start of a run, when a person changed the skill on a branch, and when
something that scores depend on changed (selection tasks, scorers, target model, metric, prompts).
"""

from collections.abc import Iterable
from pathlib import Path

from skillopt_ci.config.config import Config
from skillopt_ci.errors import NothingToLearn
from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    HistoryEntry,
    Measurement,
    Snapshot,
    State,
    UsageRecord,
    account_records,
    with_accounts,
)
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Note
from skillopt_ci.report.commits import measured, started
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.validation import unloadable
from skillopt_ci.training.measure import measure
from skillopt_ci.training.review_comments import unheard
from skillopt_ci.training.run_context import Bench, Session
from skillopt_ci.training.state import Settled, Standing, basis_of, changes_since, publish

# First look: what the first measurement of a skill says about whether training can pay.

#: From this score on most of what candidates differ by is chance.
NEARLY = 0.95


def learns_nothing(session: Session, standing: Settled) -> bool:
    """Whether no candidate can stay: the gate wants a higher score, and there is none.

    Only before the first step, and if no reviewer asks for anything. A skill that came to solve
    everything by training is trained on until the epochs are over.
    """
    untouched = standing.state.step == 0 and not unheard(session.notes, standing.state)
    return untouched and no_score_is_higher(session.config, standing.state.current)


def no_score_is_higher(config: Config, current: Snapshot) -> bool:
    """Whether only a higher score lets anything stay, and the current one is the highest."""
    measured = current.measurement
    return _is_strict(config) and measured.n > 0 and _rounds_to_all(measured.score)


def refuse_to_learn_nothing(session: Session, standing: Settled) -> None:
    """Raise :class:`~skillopt_ci.errors.NothingToLearn` before an optimizer is paid in vain."""
    if not learns_nothing(session, standing):
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


async def settle(session: Session, standing: Standing, run_started: float) -> Settled:
    """Measure and record the current skill if it has no valid score; otherwise change nothing."""
    why = unsettled(session, standing)
    if not why and standing.state is not None:
        return as_settled(standing, standing.state)
    if standing.state is None and (note := hardly_loaded(standing.skill, session.skill_path)):
        session.observer(note)
    session.observer(Note(f"Measuring the current skill: {why}."))
    meter = session.meter(run_started, standing.spent)
    async with session.bench(f"{session.config.run}/measure@{standing.commit}", meter) as bench:
        current = await _measure(session, standing.skill, bench)
        best = await _best(session, standing, current, bench)
    if standing.state is None and (note := first_impression(current)):
        session.observer(note)
    state = _state(session, standing, current, best, meter)
    entry = _entry(session, standing, state, why, meter.total())
    text = (
        started(entry, session.skill_path, current)
        if standing.state is None
        else measured(entry, current, _changes_since(session, standing))
    )
    changes = _changes(session, standing, state, entry, best)
    return as_settled(publish(session, standing, text, changes), state)


def _changes_since(session: Session, standing: Standing) -> tuple[str, ...]:
    basis = None if standing.state is None else standing.state.basis
    return changes_since(basis, basis_of(session))


def as_settled(standing: Standing, state: State) -> Settled:
    """The ground, known to have a valid score."""
    return Settled(standing.commit, standing.branch, standing.skill, state, standing.history)


def unsettled(session: Session, standing: Standing) -> str:
    """Why the current skill must be measured, in words; empty if its score is valid."""
    state = standing.state
    if state is None:
        return "training starts"
    if state.current.sha256 != standing.sha256:
        return "the skill was changed by hand"
    if state.measured_under != session.measured_under:
        return "the selection tasks or the way of measuring changed"
    return ""


async def _measure(session: Session, skill: str, bench: Bench) -> Measurement:
    return await measure(
        skill,
        session.selection,
        runner=bench.runner,
        evaluation=session.config.evaluation,
        observer=session.observer,
    )


async def _best(
    session: Session, standing: Standing, current: Measurement, bench: Bench
) -> tuple[str, Snapshot]:
    """The best text and its snapshot: a person's change becomes best only by a higher score."""
    state, text = standing.state, best_text(session, standing)
    step = 0 if state is None else state.step
    mine = Snapshot(
        sha256=standing.sha256, step=step, origin=_origin(standing), measurement=current
    )
    if state is None or text is None:
        return standing.skill, mine
    best = state.best
    if state.measured_under != session.measured_under:
        again = await _measure(session, text, bench)
        best = best.model_copy(update={"measurement": again})
    return (standing.skill, mine) if current.score > best.measurement.score else (text, best)


def best_text(session: Session, standing: Standing) -> str | None:
    """The best skill so far, if it is known and not the current one."""
    state = standing.state
    if state is None or state.best.sha256 == standing.sha256:
        return None
    text = session.ledger.read(standing.commit, session.folder.best_skill) or ""
    return text if sha256(text) == state.best.sha256 else None


def _origin(standing: Standing) -> str:
    state = standing.state
    if state is None:
        return "initial"
    return state.current.origin if state.current.sha256 == standing.sha256 else "edited by hand"


def _state(
    session: Session,
    standing: Standing,
    current: Measurement,
    best: tuple[str, Snapshot],
    meter: Meter,
) -> State:
    before = standing.state
    return State(
        run=session.config.run,
        skill=session.skill_path,
        step=0 if before is None else before.step,
        epoch=0 if before is None else before.epoch,
        current=Snapshot(
            sha256=standing.sha256,
            step=0 if before is None else before.step,
            origin=_origin(standing),
            measurement=current,
        ),
        best=best[1],
        boundary=0 if before is None else before.boundary,
        measured_under=session.measured_under,
        config_sha256=session.config_sha256,
        basis=basis_of(session) if before is None else before.basis,
        heard_notes=() if before is None else before.heard_notes,
        usage=UsageRecord.of(standing.spent + meter.total()),
        accounts=with_accounts(
            () if before is None else before.accounts, account_records(meter.accounts())
        ),
        simulated=session.simulated,
    )


def _entry(
    session: Session, standing: Standing, state: State, why: str, usage: Usage
) -> HistoryEntry:
    before = standing.state
    return HistoryEntry(
        kind="start" if before is None else "measure",
        step=state.step,
        epoch=state.epoch,
        action="start" if before is None else "measure",
        reason=why,
        score_before=None if before is None else before.current.measurement.score,
        score_after=state.current.measurement.score,
        best_score=state.best.measurement.score,
        tasks=state.current.measurement.n,
        skill_sha256=state.current.sha256,
        words=word_count(standing.skill),
        config_sha256=session.config_sha256,
        usage=UsageRecord.of(usage),
        simulated=session.simulated,
    )


def _changes(
    session: Session,
    standing: Standing,
    state: State,
    entry: HistoryEntry,
    best: tuple[str, Snapshot],
) -> dict[str, str | None]:
    folder = session.folder
    first = standing.state is None
    return {
        **folder.furniture(),
        **({folder.initial_skill: standing.skill} if first else {}),
        folder.state: document(state),
        folder.history: "".join(line(one) for one in (*standing.history, entry)),
        folder.best_skill: best[0],
    }
