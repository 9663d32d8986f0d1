"""Logs, ancestry, and commit messages with trailers that subject and body cannot forge."""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from skillopt_ci.git import objects
from skillopt_ci.git.process import Git
from skillopt_ci.sanitize import visible
from skillopt_ci.text import collapsed

_SUBJECT_WIDTH = 72
_BODY_WIDTH = 76
_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)")
#: Matches what a forge would turn into a notification or use to close an issue.
_REFERENCE = re.compile(r"(?<![\w.@])@(?=\w)|#(?=\d)|(?<=\bGH)-(?=\d)", re.IGNORECASE)
#: Line starts that git or a forge interprets: comments, the end of a message, trailers.
_MEANINGFUL_LINE = re.compile(r"(?=#|;|---|[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+:)")
_JOINER = "\u2060"


class CommitText(NamedTuple):
    """The parts of a commit message, before wrapping and escaping: see :func:`message`."""

    subject: str
    body: str
    trailers: dict[str, str]


def message(subject: str, body: str, trailers: Mapping[str, str]) -> str:
    """Compose a commit message; ``subject`` and ``body`` may hold untrusted text.

    Without ``trailers`` (their keys are words with hyphens), the body's end could pass for them.
    """
    title = _inert(collapsed(visible(subject))).lstrip("#;- ") or "Update the skill"
    if len(title) > _SUBJECT_WIDTH:
        kept = title[: _SUBJECT_WIDTH - 1]
        title = (kept.rpartition(" ")[0] or kept) + "…"
    lines = []
    for line in _inert(visible(body)).expandtabs(4).splitlines():
        indent = re.match(r"\s*(?:[-*+] |\d+[.)] )?", line)
        wrapped = textwrap.wrap(
            line,
            _BODY_WIDTH,
            subsequent_indent=" " * len(indent[0] if indent else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [f" {part}" if _MEANINGFUL_LINE.match(part) else part for part in wrapped or [""]]
    told = re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip("\n"))
    facts = [f"{key}: {collapsed(visible(value))}".rstrip() for key, value in trailers.items()]
    return "\n\n".join(filter(None, (title, told, "\n".join(facts)))) + "\n"


def _inert(text: str) -> str:
    return _REFERENCE.sub(
        lambda mark: _JOINER + mark[0] if mark[0] == "-" else mark[0] + _JOINER, text
    )


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    parents: tuple[str, ...]
    author: str
    time: str
    message: str

    @property
    def trailers(self) -> dict[str, str]:
        """Those in the message's last paragraph; if a key repeats, the last value counts."""
        paragraphs = re.split(r"\n[ \t]*\n", self.message.strip("\n"))
        if len(paragraphs) < 2:  # noqa: PLR2004
            return {}
        unfolded = re.sub(r"\n[ \t]+", " ", paragraphs[-1])
        found = (_TRAILER.fullmatch(line) for line in unfolded.split("\n"))
        return {match[1]: match[2].strip() for match in found if match}


def is_ancestor(git: Git, ancestor: str, descendant: str) -> bool:
    # mostly a commit and its parent, which the running cat-file tells without a new process
    return ancestor in (descendant, *parents(git, descendant)) or git.succeeds(
        "merge-base", "--is-ancestor", ancestor, descendant
    )


def parents(git: Git, commit: str) -> tuple[str, ...]:
    """Empty if a shallow clone lacks the commit itself."""
    found = objects.find(git, f"{commit}^{{commit}}")
    head = b"" if found is None else found.content.partition(b"\n\n")[0]
    return tuple(parent.decode() for parent in re.findall(rb"^parent (.+)$", head, re.MULTILINE))


def day(git: Git, commit: str) -> str:
    found = objects.find(git, f"{commit}^{{commit}}")
    content = b"" if found is None else found.content
    time = re.search(rb"^committer .*> (\d+) ", content, re.MULTILINE)
    return datetime.fromtimestamp(int(time[1]) if time else 0, UTC).date().isoformat()
