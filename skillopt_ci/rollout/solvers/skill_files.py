"""The skill as files on an agent's computer: where the agent looks, with the files beside it."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillopt_ci.computer.computer import Computer
from skillopt_ci.errors import SkillError
from skillopt_ci.rollout.solvers.agents import AgentFacts
from skillopt_ci.skill.document import body, frontmatter

#: A skill's folder is for people and models to read; anything larger is a mistake.
MOST_FILES = 500
MOST_BYTES = 20_000_000

_NAME = re.compile(r"^name:[ \t]*[\"']?([^\"'\n#]+)", re.MULTILINE)
_FIXED_PLACES: Mapping[str, str] = {
    "agents": "AGENTS.md",
    "claude": "CLAUDE.md",
    "gemini": "GEMINI.md",
}


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file beside a SKILL.md; ``name`` is relative to its folder."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """What belongs to the document under training; ``document`` is its own file's name."""

    document: str
    folder: str = ""
    files: tuple[SkillFile, ...] = ()

    @property
    def sha256(self) -> str:
        """Fingerprint of the files beside the document."""
        digest = hashlib.sha256()
        for file in self.files:
            head = f"{file.name}\0{file.executable}\0{len(file.content)}\0"
            digest.update(head.encode() + file.content)
        return digest.hexdigest()


def read_skill_folder(path: Path) -> SkillFolder:
    """Read what lies beside the skill document ``path``, if that is a SKILL.md in its own folder.

    Symbolic links and hidden files are left out. Raises
    :class:`~skillopt_ci.errors.SkillError` for more than an agent could read, and for what we
    cannot read.
    """
    alone = path.name != "SKILL.md" or (path.parent / ".git").exists()
    if alone or not path.parent.is_dir():
        return SkillFolder(path.name, path.parent.name)
    try:
        files = tuple(sorted(_files_beside(path), key=lambda file: file.name))
    except OSError as error:
        raise SkillError(f"a file beside the skill cannot be read: {error}", file=path) from error
    return SkillFolder(path.name, path.parent.name, files)


def place_of(folder: SkillFolder, skill: str, facts: AgentFacts, skill_as: str) -> str:
    """Return the path in the workspace where an agent finds ``skill``."""
    kind = skill_as
    if kind == "auto":
        kind = "skill" if folder.document == "SKILL.md" else facts.instructions
    if kind == "skill":
        kind = f"{facts.skills}/{{name}}/SKILL.md"
    return _FIXED_PLACES.get(kind, kind).replace("{name}", skill_name(folder, skill))


def skill_name(folder: SkillFolder, skill: str) -> str:
    """Return the skill's name as the Agent Skills format has it: lower case, digits, dashes."""
    named = _NAME.search(frontmatter(skill))
    plain = re.sub(r"[^a-z0-9]+", "-", (named[1] if named else folder.folder).lower()).strip("-")
    return plain[:64].strip("-") or "skill"


async def install(computer: Computer, place: str, skill: str, folder: SkillFolder) -> None:
    """Write ``skill`` to ``place``, and beside a SKILL.md the files that belong to it.

    What stands there is overwritten. Raises :class:`~skillopt_ci.computer.computer.FileRefused`.
    """
    path = PurePosixPath(place)
    await computer.write(place, _as_file(path, skill, folder).encode("utf-8"))
    if path.name == "SKILL.md":
        for file in folder.files:
            beside = str(path.parent / file.name)
            await computer.write(beside, file.content, executable=file.executable)


def _as_file(path: PurePosixPath, skill: str, folder: SkillFolder) -> str:
    if path.name == "SKILL.md":
        return skill if frontmatter(skill) else _with_frontmatter(skill, folder)
    # Instructions have no front matter; Cursor's rules have one of their own.
    head = "---\nalwaysApply: true\n---\n\n" if path.suffix == ".mdc" else ""
    return head + body(skill)


def _with_frontmatter(skill: str, folder: SkillFolder) -> str:
    name = skill_name(folder, skill)
    about = "What has been learned about the tasks in this workspace. Read it before any of them."
    return f"---\nname: {name}\ndescription: {about}\n---\n\n{skill}"


def _files_beside(document: Path) -> Iterator[SkillFile]:
    size = 0
    for number, path in enumerate(_plain_files(document.parent), start=1):
        content = b"" if path == document else path.read_bytes()
        size += len(content)
        if number > MOST_FILES or size > MOST_BYTES:
            raise SkillError(
                f"the folder {document.parent} holds more than {MOST_FILES} files "
                f"or {MOST_BYTES:,} bytes beside the skill",
                hint="An agent is given the whole folder: move elsewhere what is no part of it.",
            )
        if path != document:
            name = path.relative_to(document.parent).as_posix()
            yield SkillFile(name, content, os.access(path, os.X_OK))


def _plain_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _plain_files(path)
        elif path.is_file():
            yield path
