"""Publish the run of a checkout: from its configuration and its git record to GitHub."""

from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.action.publish import Published, Showing, publish
from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import RunReader, open_reader, view
from skillopt_ci.config.loading import Loaded
from skillopt_ci.errors import SkilloptError
from skillopt_ci.github.types import Forge
from skillopt_ci.report.check import TaskPlace
from skillopt_ci.report.text import Links
from skillopt_ci.tasks.loading import load_splits


def publish_run(
    settings: Globals,
    forge: Forge,
    *,
    links: Links | None = None,
    inconclusive: str = "",
) -> Published:
    """Show the run that ``settings`` name, as its record in git says.

    Raises RepositoryError if it has not started; what GitHub refuses is a note, not an error.
    """
    reader = open_reader(settings)
    return publish(view(reader), forge, showing(settings, reader, links or Links(), inconclusive))


def showing(settings: Globals, reader: RunReader, links: Links, inconclusive: str = "") -> Showing:
    """What the configuration wishes to be shown, and where its tasks are."""
    file = settings.cwd / settings.config
    if not file.is_file():
        return Showing(links=links, inconclusive=inconclusive)
    loaded = load_configured(settings)
    places = task_places(loaded, reader.ledger.root)
    return Showing(loaded.config.github, links, inconclusive, places)


def task_places(loaded: Loaded, repository: Path) -> Mapping[str, TaskPlace]:
    """Where each task is defined in the repository; nothing if they cannot be read (any more)."""
    if loaded.config.tasks is None:
        return {}
    try:
        splits = load_splits(loaded.config.tasks, loaded.root)
    except SkilloptError:
        return {}
    root = repository.resolve()
    tasks = (*splits.train, *splits.selection, *splits.test)
    return {
        task.id: TaskPlace(task.file.resolve().relative_to(root).as_posix(), task.line)
        for task in tasks
        if task.file is not None
        and task.line is not None
        and task.file.resolve().is_relative_to(root)
    }


def links_of(environ: Mapping[str, str]) -> Links:
    """The addresses that a workflow's environment names; none outside of one."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not repository:
        return Links()
    address = f"{environ.get('GITHUB_SERVER_URL') or 'https://github.com'}/{repository}"
    number = environ.get("GITHUB_RUN_ID", "")
    return Links(address, f"{address}/actions/runs/{number}" if number else "")
