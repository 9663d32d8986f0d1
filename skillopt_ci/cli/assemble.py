"""Build the real parts of a run from what the command line says."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.known_secrets import learn_secrets
from skillopt_ci.cli.workplaces import check_places, read_tasks
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.reference import config_sha256
from skillopt_ci.config.rollout import HumanSettings
from skillopt_ci.errors import ConfigError
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.progress import Note, Observer, TerminalLent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.computers import Places, open_places
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.scorers.build import check_scorers
from skillopt_ci.tasks.task import Splits
from skillopt_ci.training.fingerprint import grader_folders, measurement_fingerprint, working_facts
from skillopt_ci.training.run_context import Session, first


@dataclass(frozen=True, slots=True)
class Material:
    """What a run is made of, read from files and checked, before git and models come in."""

    loaded: Loaded
    splits: Splits
    prompts: Prompts
    environment: Environment | None
    places: Places | None


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
    places = open_places(config, root, settings.environ)
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
    if isinstance(config.rollout.solver, HumanSettings):
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
    from skillopt_ci.github.client import connect, from_environ
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
