"""Examine one model role: its key, its address, and how it answers one question of the contract."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from skillopt_ci.cli.examine import Finding, failed
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import ExitCode, InfrastructureError, SkilloptError
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter, Tariff, tariff_of
from skillopt_ci.model.build import open_models
from skillopt_ci.model.cache import base_url_of
from skillopt_ci.model.keys import api_key, key_variable
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.redaction import Redact
from skillopt_ci.report.text import cost_text, plural
from skillopt_ci.training import replies
from skillopt_ci.training.replies import WireError, parse_ranking

#: Nobody waits longer for a doctor.
LONGEST_CALL = 120.0
LONGEST_CONNECT = 10.0

_QUESTION = (
    Message("system", "You rank edits of a document. Reply with one JSON object and nothing else."),
    Message(
        "user",
        "Edits:\n[0] Correct a spelling mistake\n[1] Delete the whole document\n\n"
        'Choose the better one. Reply as {"reasoning": "<one sentence>", "selected_indices": [n]}.',
    ),
)
_STAND_INS = {"target": "simulated-target", "optimizer": "simulated-optimizer"}


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found of one role. ``seconds`` and what comes after it are None without an answer.

    ``key`` says where the key comes from, never the key.
    """

    role: str
    provider: str
    model: str
    address: str
    key: str
    findings: tuple[Finding, ...]
    price: Tariff
    seconds: float | None = None
    structured: bool | None = None
    usage_reported: bool | None = None


async def check_role(
    name: Literal["target", "optimizer", "judge"],
    config: ModelRole,
    environ: Mapping[str, str],
    root: Path,
    redact: Redact,
) -> Checkup:
    """Examine the role called ``name``; it is asked one question, unless that cannot succeed."""
    part, price = f"model.{name}", tariff_of(config)
    served = config.preset.protocol not in ("command", "simulated")
    found = Checkup(
        role=name,
        provider=config.provider,
        model=config.model,
        address=base_url_of(config) if served else "",
        key=_key_source(config),
        findings=(Finding(part, "ok", _configured(config)), *_price_findings(part, price)),
        price=price,
    )
    try:
        if served:
            api_key(part, config, environ, root)
            await _connect(part, found.address, environ)
        return await _asked(found, name, config, environ, root, redact)
    except SkilloptError as error:
        return replace(found, findings=(*found.findings, failed(part, error)))


def _configured(config: ModelRole) -> str:
    where = "" if config.preset.protocol != "command" else f": {' '.join(config.program)}"
    return f"{config.model} ({config.provider}{where}), {_key_source(config)}"


def _key_source(config: ModelRole) -> str:
    if config.api_key_file:
        return f"key in the file {config.api_key_file}"
    variable = key_variable(config)
    return f"key in {variable}" if variable else "no key"


def _price_findings(part: str, price: Tariff) -> Iterator[Finding]:
    if price.known:
        yield Finding(part, "ok", f"price: {price.text}")
    else:
        text = f"no price is known: cost will be unknown; set {part}.price to know it"
        yield Finding(part, "warning", text)


async def _connect(part: str, address: str, environ: Mapping[str, str]) -> None:
    """Raise InfrastructureError if nobody is at ``address``; a proxy has to be asked instead."""
    url = urlsplit(address)
    proxies = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "ALL_PROXY", "all_proxy")
    if url.hostname is None or any(environ.get(name) for name in proxies):
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        async with asyncio.timeout(LONGEST_CONNECT):
            _, writer = await asyncio.open_connection(url.hostname, port)
    except TimeoutError as error:
        raise _unreachable(part, url.hostname, port, "no answer") from error
    except OSError as error:
        raise _unreachable(part, url.hostname, port, error.strerror or str(error)) from error
    writer.close()


def _unreachable(part: str, host: str, port: int, why: str) -> SkilloptError:
    return InfrastructureError(
        f"{part}: nobody can be reached at {host}, port {port}: {why}",
        hint=f"Check {part}.base_url, the network and its proxy, and that the server runs.",
    )


async def _asked(
    found: Checkup,
    name: str,
    config: ModelRole,
    environ: Mapping[str, str],
    root: Path,
    redact: Redact,
) -> Checkup:
    role = Role(name)
    impatient = config.model_copy(
        update={"retries": min(1, config.retries), "timeout": min(LONGEST_CALL, config.timeout)}
    )
    request = ChatRequest(role, "doctor", _QUESTION, reply_schema=replies.ranking())
    opened = open_models(
        _alone(role, impatient),
        environ,
        cache_path=None,
        scope="doctor",
        meter=Meter(clock=time.monotonic),
        root=root,
        redact=redact,
    )
    async with opened as client:
        began = time.monotonic()
        reply = await client.complete(request)
        seconds = time.monotonic() - began
    return _judged(found, reply, seconds)


def _alone(role: Role, config: ModelRole) -> Models:
    """Models of which only ``role`` is a real one: others' mistakes are theirs."""
    others = {
        name: ModelRole(provider="simulated", model=model) for name, model in _STAND_INS.items()
    }
    return Models(**{**others, role.value: config})


def _judged(found: Checkup, reply: ChatReply, seconds: float) -> Checkup:
    part, usage = f"model.{found.role}", reply.usage
    used = f"{plural(usage.tokens, 'token')}, {cost_text(usage.cost_usd)}"
    findings = [Finding(part, "ok", f"{reply.model} answered in {seconds:.1f} s ({used})")]
    structured = found.provider == "simulated" or _fits(reply.text)
    if not structured:
        findings.append(_unfit(part, found.role, reply))
    if usage.estimated:
        text = "the server reports no usage: tokens are counted from the texts"
        findings.append(Finding(part, "warning", text))
    return replace(
        found,
        findings=(*found.findings, *findings),
        seconds=seconds,
        structured=structured,
        usage_reported=not usage.estimated,
    )


def _fits(text: str) -> bool:
    try:
        parse_ranking(text, 2, 1)
    except WireError:
        return False
    return True


def _unfit(part: str, role: str, reply: ChatReply) -> Finding:
    why = (
        "was cut off at the token limit: raise max_output_tokens"
        if reply.finish_reason == "length"
        else "was not the JSON object that was asked for"
    )
    if role == "target":
        # what the target must be able to write, its tasks and scorers say
        return Finding(part, "warning", f"its answer {why}; only tasks that want JSON need it")
    hint = "Choose a model that follows instructions, or see structured_output."
    return Finding(part, "error", f"its answer {why}\n{hint}", ExitCode.USAGE)
