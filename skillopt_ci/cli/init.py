"""``skillopt-ci init``: write the files that a run starts from."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Protocol, cast

import click
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.providers import MORE, PRESETS
from skillopt_ci.cli.scaffold import Choices, existing_skill, scaffold, slug, write_new
from skillopt_ci.cli.workflows import Place, workflow_files
from skillopt_ci.config.config import Config
from skillopt_ci.config.providers import Preset, ProviderName
from skillopt_ci.errors import ExitCode
from skillopt_ci.git.process import Git
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.skill.validation import unloadable

NO_KEY = "none"


def run_name(text: str) -> str:
    """``text``, if the configuration allows it as the name of a run."""
    rule: TypeAdapter[str] = TypeAdapter(Annotated[str, Config.model_fields["run"]])
    try:
        return rule.validate_python(text)
    except ValidationError:
        raise click.BadParameter(
            f"--run: {text!r} is not made of letters, digits, '.', '_' and '-'"
        ) from None


@click.command()
@click.option(
    "--skill", metavar="PATH", help="Document to train; a starter is written if there is none."
)
@click.option("--provider", type=click.Choice(list(PRESETS)), help="Where the models are served.")
@click.option("--base-url", metavar="URL", help="Root of an OpenAI-compatible API, up to /v1.")
@click.option("--target-model", metavar="MODEL", help="Model that reads the skill.")
@click.option("--optimizer-model", metavar="MODEL", help="Model that proposes edits.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--github", is_flag=True, help="Also write workflows that train by GitHub's clock.")
@click.option(
    "--pages", is_flag=True, help="With --github: publish the report on GitHub Pages, too."
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take defaults for what is not given.")
@global_options
def command(
    settings: Globals, /, yes: bool, github: bool, pages: bool, **given: str | None
) -> ExitCode:
    """Write a configuration, example tasks and a starter skill.

    Asks on a terminal for what is not given; --run names the run, after the folder if absent.
    Files that exist are left as they are.
    """
    if pages and not github:
        raise click.UsageError("--pages belongs to --github: a workflow publishes the report.")
    config = settings.cwd / settings.config
    asking = not yes and not settings.json and sys.stdin.isatty() and sys.stderr.isatty()
    named = {"run": None if settings.run is None else run_name(settings.run), **given}
    choices = choose(config.parent, decider(named, asking=asking))
    files = scaffold(choices, config.name)
    written = write_new(config.parent, files)
    if github:
        top = repository_top(config.parent)
        workflows = workflow_files(_place_of(config, choices, top), pages=pages)
        written += write_new(top, workflows)
        files |= workflows
    left = [name for name in files if name not in written]
    if settings.json:
        click.echo(json.dumps({"written": written, "left": left}))
    else:
        _tell(settings, choices, written, left)
        _warn(choices.skill, config.parent / choices.skill)
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO


def repository_top(folder: Path) -> Path:
    """The top of the repository around ``folder``; the folder itself if there is none yet."""
    top = Git(folder).attempt("rev-parse", "--show-toplevel")
    return Path(top.text) if top.status == 0 else folder


def _place_of(config: Path, choices: Choices, top: Path) -> Place:
    folder = PurePosixPath(config.parent.resolve().relative_to(top.resolve()).as_posix())
    branch = Git(top).attempt("symbolic-ref", "--quiet", "--short", "HEAD").text
    key = choices.target.get("api_key_env")
    return Place(
        config=folder / config.name,
        skill=folder / choices.skill,
        branch=branch or "main",
        key=None if key is None else str(key),
    )


class Decide(Protocol):
    """Decides one thing: by option, by question or by default, in this order."""

    def __call__(self, key: str, question: str, default: str, kind: Any = None) -> str:
        """Return the decision; raises UsageError where there is none."""
        ...


def decider(given: Mapping[str, str | None], *, asking: bool) -> Decide:
    """Build what decides, from the options ``given`` by name."""

    def decide(key: str, question: str, default: str, kind: Any = None) -> str:
        value = given[key]
        if value is None and asking:
            value = click.prompt(question, default=default or None, type=kind, err=True)
        value = (value or default).strip()
        if not value:
            raise click.UsageError(f"--{key.replace('_', '-')} is needed here.")
        return value

    return decide


def choose(root: Path, decide: Decide) -> Choices:
    """Decide what a run in the folder ``root`` is about."""
    run = decide("run", "Name of the run", slug(root.resolve().name), run_name)
    found = existing_skill(root) or f"skills/{slug(run)}/SKILL.md"
    skill = decide("skill", "Document to train", found)
    if (root / skill).is_dir():
        skill = (PurePosixPath(skill) / "SKILL.md").as_posix()
    provider = cast(
        "ProviderName", decide("provider", "Provider", "openai", click.Choice(list(PRESETS)))
    )
    preset = PRESETS[provider]
    target = decide("target_model", "Model that reads the skill", preset.target)
    optimizer = decide("optimizer_model", "Model that proposes edits", preset.optimizer)
    place = {**_place(preset, decide), **MORE.get(provider, {})}
    return Choices(
        run,
        skill,
        target={"provider": provider, "model": target, **place},
        optimizer={"provider": provider, "model": optimizer, **place},
    )


def _place(preset: Preset, decide: Decide) -> dict[str, object]:
    if preset.protocol in ("command", "simulated"):
        return {}
    base_url = decide("base_url", "Root of the API", preset.base_url)
    question = f"Environment variable that holds the key, or {NO_KEY}"
    usual = NO_KEY if preset.key_optional or not preset.key else preset.key
    variable = decide("api_key_env", question, usual)
    key = {} if variable == NO_KEY else {"api_key_env": variable}
    return {"base_url": base_url, **key}


def _tell(settings: Globals, choices: Choices, written: list[str], left: list[str]) -> None:
    for name in written:
        click.echo(f"  wrote     {harmless_line(name)}")
    for name in left:
        click.echo(f"  left      {harmless_line(name)}  (was there already)")
    if written:
        click.echo("\nNext:")
        for number, text in enumerate(_next_steps(settings, choices), 1):
            click.echo(f"  {number}. {text}")


def _warn(name: str, file: Path) -> None:
    """Say at once what a skill of the user's own lacks."""
    try:
        reason = unloadable(file.read_text(encoding="utf-8"), Path(name))
    except (OSError, UnicodeDecodeError):
        return  # `validate` tells it
    if reason:
        click.echo(f"\n! warning: {harmless_line(reason)}", err=True)


def _next_steps(settings: Globals, choices: Choices) -> list[str]:
    folder = settings.config.parent
    config, tasks, skill = (
        shlex.quote(str(path))
        for path in (settings.config, folder / "tasks", folder / choices.skill)
    )
    option = "" if settings.config == Path("skillopt.yaml") else f" -c {config}"
    key = choices.target.get("api_key_env")
    in_git = Git(settings.cwd / folder).attempt("rev-parse", "--git-dir").status == 0
    return [
        *([] if in_git else ["git init   (this folder is in no git repository yet)"]),
        f"Put tasks of your own into {tasks}, one JSON object a line.",
        f"Say in {skill} what you know already.",
        *([f"export {key}=…"] if key else []),
        f"git add {config} {tasks} {skill} && git commit -m 'Set up skill training'",
        f"skillopt-ci validate{option}",
        f"skillopt-ci step{option}",
    ]
