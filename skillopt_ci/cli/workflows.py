"""The workflow files that `init --github` writes: the examples, fitted to one run."""

from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath

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
