"""``skillopt-ci init``, ``new-env`` and ``quickstart``: begin with a run of one's own, or look."""

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, cast

import click
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.cli.build import opened
from skillopt_ci.cli.evaluate import print_evaluation
from skillopt_ci.cli.options import DEFAULT_CONFIG, FILE, Globals, command, print_json
from skillopt_ci.cli.read import find_skill
from skillopt_ci.cli.scaffold import (
    ENVIRONMENTS,
    Choices,
    Place,
    existing_skill,
    scaffold,
    scaffold_environment,
    slug,
    workflow_files,
    write_new,
)
from skillopt_ci.cli.train import print_outcome
from skillopt_ci.config.config import Config
from skillopt_ci.config.models import PROVIDERS, Preset, ProviderName
from skillopt_ci.demo import write_example
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.skill.validation import unloadable
from skillopt_ci.training.offline_eval import Evaluation, evaluate
from skillopt_ci.training.prefetcher import prefetching
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.trainer import train
from skillopt_ci.util import read_text

#: The providers that a configuration can be written for: all but the one that needs a command.
PRESETS: Mapping[ProviderName, Preset] = MappingProxyType(
    {name: preset for name, preset in PROVIDERS.items() if name != "command"}
)
_NO_KEY = "none"


@command()
@click.option("--skill", metavar="PATH", help="Document to train; a starter is written if absent.")
@click.option("--provider", type=click.Choice(list(PRESETS)), help="Where the models are served.")
@click.option("--base-url", metavar="URL", help="Root of an OpenAI-compatible API, up to /v1.")
@click.option("--target-model", metavar="MODEL", help="Model that reads the skill.")
@click.option("--optimizer-model", metavar="MODEL", help="Model that proposes edits.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--github", is_flag=True, help="Also write workflows that train on a schedule.")
@click.option("--pages", is_flag=True, help="With --github: publish the report on GitHub Pages.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing; use defaults for what is not given.")
def init_command(
    settings: Globals, /, yes: bool, github: bool, pages: bool, **given: str | None
) -> ExitCode:
    """Write a configuration, example tasks and a starter skill.

    On a terminal, asks for what is not given. --run names the run; the default is the folder's
    name. Existing files stay as they are.
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
        top = Git(config.parent).attempt("rev-parse", "--show-toplevel")
        root = Path(top.text).resolve() if top.status == 0 else config.parent.resolve()
        branch = Git(root).attempt("symbolic-ref", "--quiet", "--short", "HEAD").text
        folder = PurePosixPath(config.parent.resolve().relative_to(root))
        key = choices.target.get("api_key_env")
        place = Place(
            config=folder / config.name,
            skill=folder / choices.skill,
            branch=branch or "main",
            key=None if key is None else str(key),
        )
        workflows = workflow_files(place, pages=pages)
        written += write_new(root, workflows)
        files |= workflows
    code = _tell(settings, "", written, files, _next_steps(settings, choices))
    # say at once what a skill of the user's own lacks; that it cannot be read is for `validate`
    with suppress(OSError, UnicodeDecodeError):
        text = read_text(config.parent / choices.skill)
        reason = unloadable(text, Path(choices.skill))
        if reason and not settings.json:
            click.echo(f"\n! warning: {harmless_line(reason)}", err=True)
    return code


def run_name(text: str) -> str:
    """``text``, if the configuration allows it as the name of a run."""
    rule: TypeAdapter[str] = TypeAdapter(Annotated[str, Config.model_fields["run"]])
    try:
        return rule.validate_python(text)
    except ValidationError:
        raise click.BadParameter(
            f"--run: {text!r} is not made of letters, digits, '.', '_' and '-'"
        ) from None


#: Decides one thing, by key, question and default: by option, by question or by default.
Decide = Callable[..., str]


def decider(given: Mapping[str, str | None], *, asking: bool) -> Decide:
    """Build what decides, from the options ``given`` by name; it may raise UsageError."""

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
    asked = decide("provider", "Provider", "openai", click.Choice(list(PRESETS)))
    provider = cast("ProviderName", asked)
    preset = PRESETS[provider]
    target = decide("target_model", "Model that reads the skill", preset.target)
    optimizer = decide("optimizer_model", "Model that proposes edits", preset.optimizer)
    place: dict[str, object] = {}
    if preset.protocol not in ("command", "simulated"):
        place["base_url"] = decide("base_url", "Root of the API", preset.base_url)
        question = f"Environment variable that holds the key, or {_NO_KEY}"
        usual = _NO_KEY if preset.key_optional or not preset.key else preset.key
        if (variable := decide("api_key_env", question, usual)) != _NO_KEY:
            place["api_key_env"] = variable
    if provider in ("ollama", "llamacpp"):  # small servers
        place |= {"max_concurrency": 2, "timeout": 900}
    return Choices(
        run,
        skill,
        target={"provider": provider, "model": target, **place},
        optimizer={"provider": provider, "model": optimizer, **place},
    )


def _next_steps(settings: Globals, choices: Choices) -> list[str]:
    folder = settings.config.parent
    config, tasks, skill = (
        shlex.quote(str(path))
        for path in (settings.config, folder / "tasks", folder / choices.skill)
    )
    option = "" if settings.config == DEFAULT_CONFIG else f" -c {config}"
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


def _tell(
    settings: Globals,
    folder: str | Path,
    written: Sequence[str],
    files: Mapping[str, str],
    next_steps: Sequence[str],
) -> ExitCode:
    """Say which of ``files``, by their paths in ``folder``, were written, and what to do next."""
    left = [name for name in files if name not in written]
    if settings.json:
        print_json({"written": written, "left": left})
    else:
        for verb, names, note in (("wrote", written, ""), ("left", left, "  (was there already)")):
            for name in names:
                path = harmless_line((folder / Path(name)).as_posix())
                click.echo(f"  {verb:<8}  {path}{note}")
        if written:
            click.echo("\nNext:")
            for number, text in enumerate(next_steps, 1):
                click.echo(f"  {number}. {text}")
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO


@command()
@click.argument("name")
@click.argument("folder", type=FILE, required=False)
@click.option(
    "--kind",
    type=click.Choice(list(ENVIRONMENTS)),
    default="class",
    help="A Python class, or tasks in YAML that are worked on with a computer.",
)
def new_env_command(settings: Globals, /, name: str, folder: Path | None, kind: str) -> ExitCode:
    """Write an environment NAME into FOLDER: tasks, grading, configuration and a test.

    FOLDER is named after the environment by default. Existing files stay as they are.
    """
    target = folder or Path(slug(name))
    files = scaffold_environment(name, kind, target)
    written = write_new(settings.cwd / target, files)
    place = shlex.quote(target.as_posix())
    next_steps = [
        f"pytest {place}",
        f"git add {place} && git commit",
        f"skillopt-ci validate -c {place}/skillopt.yaml",
    ]
    return _tell(settings, target, written, files, next_steps)


# ``skillopt-ci quickstart``: a whole training run on the bundled example.

#: The example is the same on every machine: nobody's name, signature or hooks are in it.
_GIT_SETTINGS = (
    ("user.name", "Quickstart"),
    ("user.email", "quickstart@localhost"),
    ("commit.gpgSign", "false"),
    ("core.hooksPath", "/dev/null"),
)


@command()
@click.argument("folder", type=FILE, required=False)
def quickstart_command(settings: Globals, folder: Path | None) -> None:
    """Train the bundled example skill in a new repository: offline, free, in a minute.

    The repository is made in FOLDER, or in a new temporary folder.
    """
    target = settings.cwd / (folder or tempfile.mkdtemp(prefix="skillopt-quickstart-"))
    target = target.resolve()
    make_repository(target)
    inside = replace(settings, config=target / "skillopt.yaml")
    with opened(inside, locked=True) as run:
        asyncio.run(_train(run, inside))
        named = [find_skill(run, word, target) for word in ("initial", "best")]
        result = asyncio.run(evaluate(run, named, "test"))
    click.echo(err=True)
    _print_result(run, result, inside, target)


def make_repository(target: Path) -> None:
    """Write the example into ``target`` and commit it, whatever git knows of the user."""
    write_example(target)
    git = Git(target)
    git.run("init", "--quiet", "--initial-branch=main")
    for key, value in _GIT_SETTINGS:
        git.run("config", key, value)
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", "Write down how ledger lines look")


async def _train(run: Run, settings: Globals) -> None:
    async with prefetching(run) as ready:
        async for outcome in train(ready):
            print_outcome(outcome, settings)


def _print_result(run: Run, result: Evaluation, settings: Globals, target: Path) -> None:
    def heading(text: str) -> None:
        click.echo(f"{text}\n{'─' * len(text)}", file=settings.people)

    heading("The training log is the skills branch")
    for commit in run.ledger.log(newest(run.ledger), first_parent=True):
        click.echo(f"{commit.sha[:7]} {harmless_line(commit.subject)}", file=settings.people)
    click.echo(file=settings.people)
    heading("Before and after, on tasks that training never saw")
    print_evaluation(result, settings)
    click.echo(file=settings.people)
    heading("Where to look next")
    for line in _where_next(run.config.run, settings.environ, target):
        click.echo(f"  {line}", file=settings.people)


def _where_next(run: str, environ: Mapping[str, str], target: Path) -> Iterator[str]:
    yield f"cd {shlex.quote(str(target))}"
    if shutil.which("skillopt-ci", path=environ.get("PATH")) is None:
        yield f'export PATH="{Path(sys.executable).parent}:$PATH"'
    branch = f"skillopt/{run}"
    for command_line, what in (
        (f"git log --first-parent {branch}", "each step's evidence"),
        (f"git diff main {branch} skills", "what was learned"),
        ("skillopt-ci log", "the training log as a table"),
        ("skillopt-ci show 2", "one step: edits, flips, scores"),
        ("skillopt-ci init", "in a repository of your own"),
    ):
        yield f"{command_line:<43} # {what}"


@command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", default=8091, type=click.IntRange(0, 65_535), help="0 takes a free one.")
@click.option("--seed", default=0)
@click.option(
    "--fault-rate",
    default=0.0,
    type=click.FloatRange(0, 1),
    help="Share of requests that fail: 429, 500, cut connections, truncated JSON.",
)
@click.option("--latency", default=0.0, type=click.FloatRange(0), help="Seconds per answer.")
def simulate_command(
    settings: Globals, host: str, port: int, seed: int, fault_rate: float, latency: float
) -> None:
    """Serve the simulated models over HTTP, to try configurations without paying.

    Prints the base URL on the first line of standard output and serves until interrupted.
    """
    del settings
    # Imported late: aiohttp takes long to import.
    from skillopt_ci.demo.server import SimulatedServer, serve  # noqa: PLC0415

    try:
        serve(host, port, SimulatedServer(seed, fault_rate, latency))
    except OSError as error:
        raise UsageError(
            f"Cannot serve on {host}:{port}: {error.strerror}.",
            hint="Choose another --port; 0 takes a free one.",
        ) from error
