"""``skillopt-ci validate``: find out before anything is paid for."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from skillopt_ci.chat import Message
from skillopt_ci.cli.assemble import Material, read_material, skill_path
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.harmless import harmless
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.build import open_models
from skillopt_ci.model.client import ChatRequest, Role
from skillopt_ci.model.meter import Meter
from skillopt_ci.report.figures import plural
from skillopt_ci.skill.validation import problems
from skillopt_ci.training.plan import total_steps

#: Below this the 95 % interval of a score is wider than ±0.2.
_FEW = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: ``level`` is ``ok``, ``warning`` or ``error``."""

    part: str
    level: str
    text: str


@click.command()
@click.option("--probe", is_flag=True, help="Also make one small call to each model role.")
@global_options
def command(settings: Globals, probe: bool) -> ExitCode:
    """Check configuration, tasks, scorers, skill and repository; call no model unless --probe."""
    findings = list(examine(settings, probe=probe))
    failed = any(finding.level == "error" for finding in findings)
    if settings.json:
        rows = [{"part": f.part, "level": f.level, "text": f.text} for f in findings]
        click.echo(json.dumps({"valid": not failed, "findings": rows}))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}[finding.level]
            text = harmless(finding.text).replace("\n", "\n" + " " * 22)
            click.echo(f"{mark}  {finding.part:<11}  {text}")
    return ExitCode.USAGE if failed else ExitCode.DONE


def examine(settings: Globals, *, probe: bool) -> Iterator[Finding]:
    """Check part after part; what cannot be checked for an earlier error is left out."""
    try:
        material = read_material(settings)
    except SkilloptError as error:
        yield Finding("config", "error", str(error))
        return
    yield from _material(material)
    try:
        loaded = material.loaded
        ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
        path = skill_path(loaded, ledger.root)
    except SkilloptError as error:
        yield Finding("git", "error", str(error))
        return
    yield from _repository(ledger, path)
    yield from _skill(material, path)
    if probe:
        yield from asyncio.run(_probe(settings, material))


def _material(material: Material) -> Iterator[Finding]:
    loaded, splits = material.loaded, material.splits
    yield Finding("config", "ok", f"{loaded.file}: run {loaded.config.run!r}")
    for warning in loaded.warnings:
        yield Finding("config", "warning", warning)
    counts = [("train", splits.train), ("selection", splits.selection), ("test", splits.test)]
    text = ", ".join(f"{len(tasks)} {name}" for name, tasks in counts)
    yield Finding("tasks", "ok", f"{text}; no task stands in two splits, every one has a scorer")
    if not splits.test:
        yield Finding("tasks", "warning", "no test tasks: the final score will not be checked")
    if len(splits.selection) < _FEW:
        yield Finding(
            "tasks",
            "warning",
            f"only {plural(len(splits.selection), 'selection task')}: with so few, the gate "
            "decides largely by chance",
        )
    steps = total_steps(len(splits.train), loaded.config.train)
    yield Finding("plan", "ok", f"{plural(steps, 'step')} in all")


def _repository(ledger: Ledger, path: str) -> Iterator[Finding]:
    try:
        position = ledger.sync()
        ledger.preflight(position)
        committed = ledger.read(position.head, path)
    except SkilloptError as error:
        yield Finding("git", "error", str(error))
        return
    where = f"pushed to {ledger.remote}" if ledger.remote else "kept local (no remote)"
    yield Finding("git", "ok", f"base {ledger.base}, steps are {where}")
    if committed is None:
        yield Finding(
            "git",
            "error",
            f"{path} is not committed on {ledger.base}: git add {path} && git commit",
        )


def _skill(material: Material, path: str) -> Iterator[Finding]:
    file = material.loaded.root / material.loaded.config.skill
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        yield Finding("skill", "error", f"{file}: {error}")
        return
    found = problems(text, file)
    for problem in found:
        line = "" if problem.line is None else f":{problem.line}"
        yield Finding("skill", problem.severity, f"{path}{line}: {problem.message}")
    if not found:
        yield Finding("skill", "ok", path)


async def _probe(settings: Globals, material: Material) -> list[Finding]:
    models = material.loaded.config.model
    found: list[Finding] = []
    roles = [Role.TARGET, Role.OPTIMIZER, *([Role.JUDGE] if models.judge else [])]
    clock: Callable[[], float] = time.monotonic
    opened = open_models(
        models, settings.environ, cache_path=None, scope="probe", meter=Meter(clock=clock)
    )
    try:
        async with opened as client:
            for role in roles:
                question = (Message("user", "Reply with the single word: ready"),)
                reply = await client.complete(ChatRequest(role, "probe", question))
                words = f"{reply.model} answered ({reply.usage.tokens} tokens)"
                found.append(Finding(f"model.{role.value}", "ok", words))
    except SkilloptError as error:
        found.append(Finding("models", "error", str(error)))
    return found
