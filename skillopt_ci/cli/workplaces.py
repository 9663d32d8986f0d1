"""Where a run's tasks come from, and the computers that they are worked on with."""

import atexit
from collections.abc import Iterator, Mapping

from skillopt_ci.errors import UsageError
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.places import Places
from skillopt_ci.rollout.scorers import parts_of
from skillopt_ci.settings.config import Config
from skillopt_ci.settings.loading import Loaded
from skillopt_ci.settings.scorer import ComputerScorer
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
