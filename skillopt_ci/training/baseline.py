"""Measure the current skill, the baseline for candidates, and comment on its first score.

A skill without a valid score is measured before anything else: at the start of a run, after a
person changed it, and after a change to anything that scores depend on.
"""

import shlex
from typing import Literal

from skillopt_ci.errors import NothingToLearn
from skillopt_ci.ledger.evidence import Measurement, as_recorded
from skillopt_ci.ledger.folder import FIXED_FILES
from skillopt_ci.ledger.records import Confirmed, Snapshot, State
from skillopt_ci.ledger.summary import MEASURED_ANEW
from skillopt_ci.progress import Note
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.validation import seen_path, unloadable
from skillopt_ci.text import score
from skillopt_ci.training.gate import PERFECT, compare
from skillopt_ci.training.measure import measure
from skillopt_ci.training.memory import measured_before, warn_of_trained
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import (
    Checkout,
    RunEvent,
    ScoredCheckout,
    changes_since,
    charged,
    history_entry,
    open_models,
    record_events,
    taken_back,
)

#: At or above this score, differences between candidates are mostly chance.
NEARLY = 0.95


def nothing_to_learn(run: Run, checkout: ScoredCheckout) -> NothingToLearn:
    """Why the run ends before its first step."""
    measured = checkout.state.current.measurement
    unmeasured = f"; {len(measured.errors)} were not measured" if measured.errors else ""
    return NothingToLearn(
        f"There is nothing to learn: before any training, all measured selection tasks "
        f"({measured.n}{unmeasured}) are solved, so no edit can score higher.",
        hint="Put harder tasks into the selection and training sets, grade more strictly, or name "
        "a weaker model.target. To shorten the skill without losing score, set "
        f"evaluation.ties: prefer_shorter.{unused_tasks(run)}",
    )


def unused_tasks(run: Run) -> str:
    """How to use the selection tasks that a budget leaves out, as a sentence; empty if none are."""
    used, given = len(run.selection), len(run.splits.selection)
    return f" To use all {given} of them, set evaluation.sel_env_num: 0." if used < given else ""


def first_impression(current: Measurement) -> Note | None:
    if current.n == 0 or current.score > PERFECT:
        return None
    if current.score >= NEARLY:
        return Note(
            f"The skill scores {score(current.score)} before any training: there is little left to "
            "gain on these selection tasks. Harder tasks would show more.",
            level="warning",
        )
    if not any(hard or soft for hard, soft in current.tasks.values()):
        return Note(
            "No selection task was solved. Look at an answer: `skillopt-ci trace "
            f"{shlex.quote(next(iter(current.tasks)))}`. If it is right, check that the scorer "
            "finds it in the reply (scorer.answer) and that the reference has the same form."
        )
    return None


async def ensure_scored(run: Run, checkout: Checkout, *, candidate: bool = False) -> ScoredCheckout:
    """Measure and record a skill without a score; a ``candidate`` is charged once it is decided."""
    why, before = unscored(run, checkout), checkout.state
    if not why and before is not None:
        return as_scored(checkout, before)
    seen = seen_path(run.root, run.config.skill, run.ledger.git.folder.resolve())
    if before is None and (reason := unloadable(checkout.skill, seen)):
        # the skill can be trained, but agents would not load it
        run.observer(Note(reason, level="warning"))
    warn_of_trained(run, checkout, run.selection, "selection")
    run.observer(Note(f"Measuring the current skill: {why}."))
    async with open_models(run, checkout, "measure", alone=candidate) as models:
        current = await _measured(run, checkout, models)
        best_skill, best = await _best(run, checkout, current, models)
    measurement = current.measurement
    if before is None and (note := first_impression(measurement)):
        run.observer(note)
    found: dict[str, object] = {
        "current": current,
        "best": best,
        "measured_under": run.measured_under,
        "config_sha256": run.config_sha256,
        "simulated": run.simulated,
        **charged(checkout, models.meter.total(), models.meter.accounts()),
    }
    files: dict[str, str | None] = {**FIXED_FILES, run.folder.best_skill: best_skill}
    if before is None:
        start = {"run": run.config.run, "skill": run.skill_path, "step": 0, "epoch": 0}
        if run.config.evaluation.confirm:
            found["confirmed"] = Confirmed(sha256=checkout.sha256, step=0)
        state = State.model_validate({**start, "basis": run.basis, "kept": run.kept, **found})
        files[run.folder.initial_skill] = checkout.skill
        files[f"{run.folder.path}/.gitattributes"] = "** -filter\n"  # Git LFS would make pointers
    else:
        state = before.model_copy(update=found)
    kind: Literal["start", "measure"] = "start" if before is None else "measure"
    entry = history_entry(
        run,
        kind,
        state,
        checkout.skill,
        action=kind,
        reason=why,
        score_before=None if before is None else before.current.measurement.score,
        score_after=measurement.score,
        tasks=measurement.n,
        usage=as_recorded(models.meter.total()),
    )
    changes = changes_since(None if before is None else before.basis, run.basis)
    event = RunEvent(entry, state, checkout.skill, files, changes=changes)
    return record_events(run, checkout, event)


async def _measured(run: Run, checkout: Checkout, models: OpenModels) -> Snapshot:
    before, taken, known = checkout.state, taken_back(checkout.history), None
    if taken and before is not None:  # a revert may have restored an earlier, measured text
        known = measured_before(run, as_scored(checkout, before), checkout.skill)
    measurement = (known and known.measurement.whole) or await measure(
        run, models, checkout.skill, run.selection, baseline=True
    )
    if before is None:
        step, origin = 0, "initial"
    elif before.current.sha256 == checkout.sha256:
        step, origin = before.current.step, before.current.origin
    else:
        step, origin = before.step, f"without {taken[0].taken}" if taken else "edited by hand"
    return Snapshot(sha256=checkout.sha256, step=step, origin=origin, measurement=measurement)


def as_scored(checkout: Checkout, state: State) -> ScoredCheckout:
    return ScoredCheckout(checkout.commit, checkout.branch, checkout.skill, state, checkout.history)


def unscored(run: Run, checkout: Checkout) -> str:
    """Why the current skill must be measured; empty if its score is valid."""
    state = checkout.state
    if state is None:
        return "training starts"
    whys = []
    if state.current.sha256 != checkout.sha256:
        steps = " and ".join(one.taken for one in reversed(taken_back(checkout.history)))
        whys.append(f"{steps} taken back" if steps else "the skill was changed by hand")
    if state.measured_under != run.measured_under:
        whys.append(MEASURED_ANEW)
    return ", and ".join(whys)


def unscored_texts(run: Run, checkout: Checkout) -> tuple[str, ...]:
    """The current skill, if it must be measured, and the best one, if that must be, too."""
    if not unscored(run, checkout):
        return ()
    state = checkout.state
    anew = state is not None and state.measured_under != run.measured_under
    best = best_text(run, checkout) if anew else None
    return (checkout.skill,) if best is None else (checkout.skill, best)


async def _best(
    run: Run, checkout: Checkout, current: Snapshot, models: OpenModels
) -> tuple[str, Snapshot]:
    """The best text and its snapshot; a person's change becomes best by the gate's rule."""
    state, text = checkout.state, best_text(run, checkout)
    taken = taken_back(checkout.history)  # a skill with such a step can no longer be the best
    if state is None or text is None or any(one.step <= state.best.step for one in taken):
        return checkout.skill, current
    best = state.best
    if state.measured_under != run.measured_under:
        again = await measure(run, models, text, run.selection)
        best = best.model_copy(update={"measurement": again})
    ours, theirs = current.measurement, best.measurement
    beaten = compare(ours, theirs, theirs, run.config.evaluation).beats_best
    return (checkout.skill, current) if beaten else (text, best)


def best_text(run: Run, checkout: Checkout) -> str | None:
    """The best skill so far; None if it is the current one or its text is missing."""
    state = checkout.state
    if state is None or state.best.sha256 == checkout.sha256:
        return None
    text = run.ledger.read(checkout.commit, run.folder.best_skill) or ""
    return text if sha256(text) == state.best.sha256 else None
