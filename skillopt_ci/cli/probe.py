"""One small call to each model role, to see that it answers."""

import time
from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.cli.examine import Finding, failed
from skillopt_ci.config.models import Models
from skillopt_ci.errors import SkilloptError
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_models
from skillopt_ci.model.types import ChatClient, ChatRequest, Role
from skillopt_ci.report.text import plural

_QUESTION = (Message("user", "Reply with the single word: ready"),)


async def probe_models(
    models: Models, environ: Mapping[str, str], root: Path = Path()
) -> list[Finding]:
    """Call every role once, whatever became of the others; commands run in ``root``."""
    roles = [Role.TARGET, Role.OPTIMIZER, *([Role.JUDGE] if models.judge else [])]
    meter = Meter(clock=time.monotonic)
    try:
        opened = open_models(
            models, environ, cache_path=None, scope="probe", meter=meter, root=root
        )
        async with opened as client:
            return [await _probe(client, role) for role in roles]
    except SkilloptError as error:
        return [failed("probe", error)]


async def _probe(client: ChatClient, role: Role) -> Finding:
    try:
        reply = await client.complete(ChatRequest(role, "probe", _QUESTION))
    except SkilloptError as error:
        return failed(f"model.{role.value}", error)
    tokens = plural(reply.usage.tokens, "token")
    if not reply.text.strip():
        return Finding(
            f"model.{role.value}",
            "warning",
            f"{reply.model} answered with an empty text ({tokens})\nA reasoning model may spend "
            "its tokens before it answers: if "
            f"model.{role.value}.max_output_tokens is set, raise it.",
        )
    return Finding(f"model.{role.value}", "ok", f"{reply.model} answered ({tokens})")
