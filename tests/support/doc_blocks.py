"""The fenced blocks of the documentation, and what the comments before them say."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)(?P<more>[^`]*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_COMMENT = re.compile(r"^ *<!-- (.*) -->$")
_RUN_IN = re.compile(r"^<!-- run in: (.*) -->$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``line`` is that of its first fence, ``remark`` the comment before it."""

    file: Path
    line: int
    language: str
    title: str
    text: str
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def is_file(self) -> bool:
        """Whether its title is the path of a whole file, and not of a part of one."""
        return bool(self.title) and ", " not in self.title

    @property
    def not_run(self) -> str:
        """Why it is not run, if it says so."""
        return self.remark.removeprefix("not run: ") if self.remark.startswith("not run: ") else ""


def documents() -> list[Path]:
    """Every page of the documentation, and the README."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def all_blocks() -> list[Block]:
    """Every fenced block of every page."""
    return [block for file in documents() for block in read_blocks(file)]


def read_blocks(file: Path) -> list[Block]:
    """The fenced blocks of a page, in their order; raises ValueError for one that never ends."""
    return list(blocks(file, file.read_text(encoding="utf-8")))


def blocks(file: Path, text: str) -> Iterator[Block]:
    """The fenced blocks of ``text``, which stands in ``file``."""
    lines = text.splitlines()
    number, remark = 0, ""
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            comment = _COMMENT.match(lines[number])
            remark = comment[1] if comment else remark if not lines[number].strip() else ""
            number += 1
            continue
        end = _end(lines, number, opening["ticks"], file)
        content = "".join(
            f"{line.removeprefix(opening['indent'])}\n" for line in lines[number + 1 : end]
        )
        title = _TITLE.search(opening["more"])
        yield Block(
            file, number + 1, opening["language"], title[1] if title else "", content, remark
        )
        number, remark = end + 1, ""


def run_in(file: Path) -> str:
    """Where the commands of a page are run in order: nothing where they are only checked."""
    found = _RUN_IN.search(file.read_text(encoding="utf-8"))
    return found[1] if found else ""


def _end(lines: list[str], start: int, ticks: str, file: Path) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == ticks:
            return number
    raise ValueError(f"{file}:{start + 1}: this block never ends")


@dataclass(frozen=True, slots=True)
class Command:
    """A line typed at a prompt, and what it is said to print."""

    line: str
    output: tuple[str, ...] = ()


def commands(block: Block) -> list[Command]:
    """The commands of a block: ``console`` shows a prompt and output, ``sh`` neither."""
    if block.language != "console":
        return [Command(block.text)]
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif not found:
            raise ValueError(f"{block}: output before the first command")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Command("\n".join(typed), tuple(output)) for typed, output in found]
