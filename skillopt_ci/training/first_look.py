"""First look: what the first measurement of a skill says about whether training can pay."""

from collections.abc import Iterable
from pathlib import Path

from skillopt_ci.config.config import Config
from skillopt_ci.errors import NothingToLearn
from skillopt_ci.ledger.records import Measurement, Snapshot
from skillopt_ci.progress import Note
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.validation import unloadable
from skillopt_ci.training.reviewer_notes import unheard
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled

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
