"""What an agent's program that failed means: set up wrong, a server in trouble, or the agent.

The patterns are of what the real programs write when a server refuses them; the checks that
``scripts/agent-check.sh`` runs send each of them every refusal.
"""

import re

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.rollout.steps import AgentError

_CANNOT_RUN = (126, 127)
_SHOWN = 500

_BAD_KEY = re.compile(
    r"invalid (?:x-)?api[ -]?key|incorrect api key|api key (?:is )?(?:not valid|missing|required)"
    r"|authentication[_ ](?:error|failed|required)|not (?:logged|signed) in|(?:run|use) /login"
    r"|no authentication information|\b40[13]\b|unauthori[sz]ed|failed to authenticate"
    r"|(?:set an|invalid) auth method",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"rate[ _-]?limit|too many requests|overloaded|\b(?:429|500|502|503|504|529)\b"
    r"|service unavailable|resource[_ ]exhausted|quota|usage limit|(?:internal )?server[ _]error"
    r"|econnre(?:set|fused)|etimedout|enotfound|eai_again|connection (?:error|reset|refused)"
    r"|stream disconnected|network error|fetch failed|high demand|temporary error",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"(?:prompt|input|context)\b.{0,60}\b(?:too long|exceed\w*|maximum)"
    r"|context[ _](?:length|window)|content[ _](?:filter|policy)|usage polic|invalid_prompt",
    re.IGNORECASE,
)
_WRONG_SETTING = re.compile(
    r"\b404\b|\bmodels?\b.{0,80}\bnot (?:found|exist)|unknown (?:option|arguments?)\b"
    r"|unexpected argument|root/sudo privileges",
    re.IGNORECASE,
)
_WAITING = re.compile(r"Attempt \d+ failed(?: with status \d+)?\.[^\n]*")


def failure(
    agent: str, program: str, status: int, told: str, *, worked: bool, silent: bool = False
) -> Exception:
    """Return what to raise for a program that ended with ``status`` and said ``told``.

    ``worked``: it has answered or used a tool before. Then a program that could not be found is
    one of the agent's own. ``silent``: it would have told of answers, and there was none, so that
    neither the model nor the skill can be the cause, unless the server refuses the prompt itself.
    """
    said = " ".join(told.split())[-_SHOWN:] or "it said nothing"
    if status in _CANNOT_RUN and not worked:
        return _cannot_run(program, said)
    if _BUSY.search(said):
        return ModelUnavailable(f"{agent} gave up (exit status {status}): {said}")
    known = None if worked else _not_begun(agent, said)
    if known is None and silent:
        return ModelUnavailable(
            f"{agent} ended with exit status {status} before its model had answered: {said}"
        )
    return known or AgentError(f"{agent} ended with exit status {status}: {said}")


def waiting_for_server(stderr: str) -> str:
    """Return what an agent that tells of it on standard error last said of asking again."""
    told = _WAITING.findall(stderr)
    return told[-1] if told else ""


def _not_begun(agent: str, said: str) -> Exception | None:
    if _REFUSED.search(said):
        return ModelRefusal(f"{agent}'s server refused the prompt: {said}")
    if _BAD_KEY.search(said):
        return _no_key(agent, said)
    return _set_up_wrong(agent, said) if _WRONG_SETTING.search(said) else None


def _cannot_run(program: str, said: str) -> ModelSetupError:
    return ModelSetupError(
        f"rollout.solver: {program!r} cannot be run on the task's computer: {said}",
        hint="Install it there. In a sandbox, name the folder that it is installed in under "
        "`rollout.computer.readable`, and its full path as `rollout.solver.command`.",
    )


def _no_key(agent: str, said: str) -> ModelSetupError:
    return ModelSetupError(
        f"rollout.solver: {agent} has no valid key: {said}",
        hint="Set the variable that holds its key; `rollout.solver.env` names those it may see."
        " It needs `rollout.computer.network: open` as well.",
    )


def _set_up_wrong(agent: str, said: str) -> ModelSetupError:
    as_root = "root/sudo" in said
    return ModelSetupError(
        f"rollout.solver: {agent} cannot work as it is set up: {said}",
        hint="Run it in a sandbox, where it is not root, or set `rollout.computer.environ: "
        "{IS_SANDBOX: '1'}` if this machine may be lost."
        if as_root
        else "`model`, `command` and `arguments` of `rollout.solver` say how it is run.",
    )
