"""Install the skill, and the files next to it, on the agent's computer where the agent looks."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillopt_ci.computer.archive import Member
from skillopt_ci.computer.computer import Computer
from skillopt_ci.errors import SkillError
from skillopt_ci.skill.document import body, frontmatter

#: A skill's folder is meant to be read; a larger one is probably a mistake.
MOST_FILES = 500
MOST_BYTES = 20_000_000

_ABOUT = "What has been learned about the tasks in this workspace. Read it before any of them."
_NAME = re.compile(r"^name:[ \t]*[\"']?([^\"'\n#]+)", re.MULTILINE)
_INSTRUCTIONS = {"agents": "AGENTS.md", "claude": "CLAUDE.md", "gemini": "GEMINI.md"}


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """The file name of the trained document, and the files next to it."""

    document: str
    folder: str = ""
    files: tuple[Member, ...] = ()

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for file in self.files:
            head = f"{file.name}\0{file.executable}\0{len(file.content)}\0"
            digest.update(os.fsencode(head) + file.content)
        return digest.hexdigest()

    def skill_name(self, skill: str) -> str:
        """The skill's name in Agent Skills format: lower case, digits, dashes."""
        named = _NAME.search(frontmatter(skill))
        plain = re.sub(r"[^a-z0-9]+", "-", (named[1] if named else self.folder).lower()).strip("-")
        return plain[:64].strip("-") or "skill"

    def path_for(self, skill: str, skill_as: str, skills: str, instructions: str) -> str:
        """The path in the workspace where the agent finds ``skill``; empty if the skill is."""
        if not skill:
            return ""
        if skill_as == "auto":
            skill_as = "skill" if self.document == "SKILL.md" else instructions
        if skill_as == "skill":
            skill_as = f"{skills}/{{name}}/SKILL.md"
        return _INSTRUCTIONS.get(skill_as, skill_as).replace("{name}", self.skill_name(skill))

    async def install(self, computer: Computer, path: str, skill: str) -> None:
        """Write ``skill`` to ``path``, and its files next to a SKILL.md. Raises FileRefused."""
        place = PurePosixPath(path)
        if place.name != "SKILL.md":
            # Instructions have no front matter; Cursor's rules have their own.
            head = "---\nalwaysApply: true\n---\n\n" if place.suffix == ".mdc" else ""
            await computer.write(path, (head + body(skill)).encode("utf-8"))
            return
        if not frontmatter(skill):
            head = f"name: {self.skill_name(skill)}\ndescription: {_ABOUT}"
            skill = f"---\n{head}\n---\n\n{skill}"
        await computer.write(path, skill.encode("utf-8"))
        for file in self.files:
            beside = str(place.parent / file.name)
            await computer.write(beside, file.content, executable=file.executable)


def read_skill_folder(path: Path) -> SkillFolder:
    """The visible files next to a SKILL.md in its own folder. Raises SkillError."""
    if path.name != "SKILL.md" or (path.parent / ".git").exists() or not path.parent.is_dir():
        return SkillFolder(path.name, path.parent.name)
    size, found = 0, list[Member]()
    try:
        for file in (one for one in _plain_files(path.parent) if one != path):
            content = file.read_bytes()
            size += len(content)
            if len(found) == MOST_FILES or size > MOST_BYTES:
                raise SkillError(
                    f"the folder {path.parent} holds more than {MOST_FILES} files "
                    f"or {MOST_BYTES:,} bytes beside the skill",
                    hint="The agent gets the whole folder: move unrelated files elsewhere.",
                )
            name = file.relative_to(path.parent).as_posix()
            found.append(Member(name, content, os.access(file, os.X_OK)))
    except OSError as error:
        raise SkillError(f"a file beside the skill cannot be read: {error}", file=path) from error
    return SkillFolder(path.name, path.parent.name, tuple(sorted(found, key=lambda one: one.name)))


def _plain_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _plain_files(path)
        elif path.is_file():
            yield path
