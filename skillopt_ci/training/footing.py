"""Footing: the skill that a batch is attempted under, the current one or the one before it."""

from dataclasses import dataclass

from skillopt_ci.skill.document import sha256
from skillopt_ci.training.evidence import Made, attempts_so_far
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Standing

#: Events that a verdict is part of; after others (a change by hand) the current skill counts.
_VERDICTS = ("step", "notes", "slow_update")


@dataclass(frozen=True, slots=True)
class Footing:
    """What a batch is attempted under; ``made`` are the attempts that were made under it before."""

    skill: str
    made: Made


def find_footing(session: Session, standing: Standing) -> Footing:
    """The footing of the next batch.

    With `train.staleness: 1` that is the skill before the latest verdict, as in asynchronous
    reinforcement learning, where actors are one update behind the learner.
    """
    former = _former(session, standing)
    skill = standing.skill if former is None else former
    return Footing(skill, attempts_so_far(session, standing, skill))


def remembered(session: Session, standing: Standing) -> dict[str, str | None]:
    """The file that :func:`find_footing` needs after a verdict that changes the skill."""
    if session.config.train.staleness == 0:
        return {}
    return {session.folder.former_skill: standing.skill}


def _former(session: Session, standing: Standing) -> str | None:
    """The text before the latest verdict, if that changed it and nobody did since."""
    events = standing.history
    # a run begins with another event than a verdict, so a verdict has one before it
    if session.config.train.staleness == 0 or not events or events[-1].kind not in _VERDICTS:
        return None
    before, last = events[-2:]
    if last.skill_sha256 != standing.sha256:
        return None
    text = session.ledger.read(standing.commit, session.folder.former_skill)
    return text if text is not None and sha256(text) == before.skill_sha256 else None
