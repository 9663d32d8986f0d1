"""The files that a new run starts from: their texts, and writing them beside what is there."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template

from skillopt_ci.errors import UsageError

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
