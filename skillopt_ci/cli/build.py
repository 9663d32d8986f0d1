"""Build the parts of a run from the command line, the process's environment and the files."""

import atexit
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from glob import escape
from pathlib import Path

from skillopt_ci.cli.console import ProgressDisplay
from skillopt_ci.cli.options import Globals
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded, load, parse_override, read_layers
from skillopt_ci.config.rollout import HumanConfig
from skillopt_ci.config.scorers import ScorerSpec, parts_of
from skillopt_ci.confinement import current
from skillopt_ci.errors import ConfigError, TaskFileError, UsageError
from skillopt_ci.estimate.estimate import budgeted
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.progress import Note, Observer, TerminalLent
from skillopt_ci.redaction import Redactor, named_secrets
from skillopt_ci.report import commits
from skillopt_ci.rollout.computer_pool import NEEDS_COMPUTER, ComputerPool
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.graders import check_scorers
from skillopt_ci.tasks.loading import SPLIT_NAMES, load_splits, refuse_clashes
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.training.fingerprint import keep_secrets, run_secrets
from skillopt_ci.training.plan import KEPT, planned
from skillopt_ci.training.review_comments import read_notes
from skillopt_ci.training.run_context import Run, runner_parts
from skillopt_ci.util import located, pick

# The configuration and the tasks.


def load_configured(settings: Globals) -> Loaded:
    """Load the configuration that ``settings`` name and redact its secrets; ConfigError if none."""
    file, cwd, environ = settings.config_file, settings.cwd, settings.environ
    if file.exists():
        loaded = load(file, settings.overrides, environ, settings.run, cwd)
        settings.redact.learn(run_secrets(loaded.config, loaded.root, environ))
        return loaded
    hint = "Write one with `skillopt-ci init`, or name yours with --config."
    patterns = ("*/" * depth + escape(file.stem) + ".y*ml" for depth in range(3))
    if near := [one for pattern in patterns for one in cwd.glob(pattern)]:
        hint = f"There is another one: --config {near[0].relative_to(cwd)}"
    raise ConfigError("there is no such file", file=file, hint=hint)


def read_tasks(
    loaded: Loaded, environ: Mapping[str, str], loading_seconds: float = 600.0
) -> tuple[Splits, Environment | None]:
    """The run's tasks, and its environment if any. From here on, its programs reach no secrets."""
    config, root = loaded.config, loaded.root
    keep_secrets(config, root, environ)
    if config.tasks is not None:
        try:
            return load_splits(config.tasks, root), None
        except TaskFileError as error:
            if error.file and not_checked_out(root, error.file):
                error.hint = "It is in git: get it with `git restore` or `git sparse-checkout add`."
            raise
    assert config.environment is not None  # noqa: S101 - the configuration has one of the two
    # Imported late: bridges are large, and few runs have one.
    from skillopt_ci.environments import find  # noqa: PLC0415
    from skillopt_ci.environments.api import split_tasks  # noqa: PLC0415

    with find.loading_limit(loading_seconds):
        environment = find.open_environment(config.environment, root, environ)
        atexit.register(find.close, environment, Redactor(named_secrets(environ)))
        named = {split: split_tasks(environment, split) for split in SPLIT_NAMES}
    refuse_clashes(named)
    if empty := " and ".join(name for name in SPLIT_NAMES[:2] if not named[name]):
        raise UsageError(f"environment: there are no {empty} tasks")
    return Splits(*named.values()), environment


def not_checked_out(folder: Path, file: Path) -> bool:
    """Whether git has the file, and this checkout does not."""
    return not file.is_file() and bool(Git(folder).attempt("ls-files", "--", str(file)).text)


def unconfined_programs(
    config: Config, tasks: Iterable[Task], environment: Environment | None
) -> tuple[bool, list[str]]:
    """Whether a run starts programs outside of computers, and which can read our secrets."""
    inside = environment is not None and environment.code == "inside"
    found = ["`environment` runs inside skillopt-ci"] if inside else []
    graded = environment is not None and environment.grades
    parts = [] if graded else list(parts_of(config.scorer, *(task.scorer for task in tasks)))
    starts = {
        "`environment`": environment is not None and environment.code == "confined",
        "scorers of type `command`": any(part.type == "command" for part in parts),
        "scorers of type `python`": any(part.type == "python" for part in parts),
        "`model`, a program": any(
            role.preset.protocol == "command" for role in config.model.roles.values()
        ),
        "`rollout.computer.type: unconfined`": config.rollout.computer is not None
        and config.rollout.computer.type == "unconfined",
    }
    if any(starts.values()) and (kept := current()).kind == "none":
        found += [f"{name}: {kept.reason}" for name, there in starts.items() if there]
    return any(starts.values()), found


def check_computers(splits: Splits, config: Config, pool: ComputerPool | None) -> None:
    """Raise UsageError if tasks, solver or scorers need a computer that is not configured."""

    def grades_there(scorer: ScorerSpec | None) -> bool:
        return any(part.type == "computer" for part in parts_of(scorer))

    solver, computer = config.rollout.solver, config.rollout.computer
    for task in splits.all:
        needs = {
            "rollout.task": config.rollout.task is not None,
            f"rollout.solver: {solver.type}": solver.type in ("agent", "external")
            or (solver.type == "scripted" and bool(solver.commands)),
            "scorer: computer": grades_there(config.scorer),
            f"task {task.id!r}": task.computer is not None,
            f"the scorer of task {task.id!r}": grades_there(task.scorer),
        }
        if (needing := next((name for name, there in needs.items() if there), None)) is None:
            continue
        if pool is None or computer is None:
            raise UsageError(f"{needing} needs a computer", hint=NEEDS_COMPUTER)
        image = pool.spec(task).image
        if image and computer.type != "docker":
            raise UsageError(
                f"task {task.id!r} names the image {image}, and `{computer.type}` has no images",
                hint="Set `rollout.computer.type: docker`, or leave out `image`.",
            )
        if not image and computer.type == "docker":
            raise UsageError(
                f"no image is named for task {task.id!r}",
                hint="Set `rollout.computer.image`, or `image` in the task's `computer` block.",
            )


# The run, and where its parts are in the repository.


@contextmanager
def opened(settings: Globals, *, notes: Path | None = None, locked: bool = False) -> Iterator[Run]:
    """A run that shows its progress; ``locked`` if it will move the branch.

    ``notes`` is a file of review comments to train with. Raises LostRace if the lock is taken.
    """
    with closing(ProgressDisplay(sys.stderr, settings)) as observer:
        run = open_run(settings, observer)
        if notes is not None:
            run = replace(run, reviewer_notes=read_notes(settings.cwd / notes))
        with run.ledger.lock() if locked else nullcontext():
            begun = replace(as_begun(run), kept=_kept(run, settings))
            for text in _uncommitted(begun, settings.config_file) if locked else ():
                observer(Note(text, level="warning"))
            yield begun


def as_begun(run: Run) -> Run:
    """``run`` with the settings that it began with, or that its budget admits if it is new."""
    folder = run.ledger.at(run.ledger.sync().head)
    config, state = run.config, folder.read_state()
    if state is None:
        config = budgeted(config, run.splits, run.prompts, folder.read(run.skill_path) or "")
    config, splits = planned(config, run.splits, state)
    config = config.model_copy(update={"budget": run.config.budget})
    return replace(run, config=config, splits=splits)


def _kept(run: Run, settings: Globals) -> dict[str, object]:
    """What later commands use of :data:`KEPT` if an ``-o`` sets some of it for this one alone."""
    lasting = tuple(text for text in settings.overrides if not _sets_kept(text))
    if lasting == settings.overrides:
        return {}
    try:
        config = load_configured(replace(settings, overrides=lasting)).config
        later = as_begun(replace(run, config=config)).config
    except ConfigError:  # the configuration is invalid without them: the run keeps what they say
        return {}
    return pick(later, " ".join(KEPT))


def _sets_kept(override: str) -> bool:
    path = parse_override(override).mark.override  # of a key, or of the section that it is in
    return any(f"{key}.".startswith(f"{path}.") for key in KEPT)


def _uncommitted(run: Run, config_file: Path) -> Iterator[str]:
    """A warning for the skill, and for each file that the run reads, if git has another version."""
    top, skill = run.ledger.git.folder.resolve(), run.ledger.git.folder / run.skill_path
    files = [layer.mark.file for layer in read_layers(config_file) if layer.mark.file]
    sections = {"tasks", "environment", "scorer", "prompts"}
    for text in _texts(run.config.model_dump(mode="json", include=sections)):
        name = text.partition(":")[0]  # of `file.py:function`, the file
        if name and os.path.exists(run.root / name):  # noqa: PTH110 - any text
            files.append(run.root / name)
    paths = {file.resolve() for file in files} - {top, run.root}
    inside = sorted(path for path in paths if path.is_relative_to(top))
    status = ("status", "--porcelain", "--no-renames", "--untracked-files=all", "--ignored", "-z")
    # fails where a clean filter is missing, such as git-lfs in a container
    found = run.ledger.git.attempt(*status, "--", *map(str, (*inside, skill)))
    for entry in found.text.split("\0")[:-1]:
        name = entry[3:]  # after two letters and a space
        if name == run.skill_path:
            yield f"{name} has changes that are not committed: training uses what is committed"
        else:
            yield f"{name} differs from what is committed: this run uses it as it is here"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def open_run(settings: Globals, observer: Observer) -> Run:
    loaded, environ, redact = load_configured(settings), settings.environ, settings.redact
    config, root = loaded.config, loaded.root
    splits, environment = read_tasks(loaded, environ)
    redact.learn(run_secrets(config, root, environ, splits.all))
    parts = runner_parts(config, root, environ, environment)
    if environment is None or not environment.grades:
        check_scorers(splits, config.scorer, root=root, environ=environ)
    check_computers(splits, config, parts.pool)
    for warning in loaded.warnings:
        observer(Note(warning, level="warning"))
    if isinstance(config.rollout.solver, HumanConfig):
        observer(TerminalLent())
    ledger = replace(
        open_ledger(loaded, environ),
        redact=redact,
        tell=lambda text: observer(Note(text, level="warning")),
    )
    usual = str(ledger.common_dir / "skillopt-ci" / "calls.sqlite")
    cache_path = located(config.cache.path or usual, root, environ)
    return Run(
        config=config,
        root=root,
        skill_path=skill_path(loaded, ledger.git.folder),
        splits=splits,
        prompts=parts.prompts,
        ledger=ledger,
        cache_path=cache_path if config.cache.enabled else None,
        environ=environ,
        observer=observer,
        render=commits,
        clock=time.monotonic,
        command_started=time.monotonic(),
        redact=redact,
        pool=parts.pool,
        environment=environment,
        events=events_path(ledger),
    )


def open_ledger(loaded: Loaded, environ: Mapping[str, str]) -> Ledger:
    """Open the run's ledger, with GitHub as the maker of its commits if so configured."""
    config = loaded.config
    ledger = Ledger.open(loaded.root, config.run, config.git)
    if config.git.commits == "git":
        return ledger
    if ledger.remote is None:
        raise ConfigError("git.commits: api needs a remote on GitHub", file=loaded.file)
    # Here and not above: PyGithub costs half a second.
    from skillopt_ci.github.client import connect  # noqa: PLC0415
    from skillopt_ci.github.commits import ApiCommits  # noqa: PLC0415

    return replace(ledger, write_commit=ApiCommits(connect(environ), ledger.remote))


def skill_path(loaded: Loaded, repository: Path) -> str:
    """The skill's path inside the repository, as git spells it."""
    # not by Path.resolve, which fails on links that lead to each other
    file = Path(os.path.realpath(loaded.root / loaded.config.skill))
    if file.is_relative_to(top := repository.resolve()):
        return file.relative_to(top).as_posix()
    raise ConfigError(
        f"skill: {loaded.config.skill} is outside of the repository {repository}",
        file=loaded.file,
        hint="Paths start at the folder of the configuration file.",
    )


def events_path(ledger: Ledger) -> Path:
    """The folder of the run's events: inside `.git`, so that no checkout shows them."""
    return ledger.common_dir / "skillopt-ci" / "events" / ledger.run
