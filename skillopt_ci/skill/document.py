"""The skill document as text: identity, size, line endings and the YAML frontmatter."""

import hashlib
import re
from pathlib import PurePosixPath

_FRONTMATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?:.*?\n)??---(?=[ \t]*\r?(?:\n|\Z))", re.DOTALL)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def word_count(text: str) -> int:
    return len(text.split())


def line_ending(text: str) -> str:
    endings = text.count("\n")
    return "\r\n" if endings and text.count("\r\n") == endings else "\n"


def frontmatter_end(text: str) -> int:
    """The offset just after the closing ``---`` of the YAML frontmatter; 0 if there is none."""
    match = _FRONTMATTER.match(text)
    return match.end() if match else 0


def frontmatter(text: str) -> str:
    return text[: frontmatter_end(text)].partition("\n")[2].removesuffix("---")


def body(text: str) -> str:
    end = frontmatter_end(text)
    return text[end:].lstrip() if end else text


def ended(text: str) -> str:
    """The text with exactly one line break at its end; empty if it is blank."""
    stripped = text.rstrip()
    return stripped + "\n" if stripped else ""


def fence_closed(text: str, margin: str = "") -> str:
    """``text`` with an end to the code block in which a line below it, so indented, would stand."""
    if "```" not in text and "~~~" not in text:
        return text
    # Imported late: the library loads slowly, and many documents have no code block.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    # Agents see code also below a tag, where CommonMark sees only HTML up to a blank line.
    parse = MarkdownIt("commonmark").disable(["inline", "html_block"]).parse
    end = next(one for one in reversed(parse(f"{body(text)}\n\n{margin}x")) if one.map)
    return line_ending(text).join((text.rstrip(), end.markup, "")) if end.type == "fence" else text


#: The readers of a document, by a pattern for the end of its path; the first match counts. Patterns
#: match at any depth, since agents look in any folder.
READERS = {
    ".claude/skills/*/SKILL.md": "Claude Code",
    ".github/skills/*/SKILL.md": "Copilot",
    ".agents/skills/*/SKILL.md": "agents",
    ".codex/skills/*/SKILL.md": "Codex",
    ".cursor/skills/*/SKILL.md": "Cursor",
    ".gemini/skills/*/SKILL.md": "Gemini CLI",
    "SKILL.md": "agents",
    "AGENTS.md": "agents",
    "CLAUDE.md": "Claude Code",
    "GEMINI.md": "Gemini CLI",
    ".github/copilot-instructions.md": "Copilot",
    ".github/instructions/*.instructions.md": "Copilot",
    ".cursor/rules/*.mdc": "Cursor",
}


def reader_of(path: str) -> str | None:
    """The agents that read the document at ``path`` (relative, POSIX) by themselves, or None."""
    # the ending first, since a path is slow; the trainer's own folder holds copies of skills
    if not path.endswith((".md", ".mdc")) or path.startswith(".skillopt/"):
        return None
    pure = PurePosixPath(path)
    return next((reader for pattern, reader in READERS.items() if pure.match(pattern)), None)
