"""The files that a run, its workflows or an environment start from."""

import json
import keyword
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from types import MappingProxyType

from skillopt_ci.errors import UsageError

_SKILL_PLACES = (
    "SKILL.md",
    "skills/*/SKILL.md",
    ".claude/skills/*/SKILL.md",
    ".agents/skills/*/SKILL.md",
    "AGENTS.md",
    "CLAUDE.md",
)
#: Task files and the templates that they start as.
_TASK_FILES = MappingProxyType(
    {f"tasks/{split}.jsonl": f"{split}.jsonl" for split in ("train", "selection", "test")}
)


def slug(text: str) -> str:
    """``text`` as a name of lower-case letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "skill"


def existing_skill(root: Path) -> str | None:
    """The first document below ``root`` that looks like a skill, as a relative path."""
    found = (file for place in _SKILL_PLACES for file in sorted(root.glob(place)))
    return next((file.relative_to(root).as_posix() for file in found), None)


def _template(name: str) -> str:
    return (resources.files("skillopt_ci.cli") / "templates" / name).read_text(encoding="utf-8")


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


# A run: configuration, tasks and a starter skill.


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user decided; ``target`` and ``optimizer`` are the keys of each model role."""

    run: str
    skill: str
    target: Mapping[str, object]
    optimizer: Mapping[str, object]


def scaffold(choices: Choices, config: str) -> dict[str, str]:
    """The text of each file to write, by its path relative to the configuration's folder.

    ``config`` is the configuration's own file name.
    """
    values = {
        **{key: _yaml(value) for key, value in (("run", choices.run), ("skill", choices.skill))},
        **{
            role: "\n".join(f"    {key}: {_yaml(value)}" for key, value in keys.items())
            for role, keys in (("target", choices.target), ("optimizer", choices.optimizer))
        },
    }
    skill = PurePosixPath(choices.skill)
    starter = "AGENTS.md" if skill.name != "SKILL.md" else "SKILL.md"
    name = slug(skill.parent.name or choices.run)
    return {
        config: Template(_template("skillopt.yaml")).substitute(values),
        **{file: _template(source) for file, source in _TASK_FILES.items()},
        choices.skill: Template(_template(starter)).safe_substitute(name=name),
    }


def _yaml(value: object) -> str:
    """A value in JSON, which YAML reads as the same value whatever it looks like."""
    return json.dumps(value, ensure_ascii=False)


def unchanged_examples(root: Path) -> list[str]:
    """Those task files below ``root`` that are still as :func:`scaffold` wrote them."""
    found = []
    for name, source in _TASK_FILES.items():
        with suppress(OSError, UnicodeDecodeError):
            if (root / name).read_text(encoding="utf-8") == _template(source):
                found.append(name)
    return found


# The workflow files that `init --github` writes: the examples, fitted to one run.

WORKFLOWS = ("train", "slow-update", "evaluate", "commands")
#: Only where it is asked for: it shows the run to everybody who can see the site.
_PAGES = "pages"


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
    tasks = place.config.parent / "tasks" / "**"
    key = "        env:\n          {0}: ${{{{ secrets.{0} }}}}\n"
    # what the examples say, in the places that differ from run to run
    changes = {
        key.format("OPENAI_API_KEY"): key.format(place.key) if place.key else "",
        "config: skillopt.yaml": f"config: {_quoted(place.config)}",
        "branches: [main]": f"branches: [{_quoted(place.branch)}]",
        'paths: [skillopt.yaml, "tasks/**"]': f"paths: [{_quoted(place.config)}, {_quoted(tasks)}]",
        'paths: ["skills/**"]': f"paths: [{_quoted(place.skill)}]",
    }
    files = {}
    for name in (*WORKFLOWS, *([_PAGES] if pages else [])):
        text = _template(f"workflows/{name}.yml")
        for old, new in changes.items():
            text = text.replace(old, new)
        files[f".github/workflows/skillopt-{name}.yml"] = text
    return files


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


# An environment, with a test that passes.

#: The files of each kind: where they go, and the template that they are made of.
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
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
)
#: Names that the class would hide.
_TAKEN = frozenset({"Attempt", "Environment", "Parts", "Score", "Split", "Task"})


def scaffold_environment(name: str, kind: str, folder: Path) -> dict[str, str]:
    """The text of each file of an environment called ``name``, by its path in ``folder``."""
    run = slug(name)
    values = {
        "name": " ".join(name.split()),
        "Name": class_name(name),
        "run": run,
        "folder": shlex.quote(folder.as_posix()),
    }
    # a name of its own: pytest cannot tell two test files of one name apart
    module = run.replace("-", "_")
    files = {
        file.format(module=module): Template(_template(f"new_env/{source}")).safe_substitute(values)
        for file, source in ENVIRONMENTS[kind].items()
    }
    skill = Template(_template("SKILL.md")).safe_substitute(name=run)
    return {**files, f"skills/{run}/SKILL.md": skill}


def class_name(text: str) -> str:
    """``text`` as the name of a Python class."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words) or "Environment"
    if name[0].isdigit():
        name = f"Environment{name}"
    return f"My{name}" if name in _TAKEN or keyword.iskeyword(name) else name
