"""``skillopt-ci check --probe``: each model answers one question of the optimizer's contract."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.cli.build import roles_of
from skillopt_ci.cli.findings import Finding, failed, mend
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import SkilloptError
from skillopt_ci.messages import Message
from skillopt_ci.model.access import base_url_of
from skillopt_ci.model.budget import Meter, tariff_of
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.redaction import Redact
from skillopt_ci.text import cost_text, plural
from skillopt_ci.training.replies import RANKING, WireError, parse_ranking

#: Seconds that somebody who asks waits for an answer.
_LONGEST_CALL = 120.0
_QUESTION = (
    Message("system", "You rank edits of a document. Reply with one JSON object and nothing else."),
    Message(
        "user",
        "Edits:\n[0] Correct a spelling mistake\n[1] Delete the whole document\n\n"
        'Choose the better one. Reply as {"reasoning": "<one sentence>", "selected_indices": [n]}.',
    ),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """How one role answered: ``facts`` is what programs get of it, without any secret."""

    role: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]


async def ask_models(
    models: Models, environ: Mapping[str, str], root: Path, redact: Redact
) -> list[Answer]:
    """Ask every role one question, one after the other: they may be one small server."""
    return [
        await _ask_role(name, config, environ, root, redact)
        for name, config in roles_of(models).items()
    ]


def key_source(config: ModelRole) -> str:
    """Where the key comes from, never the key."""
    if config.api_key_file:
        return f"key in the file {config.api_key_file}"
    return f"key in {config.key_variable}" if config.key_variable else "no key"


async def _ask_role(
    name: str, config: ModelRole, environ: Mapping[str, str], root: Path, redact: Redact
) -> Answer:
    part, price = f"model.{name}", tariff_of(config)
    simulated = config.provider == "simulated"
    served = not simulated and config.preset.protocol != "command"
    facts: dict[str, object] = {
        "provider": config.provider,
        "model": config.model,
        "address": base_url_of(config) if served else None,
        "key": key_source(config),
        "answered": False,
        "seconds": None,
        "structured": None,
        "usage_reported": None,
        "price": {"source": price.source, "text": price.text},
    }
    began = time.monotonic()
    try:
        reply = await _ask(Role(name), config, environ, root, redact)
    except SkilloptError as error:
        return Answer(name, (failed(part, error),), facts)
    seconds, usage, structured = time.monotonic() - began, reply.usage, simulated
    with suppress(WireError):
        structured = structured or bool(parse_ranking(reply.text, 2, 1))
    facts |= {
        "answered": True,
        "seconds": round(seconds, 3),
        "structured": structured,
        "usage_reported": not usage.estimated,
    }
    used = f"{plural(usage.tokens, 'token')}, {cost_text(usage.cost_usd)}"
    found = [Finding(part, "ok", f"{reply.model} answered in {seconds:.1f} s ({used})")]
    if not structured:
        found.append(_misfit(part, name, reply))
    if usage.estimated:
        text = "the server reports no usage: tokens are counted from the texts"
        found.append(Finding(part, "warning", text))
    return Answer(name, tuple(found), facts)


async def _ask(
    role: Role, config: ModelRole, environ: Mapping[str, str], root: Path, redact: Redact
) -> ChatReply:
    impatient = config.model_copy(
        update={"retries": min(1, config.retries), "timeout": min(_LONGEST_CALL, config.timeout)}
    )
    # the other roles are simulated: their mistakes are theirs
    others = {
        name: ModelRole(provider="simulated", model=f"simulated-{name}")
        for name in ("target", "optimizer")
    }
    models = Models(**{**others, role.value: impatient})
    async with open_router(models, environ, root=root, redact=redact) as router:
        request = ChatRequest(role, "doctor", _QUESTION, reply_schema=RANKING)
        client = router.for_work("doctor", Meter(clock=time.monotonic))
        return await client.complete(request)


def _misfit(part: str, role: str, reply: ChatReply) -> Finding:
    hint = "Choose a model that follows instructions, or see structured_output."
    if reply.finish_reason == "length":
        why = "was cut off at the token limit: raise max_output_tokens"
    elif not reply.text.strip():
        why = "was empty"
        hint = "A reasoning model may spend its tokens before it answers: raise max_output_tokens."
    else:
        why = "was not the JSON object that was asked for"
    if role == "target":
        # what the target must be able to write, its tasks and scorers say
        told = f"its answer {why}; only tasks that want JSON need it"
        if not reply.text.strip():
            told = f"its answer was empty\n{hint}"
        return Finding(part, "warning", told)
    return mend(part, f"its answer {why}\n{hint}")
