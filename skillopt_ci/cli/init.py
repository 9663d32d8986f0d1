"""``skillopt-ci init``: write the files that a run starts from."""

import asyncio
import json
import keyword
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from types import MappingProxyType
from typing import Annotated, Any, Protocol, TextIO, cast

import click
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.cli.build import find_skill, open_session
from skillopt_ci.cli.evaluate import print_evaluation
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.cli.train import tell_outcome
from skillopt_ci.config.config import Config
from skillopt_ci.config.providers import PROVIDERS, Preset, ProviderName
from skillopt_ci.demo.quickstart import write_example
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.skill.validation import unloadable
from skillopt_ci.training.offline_eval import Evaluation, evaluate
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.trainer import train

# The files that a new run starts from: their texts, and writing them beside what is there.

SPLITS = ("train", "selection", "test")
_SKILL_PLACES = (
    "SKILL.md",
    "skills/*/SKILL.md",
    ".claude/skills/*/SKILL.md",
    ".agents/skills/*/SKILL.md",
    "AGENTS.md",
    "CLAUDE.md",
)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user decided; ``target`` and ``optimizer`` are the keys of each model role."""

    run: str
    skill: str
    target: Mapping[str, object]
    optimizer: Mapping[str, object]


def slug(text: str) -> str:
    """Return ``text`` as a name of lower-case letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "skill"


def existing_skill(root: Path) -> str | None:
    """Return the first document below ``root`` that looks like a skill, as a relative path."""
    found = (file for place in _SKILL_PLACES for file in sorted(root.glob(place)))
    return next((file.relative_to(root).as_posix() for file in found), None)


def scaffold(choices: Choices, config: str) -> dict[str, str]:
    """Return the text of each file to write, by its path relative to the configuration's folder.

    ``config`` is the configuration's own file name.
    """
    values = {
        "run": _yaml(choices.run),
        "skill": _yaml(choices.skill),
        "target": _role(choices.target),
        "optimizer": _role(choices.optimizer),
    }
    tasks = {f"tasks/{split}.jsonl": _template(f"{split}.jsonl") for split in SPLITS}
    configuration = Template(_template("skillopt.yaml")).substitute(values)
    return {config: configuration, **tasks, choices.skill: _starter(choices)}


def unchanged_examples(root: Path) -> list[str]:
    """Return those task files below ``root`` that are still as :func:`scaffold` wrote them."""
    files = {f"tasks/{split}.jsonl": f"{split}.jsonl" for split in SPLITS}
    return [name for name, source in files.items() if _holds(root / name, _template(source))]


def _holds(file: Path, text: str) -> bool:
    try:
        return file.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def write_new(root: Path, files: Mapping[str, str]) -> list[str]:
    """Write those of ``files`` that do not exist yet, each whole or not at all; return which.

    Raises UsageError where a file cannot be written.
    """
    try:
        return [name for name, text in files.items() if _write(root / name, text)]
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error


def _write(file: Path, text: str) -> bool:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(text, encoding="utf-8")
    try:
        # a link, unlike a rename, never replaces a file that came in between
        with suppress(FileExistsError):
            file.hardlink_to(new)
            return True
        return False
    finally:
        new.unlink()


def _starter(choices: Choices) -> str:
    file = PurePosixPath(choices.skill)
    if file.name != "SKILL.md":
        return _template("AGENTS.md")
    return Template(_template("SKILL.md")).substitute(name=slug(file.parent.name or choices.run))


def _role(keys: Mapping[str, object]) -> str:
    return "\n".join(f"    {key}: {_yaml(value)}" for key, value in keys.items())


def _yaml(value: object) -> str:
    """A value in JSON, which YAML reads as the same value whatever it looks like."""
    return json.dumps(value, ensure_ascii=False)


def _template(name: str) -> str:
    folder = resources.files("skillopt_ci.cli") / "templates"
    return (folder / name).read_text(encoding="utf-8")


# The workflow files that `init --github` writes: the examples, fitted to one run.

#: What the examples say, in the places that differ from run to run.
_KEY = "OPENAI_API_KEY"
_KEY_LINES = f"        env:\n          {_KEY}: ${{{{ secrets.{_KEY} }}}}\n"
_CONFIG = "config: skillopt.yaml"
_BRANCH = "branches: [main]"
_TRAINING_PATHS = 'paths: [skillopt.yaml, "tasks/**"]'
_SKILL_PATHS = 'paths: ["skills/**"]'

NAMES = ("train", "slow-update", "evaluate", "commands")
#: Only where it is asked for: it shows the run to everybody who can see the site.
PAGES = "pages"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is; paths are relative to the top of the repository."""

    config: PurePosixPath
    skill: PurePosixPath
    branch: str = "main"
    key: str | None = None
    """Variable, and secret, that holds the models' key."""


def workflow_files(place: Place, *, pages: bool = False) -> dict[str, str]:
    """The text of each workflow file, by its path in the repository.

    With ``pages`` one of them publishes the report on GitHub Pages.
    """
    names = (*NAMES, PAGES) if pages else NAMES
    return {
        f".github/workflows/skillopt-{name}.yml": _fitted(_example(name), place) for name in names
    }


def _fitted(text: str, place: Place) -> str:
    tasks = place.config.parent / "tasks" / "**"
    changes = {
        _KEY_LINES: _KEY_LINES.replace(_KEY, place.key) if place.key else "",
        _CONFIG: f"config: {_quoted(place.config)}",
        _BRANCH: f"branches: [{_quoted(place.branch)}]",
        _TRAINING_PATHS: f"paths: [{_quoted(place.config)}, {_quoted(tasks)}]",
        _SKILL_PATHS: f"paths: [{_quoted(place.skill)}]",
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def _quoted(value: object) -> str:
    text = str(value).replace("'", "''")
    return f"'{text}'"


def _example(name: str) -> str:
    folder = resources.files("skillopt_ci.cli") / "templates" / "workflows"
    return (folder / f"{name}.yml").read_text(encoding="utf-8")


# What `init` offers of the places where models are served.

#: The providers that a configuration can be written for: all but the one that needs a command.
PRESETS: Mapping[ProviderName, Preset] = MappingProxyType(
    {name: preset for name, preset in PROVIDERS.items() if name != "command"}
)
_SMALL_SERVER = MappingProxyType({"max_concurrency": 2, "timeout": 900})
#: Further settings that suit a provider.
MORE: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {"ollama": _SMALL_SERVER, "llamacpp": _SMALL_SERVER}
)


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
def init_command(
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
        _init_tell(settings, choices, written, left)
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


def _init_tell(settings: Globals, choices: Choices, written: list[str], left: list[str]) -> None:
    for name in written:
        click.echo(f"  wrote     {harmless_line(name)}")
    for name in left:
        click.echo(f"  left      {harmless_line(name)}  (was there already)")
    if written:
        click.echo("\nNext:")
        for number, text in enumerate(_init_next_steps(settings, choices), 1):
            click.echo(f"  {number}. {text}")


def _warn(name: str, file: Path) -> None:
    """Say at once what a skill of the user's own lacks."""
    try:
        reason = unloadable(file.read_text(encoding="utf-8"), Path(name))
    except (OSError, UnicodeDecodeError):
        return  # `validate` tells it
    if reason:
        click.echo(f"\n! warning: {harmless_line(reason)}", err=True)


def _init_next_steps(settings: Globals, choices: Choices) -> list[str]:
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


# ``skillopt-ci new-env``: write an environment to start from, with a test that passes.

#: The files of each kind: where they go, and the template that they are made of.
_FILES = {
    "class": {
        "environment.py": "class/environment.py.template",
        "tasks.jsonl": "class/tasks.jsonl",
        "skillopt.yaml": "class/skillopt.yaml",
        "test_{module}.py": "class/test_environment.py.template",
    },
    "yaml": {
        "tasks/train.yaml": "yaml/train.yaml",
        "tasks/selection.yaml": "yaml/selection.yaml",
        "tasks/test.yaml": "yaml/test.yaml",
        "skillopt.yaml": "yaml/skillopt.yaml",
        "test_{module}.py": "yaml/test_environment.py.template",
    },
}

#: Names that the class would hide.
_TAKEN = frozenset({"Attempt", "Environment", "Parts", "Score", "Split", "Task"})


@click.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--kind",
    type=click.Choice(list(_FILES)),
    default="class",
    show_default=True,
    help="A Python class, or tasks in YAML that are worked on with a computer.",
)
@global_options
def new_env_command(settings: Globals, /, name: str, folder: Path | None, kind: str) -> ExitCode:
    """Write an environment NAME into FOLDER: tasks, grading, configuration and a test.

    FOLDER is called like the environment by default. Files that exist are left as they are.
    """
    target = folder or Path(slug(name))
    files = scaffold_environment(name, kind, target)
    written = write_new(settings.cwd / target, files)
    left = [file for file in files if file not in written]
    if settings.json:
        click.echo(json.dumps({"written": written, "left": left}))
    else:
        _new_env_tell(target, written, left)
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO


def scaffold_environment(name: str, kind: str, folder: Path) -> dict[str, str]:
    """Return the text of each file of an environment called ``name``, by its path in ``folder``."""
    run = slug(name)
    values = {
        "name": " ".join(name.split()),
        "Name": class_name(name),
        "run": run,
        "folder": shlex.quote(folder.as_posix()),
    }
    # a name of its own: pytest cannot tell two test files of one name apart
    module = run.replace("-", "_")
    texts = {
        file.format(module=module): _filled(f"new_env/{source}", values)
        for file, source in _FILES[kind].items()
    }
    return {**texts, f"skills/{run}/SKILL.md": _filled("SKILL.md", {"name": run})}


def class_name(text: str) -> str:
    """Return ``text`` as the name of a Python class."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words) or "Environment"
    if name[0].isdigit():
        name = f"Environment{name}"
    return f"My{name}" if name in _TAKEN or keyword.iskeyword(name) else name


def _filled(template: str, values: dict[str, str]) -> str:
    file = resources.files("skillopt_ci.cli") / "templates" / template
    return Template(file.read_text(encoding="utf-8")).safe_substitute(values)


def _new_env_tell(target: Path, written: list[str], left: list[str]) -> None:
    for file in written:
        click.echo(f"  wrote     {harmless_line((target / file).as_posix())}")
    for file in left:
        click.echo(f"  left      {harmless_line((target / file).as_posix())}  (was there already)")
    if written:
        place = shlex.quote(target.as_posix())
        click.echo(f"\nNext:\n  1. pytest {place}")
        click.echo(f"  2. git add {place} && git commit")
        click.echo(f"  3. skillopt-ci validate -c {place}/skillopt.yaml")


# ``skillopt-ci quickstart``: a whole training run on the bundled example.

#: The example is the same on every machine: nobody's name, signature or hooks are in it.
_SETTINGS = (
    ("user.name", "Quickstart"),
    ("user.email", "quickstart@localhost"),
    ("commit.gpgSign", "false"),
    ("core.hooksPath", "/dev/null"),
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@global_options
def quickstart_command(settings: Globals, folder: Path | None) -> ExitCode:
    """Train the bundled example skill in a new repository: offline, free, in a minute.

    The repository is made in FOLDER, or in a new folder for temporary files.
    """
    target = _new_folder() if folder is None else (settings.cwd / folder).resolve()
    make_repository(target)
    inside = replace(settings, config=target / "skillopt.yaml")
    with build_observer(inside) as observer:
        session = open_session(inside, observer)
        with session.ledger.lock():
            asyncio.run(train(session, lambda outcome: tell_outcome(outcome, inside)))
        named = [find_skill(session, word, target) for word in ("initial", "best")]
        result = asyncio.run(evaluate(session, named, "test"))
    click.echo(err=True)
    _print_result(session, result, inside, target)
    return ExitCode.DONE


def make_repository(target: Path) -> None:
    """Write the example into ``target`` and commit it, whatever git knows of the user."""
    write_example(target)
    git = Git(target)
    git.run("init", "--quiet", "--initial-branch=main")
    for key, value in _SETTINGS:
        git.run("config", key, value)
    git.run("add", "--all")
    git.run("commit", "--quiet", "--message", "Write down how ledger lines look")


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="skillopt-quickstart-")).resolve()


def _print_result(session: Session, result: Evaluation, settings: Globals, target: Path) -> None:
    stream = sys.stderr if settings.json else sys.stdout
    _print_heading("The training log is the skills branch", stream)
    for commit in session.ledger.log(newest(session.ledger), first_parent=True):
        click.echo(f"{commit.sha[:7]} {harmless_line(commit.subject)}", file=stream)
    click.echo(file=stream)
    _print_heading("Before and after, on tasks that training never saw", stream)
    print_evaluation(result, settings, stream)
    click.echo(file=stream)
    _print_heading("Where to look next", stream)
    for line in _quickstart_next_steps(session, settings.environ, target):
        click.echo(f"  {line}", file=stream)


def _quickstart_next_steps(
    session: Session, environ: Mapping[str, str], target: Path
) -> Iterator[str]:
    yield f"cd {shlex.quote(str(target))}"
    if shutil.which("skillopt-ci", path=environ.get("PATH")) is None:
        yield f'export PATH="{Path(sys.executable).parent}:$PATH"'
    branch = f"skillopt/{session.config.run}"
    for command_line, what in (
        (f"git log --first-parent {branch}", "each step's evidence"),
        (f"git diff main {branch} skills", "what was learned"),
        ("skillopt-ci log", "the training log as a table"),
        ("skillopt-ci show 2", "one step: edits, flips, scores"),
        ("skillopt-ci init", "in a repository of your own"),
    ):
        yield f"{command_line:<43} # {what}"


def _print_heading(text: str, stream: TextIO) -> None:
    click.echo(f"{text}\n{'─' * len(text)}", file=stream)
