"""Where a run's tasks come from, and the computers that they are worked on with."""

import atexit
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skillopt_ci.confinement import confine, current, withhold
from skillopt_ci.errors import UsageError
from skillopt_ci.model.keys import key_variable
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.places import Places
from skillopt_ci.rollout.scorers import parts_of
from skillopt_ci.settings.config import Config
from skillopt_ci.settings.loading import Loaded
from skillopt_ci.settings.scorer import CommandScorer, ComputerScorer, PythonScorer
from skillopt_ci.settings.solver import ChatSettings
from skillopt_ci.tasks.disjoint import overlaps, repeated_ids
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.problems import refuse
from skillopt_ci.tasks.scorers.build import NEEDS_COMPUTER
from skillopt_ci.tasks.splits import SPLIT_NAMES
from skillopt_ci.tasks.task import Splits, Task


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
    from skillopt_ci.environments.checked import split_tasks  # noqa: PLC0415
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


def check_places(splits: Splits, config: Config, places: Places | None) -> None:
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
    if not isinstance(settings.solver, ChatSettings) and settings.solver.type in (
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
