"""What an agent's program that failed means: set up wrong, a server in trouble, or the agent."""

import re

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.client import ModelUnavailable
from skillopt_ci.rollout.steps import AgentError

_CANNOT_RUN = (126, 127)
_SHOWN = 500

_BAD_KEY = re.compile(
    r"invalid (?:x-)?api[ -]?key|incorrect api key|api key (?:is )?(?:not valid|missing|required)"
    r"|authentication[_ ](?:error|failed|required)|not (?:logged|signed) in|(?:run|use) /login"
    r"|no authentication information|\b401\b|unauthori[sz]ed|set an auth method",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"rate[ _-]?limit|too many requests|overloaded|\b(?:429|500|502|503|504|529)\b"
    r"|service unavailable|resource[_ ]exhausted|quota|usage limit|(?:internal )?server[ _]error"
    r"|econnre(?:set|fused)|etimedout|enotfound|eai_again|connection (?:error|reset|refused)"
    r"|stream disconnected|network error|fetch failed",
    re.IGNORECASE,
)


def failure(agent: str, program: str, status: int, told: str, *, worked: bool) -> Exception:
    """Return what to raise for a program that ended with ``status`` and said ``told``.

    ``worked``: it has answered or used a tool before. Then a program that could not be found is
    one of the agent's own.
    """
    said = " ".join(told.split())[-_SHOWN:] or "it said nothing"
    if status in _CANNOT_RUN and not worked:
        return ModelSetupError(
            f"rollout.solver: {program!r} cannot be run on the task's computer: {said}",
            hint="Install it there. In a sandbox, name the folder that it is installed in under "
            "`rollout.computer.readable`, and its full path as `rollout.solver.command`.",
        )
    if _BUSY.search(said):
        return ModelUnavailable(f"{agent} gave up (exit status {status}): {said}")
    if _BAD_KEY.search(said) and not worked:
        return ModelSetupError(
            f"rollout.solver: {agent} has no valid key: {said}",
            hint="Set the variable that holds its key; `rollout.solver.env` names those it may see."
            " It needs `rollout.computer.network: open` as well.",
        )
    return AgentError(f"{agent} ended with exit status {status}: {said}")
