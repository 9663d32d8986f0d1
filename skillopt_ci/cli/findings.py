"""What a check finds, what it hears from the models, and how a command prints all of it."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from skillopt_ci.cli.options import Globals, wrapped
from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.redaction import Redact
from skillopt_ci.sanitize import harmless
from skillopt_ci.text import cost_text, plural
from skillopt_ci.training.replies import RANKING, WireError, parse_ranking

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_TEXT_STARTS = 26


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``exit_code`` is what an error of its kind ends a command with."""

    part: str
    level: Literal["ok", "warning", "error"]
    text: str
    exit_code: ExitCode = ExitCode.USAGE
    #: A warning that a check gets over and a training step does not: a key that is missing.
    blocks: bool = False
    #: What can be done if all is well, and the command for it, where this is not the next step.
    then: tuple[str, str] | None = None


def failed(part: str, error: SkilloptError) -> Finding:
    return Finding(part, "error", str(error), error.exit_code)


def up_to_error(part: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, and the error that ends them as one more."""
    try:
        yield from findings
    except SkilloptError as error:
        yield failed(part, error)


def print_findings(findings: Sequence[Finding], settings: Globals, *, files: bool = False) -> None:
    for finding in findings:
        if settings.verbosity >= 0 or finding.level != "ok":
            mark = click.style(f"{finding.level:<7}", fg=_COLOURS[finding.level])
            text = wrapped(harmless(finding.text), sys.stdout, _TEXT_STARTS)
            click.echo(f"{mark}  {finding.part:<15}  {text}", color=settings.colour)
    if settings.verbosity < 0:
        return
    ready, then = "The files are in order", "."
    if not files:
        told = (finding.then for finding in findings if finding.then is not None)
        ready, command = next(told, ("Ready to train", "step"))
        then = f": skillopt-ci {command}{settings.same_run}"
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count("error"), plural(levels.count("warning"), "warning")
    besides = f" ({warnings})" if "warning" in levels else ""
    blocking = dict.fromkeys(finding.part for finding in findings if finding.blocks)
    said = f"{ready}{besides}{then}"
    if errors:
        said = f"{plural(errors, 'error')}, {warnings}."
    elif blocking:
        said = f"Nothing else to fix{besides}, but no step can start: see {', '.join(blocking)}."
    click.echo(f"\n{said}")


# ``check --probe``: each model answers one question of the optimizer's contract.

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


async def ask_models(
    roles: Mapping[str, ModelRole], environ: Mapping[str, str], root: Path, redact: Redact
) -> list[Finding]:
    """Ask every role one question, one after the other: they may be one small server."""
    found = []
    for name, config in roles.items():
        changes = {"retries": min(1, config.retries), "timeout": min(_LONGEST_CALL, config.timeout)}
        other = ModelRole(provider="simulated", model="simulated-optimizer")
        asked, part = {"optimizer": other, name: config.model_copy(update=changes)}, f"model.{name}"
        request = ChatRequest(Role(name), "doctor", _QUESTION, reply_schema=RANKING)
        try:
            async with open_router(asked, environ, root=root, redact=redact) as router:
                began = time.monotonic()
                reply = await router.for_work("doctor", Meter()).complete(request)
        except SkilloptError as error:
            found.append(failed(part, error))
            continue
        seconds, usage = time.monotonic() - began, reply.usage
        used = f"{plural(usage.tokens, 'token')}, cost {cost_text(usage.cost_usd)}"
        found.append(Finding(part, "ok", f"{reply.model} answered in {seconds:.1f} s ({used})"))
        try:
            if config.provider != "simulated":  # whose mistakes are wanted
                parse_ranking(reply.text, 2, 1)
        except WireError:
            found.append(_misfit(part, request.role, reply))
        if usage.estimated:
            text = "the server reports no usage: tokens are counted from the texts"
            found.append(Finding(part, "warning", text))
    return found


def _misfit(part: str, role: Role, reply: ChatReply) -> Finding:
    told = "its answer was not the JSON object that was asked for"
    hint = "Choose a model that follows instructions, or see structured_output."
    if (cut := reply.finish_reason == "length") or not reply.text.strip():
        told = "its answer was cut off at the token limit" if cut else "its answer was empty"
        hint = "A reasoning model may spend its tokens before it answers: raise max_output_tokens."
    if role is Role.TARGET:
        # what the target must be able to write, its tasks and scorers say
        return Finding(part, "warning", f"{told}; only tasks that want JSON need one\n{hint}")
    return Finding(part, "error", f"{told}\n{hint}")
