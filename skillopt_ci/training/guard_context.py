"""What the guard knows of a run: its skills, its tasks' answers, the keys of its models."""

import re
from collections.abc import Iterator
from functools import partial

from skillopt_ci.training.guard import GuardContext
from skillopt_ci.training.guard_answers import Answers
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Standing

#: What the name of a variable that holds a secret tells of it.
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)


def guard_context(session: Session, standing: Standing) -> GuardContext:
    """The context for changes of the skill at ``standing``.

    Known is what stands in the initial, the best or the current skill. Guarded are the answers of
    all splits: the optimizer sees only those of training tasks, but may know or guess others.
    """
    read, folder = partial(session.ledger.read, standing.commit), session.folder
    earlier = (read(path) or "" for path in (folder.initial_skill, folder.best_skill))
    splits = session.splits
    return GuardContext(
        rules=session.config.guard,
        known="\n".join((standing.skill, *earlier)),
        answers=Answers.of((*splits.train, *splits.selection, *splits.test)),
        keys=tuple(_keys(session)),
    )


def _keys(session: Session) -> Iterator[str]:
    models = session.config.model
    for role in filter(None, (models.target, models.optimizer, models.judge)):
        names = [role.api_key_env or "", *filter(_SECRET_NAME.search, role.env)]
        yield from (session.environ[name] for name in names if session.environ.get(name))
