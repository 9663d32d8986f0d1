"""What an estimate takes for granted: from the run's own history, else by rule of thumb."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import ChatSettings, HumanSettings, ScriptedSettings
from skillopt_ci.ledger.records import HistoryEntry, StepRecord

#: Before there is any history: the share of candidates that is accepted where any gain is enough
#: and where chance must not explain it, and of steps that propose nothing.
_ACCEPTED, _CONVINCING, _EMPTY = 0.5, 0.35, 0.1
#: How many observations these are worth.
_WEIGHT = 4
#: An accepted candidate closes this share of the gap to a perfect score.
GAIN = 0.4
#: Answers of an agent on a task, as long as none was seen; and the most where nothing limits them.
_AGENT_STEPS, _UNLIMITED_STEPS = 10, 200


@dataclass(frozen=True, slots=True)
class Assumed:
    """``solved`` is the score that the current skill starts from.

    Of the steps the share ``empty`` proposes nothing, and of the candidates the share ``accepted``
    is kept. ``calls`` is how many calls of the target an attempt takes: at least, likely, at most.
    """

    solved: float = 0.5
    accepted: float = _ACCEPTED
    empty: float = _EMPTY
    calls: tuple[int, float, int] = (1, 1.0, 1)


def assumed(
    config: Config,
    solved: float | None,
    history: Iterable[HistoryEntry],
    steps: Sequence[StepRecord],
) -> Assumed:
    """What to assume after ``history``, of which ``steps`` are the latest records."""
    done = [one for one in history if one.kind == "step"]
    judged = [one for one in done if not one.action.startswith("skip")]
    strict = config.evaluation.gate.policy == "strict"
    kept = sum(one.action.startswith("accept") for one in judged)
    return Assumed(
        solved=0.5 if solved is None else solved,
        accepted=_share(kept, len(judged), _ACCEPTED if strict else _CONVINCING),
        empty=_share(len(done) - len(judged), len(done), _EMPTY),
        calls=_calls(config, steps),
    )


def _share(seen: int, of: int, before: float) -> float:
    return (seen + _WEIGHT * before) / (of + _WEIGHT)


def _calls(config: Config, steps: Sequence[StepRecord]) -> tuple[int, float, int]:
    """Calls of the target that an attempt takes; some environments have agents of their own."""
    solver, most = config.rollout.solver, config.rollout.limits.steps or _UNLIMITED_STEPS
    if isinstance(solver, ChatSettings) and config.environment is None:
        return 1, 1.0, 1
    if isinstance(solver, ScriptedSettings | HumanSettings):
        return 0, 0.0, 0
    attempts = sum(len(one.proposal.rollout.tasks) for one in steps)
    used = sum(one.proposal.usage["rollout"].calls for one in steps if _tells(one))
    if attempts and used:
        return 0, used / attempts, most
    return 0, 1.0 if isinstance(solver, ChatSettings) else float(min(_AGENT_STEPS, most)), most


def _tells(step: StepRecord) -> bool:
    return "rollout" in step.proposal.usage
