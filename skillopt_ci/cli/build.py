"""Build the real parts of a run from what the command line says."""

import atexit
import difflib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol

import click

from skillopt_ci.cli.options import Globals
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded, load
from skillopt_ci.config.reference import config_sha256
from skillopt_ci.config.rollout import ChatConfig, HumanConfig
from skillopt_ci.config.scorers import CommandScorer, ComputerScorer, PythonScorer
from skillopt_ci.confinement import confine, current, withhold
from skillopt_ci.errors import ConfigError, UsageError
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.inspect import newest, resolve
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.keys import key_variable
from skillopt_ci.progress import Note, Observer, TerminalLent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redactor
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.graders import parts_of
from skillopt_ci.scorers.build import NEEDS_COMPUTER, check_scorers
from skillopt_ci.tasks.files import refuse
from skillopt_ci.tasks.loading import SPLIT_NAMES, load_splits, overlaps, repeated_ids
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training.fingerprint import (
    grader_folders,
    measurement_fingerprint,
    run_secrets,
    working_facts,
)
from skillopt_ci.training.offline_eval import NamedSkill
from skillopt_ci.training.review_comments import read_notes
from skillopt_ci.training.run_context import Session, first

# The configuration that the command line names.


def load_configured(settings: Globals) -> Loaded:
    """Load the configuration of the run that ``settings`` name.

    Raises :class:`~skillopt_ci.errors.ConfigError` for one that is not there or cannot be used.
    """
    file = settings.cwd / settings.config
    if not file.exists():
        raise ConfigError("there is no such file", file=file, hint=_where_else(settings))
    return load(file, settings.overrides, settings.environ, settings.run)


def _where_else(settings: Globals) -> str:
    found = next(_nearby(settings.cwd.absolute(), settings.config.name), None)
    if found is not None:
        return f"There is one elsewhere: --config {os.path.relpath(found, settings.cwd)}"
    return "Write one with `skillopt-ci init`, or name yours with --config."


def _nearby(folder: Path, name: str) -> Iterator[Path]:
    """Files called ``name`` above ``folder``, up to the repository's top, and then just below."""
    for above in (folder, *folder.parents):
        if (above / name).is_file():
            yield above / name
        if (above / ".git").exists():
            break
    below = chain(folder.glob(f"*/{name}"), folder.glob(f"*/*/{name}"))
    yield from sorted(below)


# Where a run's tasks come from, and the computers that they are worked on with.


def read_tasks(loaded: Loaded, environ: Mapping[str, str]) -> tuple[Splits, Environment | None]:
    """The run's tasks: from task files, or from an environment, which is returned too.

    Raises :class:`TaskFileError` and what opening an environment raises.
    """
    config = loaded.config
    keep_secrets(config, loaded.root, environ)
    if config.tasks is not None:
        return load_splits(config.tasks, loaded.root, config.train), None
    assert config.environment is not None  # noqa: S101 - the configuration has one of the two
    # Imported late: bridges are large, and few runs have one.
    from skillopt_ci.environments.api import split_tasks  # noqa: PLC0415
    from skillopt_ci.environments.find import open_environment  # noqa: PLC0415

    environment = open_environment(config.environment, loaded.root, environ)
    atexit.register(environment.close)
    train, selection, test = (split_tasks(environment, split) for split in SPLIT_NAMES)
    return _checked(Splits(train, selection, test)), environment


def keep_secrets(config: Config, root: Path, environ: Mapping[str, str]) -> None:
    """See to it that programs which this configuration starts reach no secret of ours."""
    roles = [
        one for one in (config.model.target, config.model.optimizer, config.model.judge) if one
    ]
    withhold(filter(None, (key_variable(role) for role in roles)))
    files = [role.api_key_file for role in roles if role.api_key_file]
    home = Path(environ.get("HOME") or "/nonexistent")
    hidden = [home / name[2:] if name.startswith("~/") else root / name for name in files]
    if config.cache.path is not None:
        hidden.append(root / config.cache.path)
    confine(root, environ, hidden=hidden, wanted=not config.rollout.programs_can_read_secrets)


def unconfined_programs(
    config: Config, tasks: Iterable[Task], environment: Environment | None
) -> tuple[bool, list[str]]:
    """Whether a run starts programs, and what of them and its code nothing keeps from our secrets.

    Computers that confine by themselves are none of these.
    """
    found = []
    if environment is not None and environment.code == "inside":
        found.append("`environment` runs inside of skillopt-ci")
    graded = environment is not None and environment.grades
    specs = [] if graded else [config.scorer, *(task.scorer for task in tasks)]
    parts = [part for spec in specs if spec is not None for part in parts_of(spec)]
    models = (config.model.target, config.model.optimizer, config.model.judge)
    starts = {
        "`environment`": environment is not None and environment.code == "confined",
        "scorers of type `command`": any(isinstance(part, CommandScorer) for part in parts),
        "scorers of type `python`": any(isinstance(part, PythonScorer) for part in parts),
        "`model`, a program": any(one and one.preset.protocol == "command" for one in models),
        "`rollout.computer.type: unconfined`": config.rollout.computer is not None
        and config.rollout.computer.type == "unconfined",
    }
    if any(starts.values()) and (kept := current()).kind == "none":
        found += [f"{name}: {kept.reason}" for name, there in starts.items() if there]
    return any(starts.values()), found


def check_places(splits: Splits, config: Config, places: ComputerPool | None) -> None:
    """Refuse a run whose tasks, solver or scorers need a computer that is not configured.

    None at all, or a container without an image.
    """
    tasks = (*splits.train, *splits.selection, *splits.test)
    everywhere = next(_config_needing(config), "")
    if places is None:
        own = (part for task in tasks for part in _parts_needing(task))
        wanting = everywhere or next(own, "")
        if wanting:
            raise UsageError(f"{wanting} needs a computer", hint=NEEDS_COMPUTER)
    elif config.rollout.computer is not None and config.rollout.computer.type == "docker":
        for task in tasks:
            needed = everywhere or next(_parts_needing(task), "")
            if needed and not places.spec(task).image:
                raise UsageError(
                    f"{needed} needs a container, and no image is named for task {task.id!r}",
                    hint="Set `rollout.computer.image`, or `image` in the task's `computer` block.",
                )


def _config_needing(config: Config) -> Iterator[str]:
    settings = config.rollout
    if settings.task is not None:
        yield "rollout.task"
    if not isinstance(settings.solver, ChatConfig) and settings.solver.type in (
        "agent",
        "external",
    ):
        yield f"rollout.solver: {settings.solver.type}"
    if config.scorer is not None and any(
        isinstance(part, ComputerScorer) for part in parts_of(config.scorer)
    ):
        yield "scorer: computer"


def _parts_needing(task: Task) -> Iterator[str]:
    if task.computer is not None:
        yield f"task {task.id!r}"
    if task.scorer is not None and any(
        isinstance(part, ComputerScorer) for part in parts_of(task.scorer)
    ):
        yield f"the scorer of task {task.id!r}"


def _checked(splits: Splits) -> Splits:
    named = {"train": splits.train, "selection": splits.selection, "test": splits.test}
    refuse([*repeated_ids(named), *overlaps(named)])
    for name in ("train", "selection"):
        if not named[name]:
            raise UsageError(f"environment: there are no {name} tasks")
    return splits


# Let the process's redactor know of a run's secrets.


def learn_secrets(
    redact: Redactor, loaded: Loaded, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> None:
    """Let ``redact`` hide the secrets of a configuration and of its tasks' scorers."""
    redact.learn(run_secrets(loaded.config, loaded.root, environ, tasks))


@dataclass(frozen=True, slots=True)
class Material:
    """What a run is made of, read from files and checked, before git and models come in."""

    loaded: Loaded
    splits: Splits
    prompts: Prompts
    environment: Environment | None
    places: ComputerPool | None


def read_material(settings: Globals) -> Material:
    """Load configuration, tasks and prompts.

    Raises the errors of :mod:`skillopt_ci.errors` that point at a file and a line.
    """
    loaded = load_configured(settings)
    learn_secrets(settings.redact, loaded, settings.environ)
    config, root = loaded.config, loaded.root
    splits, environment = read_tasks(loaded, settings.environ)
    tasks = (*splits.train, *splits.selection, *splits.test)
    learn_secrets(settings.redact, loaded, settings.environ, tasks)
    library = Prompts.load(
        None if config.prompts is None else root / config.prompts,
        {} if environment is None else environment.prompts(),
    )
    places = open_computer_pool(config, root, settings.environ)
    if environment is None or not environment.grades:
        check_scorers(splits, config.scorer, root=root, environ=settings.environ)
    check_places(splits, config, places)
    return Material(loaded, splits, library, environment, places)


def open_session(settings: Globals, observer: Observer) -> Session:
    """Assemble a training session on the repository that holds the configuration."""
    material = read_material(settings)
    loaded = material.loaded
    for warning in loaded.warnings:
        observer(Note(warning, level="warning"))
    config = loaded.config
    if isinstance(config.rollout.solver, HumanConfig):
        observer(TerminalLent())
    ledger = replace(
        open_ledger(loaded, settings.environ),
        redact=settings.redact,
        tell=lambda text: observer(Note(text, level="warning")),
    )
    selection = first(material.splits.selection, config.evaluation.sel_env_num)
    facts = working_facts(
        config,
        loaded.root,
        settings.environ,
        prompts=material.prompts,
        environment=material.environment,
        places=material.places,
    )
    return Session(
        config=config,
        root=loaded.root,
        skill_path=skill_path(loaded, ledger.root),
        splits=material.splits,
        prompts=material.prompts,
        ledger=ledger,
        cache_path=cache_path(loaded, ledger),
        environ=settings.environ,
        observer=observer,
        clock=time.monotonic,
        config_sha256=config_sha256(config),
        measured_under=measurement_fingerprint(
            config,
            selection,
            material.prompts,
            facts,
            grader_folders(config, selection, loaded.root),
        ),
        redact=settings.redact,
        places=material.places,
        environment=material.environment,
        rollout_facts=facts,
        events=events_path(ledger, loaded.config.run),
    )


def open_ledger(loaded: Loaded, environ: Mapping[str, str]) -> Ledger:
    """Open the run's ledger, with GitHub as the maker of its commits if so configured.

    Raises RepositoryError, and UsageError if `git.commits: api` has no repository or token.
    """
    config = loaded.config
    ledger = Ledger.open(loaded.root, config.run, config.git)
    if config.git.commits == "git":
        return ledger
    if ledger.remote is None:
        raise ConfigError("git.commits: api needs a remote on GitHub", file=loaded.file)
    # Here and not above: PyGithub costs half a second.
    from skillopt_ci.github.client import connect, from_environ  # noqa: PLC0415
    from skillopt_ci.github.commits import ApiCommits  # noqa: PLC0415

    return replace(ledger, write_commit=ApiCommits(connect(from_environ(environ)), ledger.remote))


def skill_path(loaded: Loaded, repository: Path) -> str:
    """The skill's path inside the repository, as git spells it."""
    file = (loaded.root / loaded.config.skill).resolve()
    try:
        return file.relative_to(repository.resolve()).as_posix()
    except ValueError:
        raise ConfigError(
            f"skill: {loaded.config.skill} is outside of the repository {repository}",
            file=loaded.file,
            hint="Paths start at the folder of the configuration file.",
        ) from None


def cache_path(loaded: Loaded, ledger: Ledger) -> Path | None:
    """Where answered calls are kept: inside `.git` by default, so that no checkout shows it."""
    cache = loaded.config.cache
    if not cache.enabled:
        return None
    if cache.path is not None:
        return loaded.root / cache.path
    return ledger.common_dir / "skillopt-ci" / "calls.sqlite"


def events_path(ledger: Ledger, run: str) -> Path:
    """The folder of the run's events: inside `.git`, so that no checkout shows it."""
    return ledger.common_dir / "skillopt-ci" / "events" / run


# The option that hands reviewers' notes to training.

notes_option = click.option(
    "--notes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Reviewers' notes, as JSON; each is given to one step.",
)


def with_notes(session: Session, file: Path | None, settings: Globals) -> Session:
    """The session with the notes of ``file``; raises UsageError if they cannot be read."""
    return session if file is None else replace(session, notes=read_notes(settings.cwd / file))


# Find the skill text that a word on the command line means.

#: Words for texts that the run's folder keeps.
KEPT = ("best", "current", "initial")


class Source(Protocol):
    """Where texts of a run's skill are looked up: a session, or a reader of what is in git."""

    @property
    def ledger(self) -> Ledger:
        """The run in git."""

    @property
    def folder(self) -> RunFolder:
        """The run's files in the tree."""

    @property
    def skill_path(self) -> str:
        """The skill, relative to the repository."""


def find_skill(source: Source, word: str, cwd: Path) -> NamedSkill:
    """The text that ``word`` names: a kept one, a file, a git ref, or ``REF:path``.

    Raises :class:`UsageError` saying what was looked for.
    """
    if word in KEPT:
        return NamedSkill(word, _kept(source, word))
    text = _file(cwd / word)
    if text is None:
        text = _at_ref(source, word)
    if text is None:
        raise UsageError(
            f"{word!r} names no skill: it is not a file here, not a git ref that holds "
            f"{source.skill_path}, and not one of {', '.join(KEPT)}.",
            hint=_nearest(word),
        )
    return NamedSkill(word, text)


def _nearest(word: str) -> str:
    nearest = difflib.get_close_matches(word, KEPT, n=1)
    return f"Did you mean {nearest[0]}?" if nearest else ""


def _kept(source: Source, word: str) -> str:
    commit = newest(source.ledger)
    read = partial(source.ledger.read, commit)
    started = source.folder.read_state(read) is not None
    paths = {
        "best": source.folder.best_skill,
        "current": source.skill_path,
        "initial": source.folder.initial_skill if started else source.skill_path,
    }
    text = read(paths[word])
    if text is None:
        run = source.folder.run
        raise UsageError(
            f"Run {run!r} has no {word} skill: there is no {paths[word]} in {commit[:10]}.",
            hint="" if started else "Start the run with `skillopt-ci step`, or name a file.",
        )
    return text


def _file(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}).") from error


def _at_ref(source: Source, word: str) -> str | None:
    ref, _, path = word.partition(":")
    commit = resolve(source.ledger, ref)
    return None if commit is None else source.ledger.read(commit, path or source.skill_path)
