"""``skillopt-ci init``, ``new-env`` and ``quickstart``: begin with a run of one's own, or look."""

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
import webbrowser
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, cast
from urllib.request import HTTPError, Request, urlopen

import click
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.cli import scaffold
from skillopt_ci.cli.build import opened
from skillopt_ci.cli.config import survey
from skillopt_ci.cli.options import FILE, Globals, command, print_json
from skillopt_ci.cli.read import open_reader
from skillopt_ci.cli.report import page_evidence
from skillopt_ci.cli.train import print_finish, print_outcome, train_to_end
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import load, run_names, validate
from skillopt_ci.config.models import PROVIDERS, Preset, ProviderName
from skillopt_ci.config.yaml import Mark, parse_yaml
from skillopt_ci.demo import write_example
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import toplevel
from skillopt_ci.model.access import required_variables
from skillopt_ci.report.html_page import build_page
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.skill.validation import seen_path, unloadable
from skillopt_ci.text import names_text, plural
from skillopt_ci.util import nearest, read_text, stray_character, write_atomically

#: The providers that a configuration can be written for: all but the one that needs a command.
PRESETS: Mapping[ProviderName, Preset] = {k: v for k, v in PROVIDERS.items() if k != "command"}
_PROVIDERS = f"Who serves the models: {', '.join(PRESETS)}."
_NO_KEY = "none"
_ANOTHER = "skillopt-ci init -c NAME.skillopt.yaml --skill PATH"


@command()
@click.option("--skill", metavar="PATH", help="Document to train; written as a starter if missing.")
@click.option("--provider", type=click.Choice(list(PRESETS)), metavar="NAME", help=_PROVIDERS)
@click.option("--base-url", metavar="URL", help="Root of an OpenAI-compatible API, up to /v1.")
@click.option("--target-model", metavar="MODEL", help="Model that reads the skill.")
@click.option("--optimizer-model", metavar="MODEL", help="Model that proposes edits.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--github", is_flag=True, help="Also write a workflow that trains on a schedule.")
@click.option("--pages", is_flag=True, help="With --github: publish the report on GitHub Pages.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing; use defaults.")
def init_command(
    settings: Globals, /, yes: bool, github: bool, pages: bool, **given: str | None
) -> ExitCode:
    """Write a configuration, example tasks and a starter skill.

    On a terminal, asks for whatever you do not give. The run is named by --run, or else after the
    folder, or after the file in --config: give each further run its own file, such as
    NAME.skillopt.yaml. Existing files are never changed.
    """
    if pages and not github:
        raise click.UsageError("--pages belongs to --github: its workflow publishes the report.")
    config = settings.cwd / settings.config
    root = Path(os.path.realpath(config.parent))
    asking = not yes and not settings.json and sys.stdin.isatty() and sys.stderr.isatty()
    given["run"] = None if settings.run is None else run_name(settings.run)
    given["skill"] = given["skill"] and _from_root(given["skill"], root, settings.cwd)
    # the folder may have to be made
    repository = toplevel(next(one for one in (root, *root.parents) if one.is_dir()))
    if config.exists():
        choices, files = _configured(config, given), {config.name: ""}
    else:
        choices, files = _new_run(settings, root, repository, partial(decide, given, asking=asking))
    # first what makes root: until then, no path with `..` leads to an existing skill
    written = scaffold.write_new(root, {config.name: files[config.name]})
    written += scaffold.write_new(root, files)
    same, skill_file = replace(settings, run=None).same_run, settings.config.parent / choices.skill
    know = f"Write down in {skill_file} what you already know."
    also = [know] if choices.skill in written else []
    closing = [f"skillopt-ci check{same}", f"skillopt-ci step{same}"]
    if github:
        place = repository or root
        keys, branch, workflow = _workflow(config, place, pages=pages)
        written += scaffold.write_new(place, workflow)
        files |= workflow
        if scaffold.WORKFLOW not in written:
            also.append(f"List {settings.config} in {scaffold.WORKFLOW}, in a matrix of `config`s.")
        closing = [*_github_steps(place, keys, branch, same, pages=pages)]
    # tasks that were there before the configuration are the user's own
    examples = config.name not in written or any(one.endswith(".jsonl") for one in written)
    steps = _steps_to_commit(settings, choices, repository, *also, examples=examples, github=github)
    code = _tell(settings, "", written, files, [*steps, *closing])
    if not settings.json:
        if code is ExitCode.NOTHING_TO_DO:
            click.echo(f"\nFor another run: {_ANOTHER}")
        # say at once what the skill lacks; that it cannot be read is for `check`
        with suppress(OSError):
            place = seen_path(root, choices.skill, repository)
            if reason := unloadable(read_text(root / choices.skill), place):
                click.echo(f"\n! warning: {harmless_line(reason)}", err=True)
    return code


def _configured(config: Path, given: Mapping[str, str | None]) -> scaffold.Choices:
    """What ``config`` says of its first run. UsageError if another run or skill is ``given``."""
    known = {name: load(config, run=name).config.skill for name in run_names(config)}
    skill = None if given["skill"] is None else document(config.parent, given["skill"])
    if given["run"] not in (None, *known) or skill not in (None, *known.values()):
        raise UsageError(
            f"{config.name} exists, and `init` never changes a file.",
            hint=f"Give another run its own file: {_ANOTHER}\nOr list it under `runs:`.",
        )
    first = load(config, run=next(iter(known), None)).config
    target = {"api_key_env": first.model.target.key_variable}
    return scaffold.Choices(first.run, first.skill, target, optimizer={})


def _workflow(config: Path, place: Path, *, pages: bool) -> tuple[list[str], str, dict[str, str]]:
    """The workflow file, and what it needs: the variables of keys, the branch that it trains."""
    runs = run_names(config)
    several = runs if len(runs) > 1 else ()
    if pages and several:
        hint = f"Call pages.yml yourself, with `run` for one of {', '.join(runs)}."
        raise UsageError("--pages is for a configuration with one run", hint=hint)
    roles = [load(config, run=name).config.model.roles for name in runs]
    keys = sorted({key for one in roles for key in required_variables(one)})
    file = PurePosixPath(config.parent.resolve().relative_to(place) / config.name)
    # workflows train from the default branch, whatever is checked out here
    refs = ("refs/remotes/origin/HEAD", "HEAD")
    named = [Git(place).attempt("symbolic-ref", "--quiet", "--short", ref).text for ref in refs]
    branch = named[0].removeprefix("origin/") or named[1] or "main"
    workflow = scaffold.workflow_file(file, branch=branch, keys=keys, runs=several, pages=pages)
    return keys, branch, workflow


def run_name(text: str) -> str:
    try:
        return TypeAdapter[str](Annotated[str, Config.model_fields["run"]]).validate_python(text)
    except ValidationError:
        raise click.BadParameter(
            f"--run: {text!r} may hold only letters, digits, '.', '_' and '-'"
        ) from None


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):  # not shown: it may be the key
        raise click.BadParameter("--api-key-env: expected the name of a variable that has the key")
    return name


def _free(name: str, taken: Iterable[str]) -> str:
    others, own = {one.casefold() for one in taken}, scaffold.slug(name)
    numbered = (f"{own[:60]}-{number}" for number in count(2))
    return next(one for one in chain([own], numbered) if one not in others)


def _from_root(path: str, root: Path, cwd: Path) -> str:
    """What --skill names, relative to ``root``; a shell completes paths from ``cwd``."""
    named = Path(os.path.realpath(cwd / path))
    # a name without a folder means no file outside of root
    meant = root in named.parents or (named.exists() and ("/" in path or named == root))
    if Path(path).is_absolute() or (meant and not (root / path).exists()):
        return os.path.relpath(document(root, str(named)), root)
    return path


def document(root: Path, skill: str) -> str:
    return (PurePosixPath(skill) / "SKILL.md").as_posix() if (root / skill).is_dir() else skill


def decide(
    given: Mapping[str, str | None],
    key: str,
    question: str,
    default: str,
    kind: Any = None,
    *,
    asking: bool,
) -> str:
    value = given[key]
    if value is None and asking:
        value = click.prompt(question, default=default or None, type=kind, err=True)
    value = (value or default).strip()
    if not value:
        raise click.UsageError(f"There is no safe default here: give --{key.replace('_', '-')}.")
    return value


#: Decides one thing, by key, question and default: by option, by question or by default.
Decide = Callable[..., str]
#: Says which models are at an address, by preset, address and variable of the key; none if unknown.
Look = Callable[[Preset, str, str], Collection[str]]


def ask_server(
    environ: Mapping[str, str], preset: Preset, address: str, variable: str
) -> Collection[str]:
    key = environ.get(variable, "").strip()
    if variable != _NO_KEY and ((stray := stray_character(key)) or not key):
        wrong = f"holds {stray}" if stray else "is not set"
        click.echo(f"  {variable} {wrong}, so the models' names are not checked", err=True)
        return ()
    root = address.rstrip("/")
    url, headers = f"{root}/models", {"Authorization": f"Bearer {key}"} if key else {}
    if preset.protocol == "messages":
        url = f"{root.removesuffix('/v1')}/v1/models?limit=1000"
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    try:
        asked = Request(url)  # noqa: S310 - the user's own address
        asked.unredirected_hdrs |= headers  # a redirect to another host must not get the key
        with urlopen(asked, timeout=5) as answer:  # noqa: S310 - as above
            listing = json.load(answer)
        rows = listing if isinstance(listing, list) else listing["data"]  # Together's is bare
        names = [harmless_line(str(one["id"])).removeprefix("models/") for one in rows or ()]
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        if isinstance(error, HTTPError):
            error.close()
        why = error if isinstance(error, OSError | HTTPException) else "no list came back"
        click.echo(harmless_line(f"! warning: {address} did not list its models: {why}"), err=True)
        return ()
    click.echo(f"  {plural(len(names), 'model')} there: {names_text(names)}", err=True)
    return names


def _new_run(
    settings: Globals, root: Path, repository: Path | None, decide: Decide
) -> tuple[scaffold.Choices, dict[str, str]]:
    """What is chosen for a run in the folder ``root``, and the files to write."""
    if (settings.cwd / (other := settings.config.with_suffix(".yml"))).exists():
        raise UsageError(f"{other} exists", hint=f"Use it (--config {other}), or {_ANOTHER}")
    names, trained = list[str](), list[str]()
    if repository is not None:
        runs = survey(root if root.is_dir() else repository)[1]
        names = [one.run for one in runs]
        trained = [os.path.relpath(repository / one.skill, root) for one in runs]
    own_name = settings.config.name.partition(".")[0]
    usual = _free(root.name if own_name == "skillopt" else own_name, names)
    choices = choose(root, decide, usual, trained, partial(ask_server, settings.environ))
    if os.path.normpath(choices.skill) in trained:
        raise UsageError(f"another run trains {choices.skill}", hint="Give another --skill.")
    skill = seen_path(root, choices.skill, repository)
    if repository and skill.is_relative_to(".."):
        raise UsageError(f"{choices.skill} is outside of the repository {repository}")
    files = scaffold.scaffold(choices, settings.config.name, skill.parent.name)
    validate(parse_yaml(files[settings.config.name], Mark()))  # or nothing is written
    if not os.path.lexists(root / choices.skill) and unloadable(files[choices.skill], skill):
        raise UsageError(
            f"{skill.parent.name!r} cannot be the folder of a SKILL.md: it is the skill's "
            "name, of lower-case letters, digits and single hyphens.",
            hint=f"Name another: --skill skills/{scaffold.slug(skill.parent.name)}/SKILL.md",
        )
    return choices, files


def choose(
    root: Path, decide: Decide, usual: str, trained: Collection[str], look: Look
) -> scaffold.Choices:
    """Decide what a run in the folder ``root`` is about, by default a skill not yet ``trained``.

    A model that only some servers have is no default unless this one has it.
    """
    run = decide("run", "Name of the run", usual, run_name)
    found = scaffold.existing_skill(root, trained) or f"skills/{scaffold.slug(run)}/SKILL.md"
    skill = document(root, decide("skill", "Document to train", found))
    asked = decide("provider", "Provider", "openai", click.Choice(list(PRESETS)))
    provider = cast("ProviderName", asked)
    preset, place, there = PRESETS[provider], dict[str, object](), cast("Collection[str]", ())
    if preset.protocol not in ("command", "simulated"):
        place["base_url"] = address = decide("base_url", "Root of the API", preset.base_url)
        question = f"Environment variable that holds the key, or {_NO_KEY}"
        default = _NO_KEY if preset.key_optional or not preset.key else preset.key
        if (variable := _variable(decide("api_key_env", question, default, _variable))) != _NO_KEY:
            place["api_key_env"] = variable
        if provider != "azure":  # which lists models, not deployments
            there = look(preset, address, variable)

    def listed(name: str) -> bool:
        # lists lack aliases: Anthropic's without a date, Ollama's without a tag
        return any(f"{one}-".startswith((f"{name}-", f"{name}:")) for one in there)

    def model(key: str, question: str, example: str) -> str:
        own = preset.key_optional or provider in ("azure", "compatible")
        unsure = (own or there) and not listed(example)
        only = next(iter(there)) if len(there) == 1 else ""
        name = decide(key, question, only if unsure else example)
        if there and not listed(name):
            warning = f"! warning: the server lists no model {name!r}. {nearest(name, there)}"
            click.echo(warning.rstrip(), err=True)
            name = decide(key, question, name)  # on a terminal, Enter keeps it
        return name

    target = model("target_model", "Model that reads the skill", preset.target)
    optimizer = model("optimizer_model", "Model that proposes edits", preset.optimizer)
    if provider in ("ollama", "llamacpp"):  # small servers of one's own
        place |= {"max_concurrency": 2, "timeout": 900, "price": {"input": 0, "output": 0}}
    return scaffold.Choices(
        run,
        skill,
        target={"provider": provider, "model": target, **place},
        optimizer={"provider": provider, "model": optimizer, **place},
    )


def _steps_to_commit(
    settings: Globals,
    choices: scaffold.Choices,
    repository: Path | None,
    *also: str,
    examples: bool,
    github: bool,
) -> list[str]:
    folder = settings.config.parent
    tasks = folder / scaffold.task_folder(settings.config.name, choices.run)
    files = [shlex.quote(str(path)) for path in (settings.config, tasks, folder / choices.skill)]
    if github:
        top = repository or (settings.cwd / folder).resolve()
        files.append(shlex.quote(os.path.relpath(top / scaffold.WORKFLOW, settings.cwd.resolve())))
    remote = Git(repository).attempt("remote").text if repository else ""
    return [
        *([] if repository else ["git init   (this folder is not in a git repository yet)"]),
        *(
            [f"Replace the example tasks in {files[1]} with your own, one JSON object per line."]
            if examples
            else []
        ),
        *also,
        *([f"export {key}=…"] if (key := choices.target.get("api_key_env")) else []),
        f"git add {' '.join(files)} && git commit -m 'Set up skill training'",
        *(["git push"] if remote and not github else []),
    ]


def _github_steps(
    place: Path, keys: Iterable[str], branch: str, same: str, *, pages: bool
) -> Iterator[str]:
    # `gh` puts in owner and repository itself
    if not Git(place).attempt("remote").text:  # else it checks what is pushed, which comes last
        yield f"skillopt-ci check{same}"
        yield f"gh repo create --private --source {shlex.quote(str(place))}"
    yield from (f"gh secret set {key}" for key in keys)
    yield (
        "Let Actions open pull requests:\n     gh api -X PUT repos/{owner}/{repo}"
        "/actions/permissions/workflow -F can_approve_pull_request_reviews=true"
    )
    if pages:
        site = "gh api repos/{owner}/{repo}/pages -f build_type=workflow"
        yield f"Let Actions publish the site:\n     {site}"
    yield "git push --set-upstream origin HEAD"
    check = f"GITHUB_TOKEN=$(gh auth token) skillopt-ci check --github{same}"
    yield f"See what is missing; a public repository also needs an Actions policy:\n     {check}"
    now = f"To start one now:\n     gh workflow run {PurePosixPath(scaffold.WORKFLOW).name}"
    yield f"A push to {branch} starts the first step, and the schedule starts the others. {now}"


def _tell(
    settings: Globals,
    folder: str | Path,
    written: Sequence[str],
    files: Mapping[str, str],
    next_steps: Sequence[str],
) -> ExitCode:
    left = [name for name in files if name not in written]
    if settings.json:
        print_json({"written": written, "left": left})
    else:
        for verb, names, note in (("wrote", written, ""), ("left", left, "  (was there already)")):
            for name in names:
                click.echo(f"  {verb:<8}  {harmless_line((folder / Path(name)).as_posix())}{note}")
        if written:
            click.echo("\nNext:")
            for number, text in enumerate(next_steps, 1):
                click.echo(textwrap.indent(f"{number}. {text}", "  "))
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO


@command()
@click.argument("name")
@click.argument("folder", type=FILE, required=False)
@click.option(
    "--kind",
    type=click.Choice(list(scaffold.ENVIRONMENTS)),
    default="class",
    help="A Python class, or YAML tasks for an agent with a computer.",
)
def new_env_command(settings: Globals, /, name: str, folder: Path | None, kind: str) -> ExitCode:
    """Write an environment NAME into FOLDER: tasks, grading, configuration and a test.

    FOLDER defaults to the environment's name. Existing files are never changed.
    """
    target = folder or Path(scaffold.slug(name))
    files = scaffold.scaffold_environment(name, kind, target)
    written = scaffold.write_new(settings.cwd / target, files)
    place = shlex.quote(target.as_posix())
    next_steps = [
        f"pytest {place}",
        f"git add {place} && git commit",
        f"skillopt-ci check -c {place}/skillopt.yaml",
    ]
    return _tell(settings, target, written, files, next_steps)


#: The example is the same on every machine: nobody's name, signature or hooks are in it.
_GIT_SETTINGS = (
    ("user.name", "Quickstart"),
    ("user.email", "quickstart@localhost"),
    ("commit.gpgSign", "false"),
    ("core.hooksPath", "/dev/null"),
)


@command()
@click.argument("folder", type=FILE, required=False)
@click.option("--open", "shown", is_flag=True, help="Open the report in a browser at the end.")
def quickstart_command(settings: Globals, folder: Path | None, shown: bool) -> None:
    """Train the bundled example skill in a new repository: offline, free, in seconds.

    Creates the repository in FOLDER, or in a new temporary folder, and prints the score on tasks
    that training never used and the address of the report. With -v, shows steps as `run` does.
    """
    named = folder or tempfile.mkdtemp(prefix="skillopt-quickstart-")
    target = Path(os.path.realpath(settings.cwd / named))
    make_repository(target)
    # a line for each step, unless more is asked for
    inside = replace(settings, config=target / "skillopt.yaml", verbosity=settings.verbosity - 1)
    with opened(inside, locked=True) as run:
        finished = asyncio.run(train_to_end(run, lambda outcome: print_outcome(outcome, inside)))
    report = target / "skillopt-report.html"
    write_atomically(report, build_page(page_evidence(open_reader(inside), settings.redact)))
    if settings.verbosity >= 0:
        lines = "\n  ".join(_where_next(run.config.run, settings.environ, target))
        click.echo(f"\nWhere to look next:\n  {lines}\n", file=settings.people)
    if finished is not None:
        print_finish(finished, inside)
    if settings.verbosity >= 0:
        click.echo(f"Report: {report.as_uri()}", file=settings.people)
    if shown:
        webbrowser.open(report.as_uri())


def make_repository(target: Path) -> None:
    Git(Path()).run("version")  # without git nothing is written, or the next try would refuse it
    write_example(target)
    git = Git(target)
    # since version 2.54, git runs a hook of the user's own even while there is no repository yet
    git.run("-c", "core.hooksPath=/dev/null", "init", "--quiet", "--initial-branch=main")
    for key, value in _GIT_SETTINGS:
        git.run("config", key, value)
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", "Write down how ledger lines look")


def _where_next(run: str, environ: Mapping[str, str], target: Path) -> Iterator[str]:
    yield f"cd {shlex.quote(str(target))}"
    # uvx puts the program on its own path only
    if "UV" in environ or shutil.which("skillopt-ci", path=environ.get("PATH")) is None:
        yield f'export PATH="{Path(sys.executable).parent}:$PATH"'
    for command_line, what in (
        (f"git log --first-parent skillopt/{run}", "each step's evidence"),
        (f"git diff main skillopt/{run} skills", "what was learned"),
        ("skillopt-ci show 2", "one step: edits, flips, scores"),
        ("skillopt-ci init", "in a repository of your own"),
    ):
        yield f"{command_line:<43} # {what}"
    if shutil.which("bwrap", path=environ.get("PATH")) is None:
        yield "left out: training an agent in a sandbox, which needs bubblewrap"
