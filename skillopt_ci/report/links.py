"""Addresses of what a report talks about."""

import re
from dataclasses import dataclass
from urllib.parse import quote

_PLAIN = re.compile(r"[\w./#-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Links:
    """Where the repository is seen on the web. Without ``repository`` names are not linked."""

    repository: str = ""
    """Address of the repository, such as ``https://github.com/owner/name``."""
    workflow_run: str = ""
    """Address of the job that speaks, if a job does."""

    def commit(self, sha: str, words: str = "") -> str:
        """A commit, linked; its short hash unless ``words`` say it better."""
        name = words or sha[:7]
        if not self.repository:
            return f"{words} <code>{sha[:7]}</code>".strip()
        return f"[{name}]({self.repository}/commit/{sha})"

    def compare(self, base: str, head: str, words: str) -> str:
        """The difference between two branches or commits."""
        address = f"{self.repository}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return f"[{words}]({address})" if self.repository else words

    def within(self, address: str, words: str) -> str:
        """A page of the repository, linked; an ``address`` from a record may be anything."""
        inside = self.repository and address.startswith(f"{self.repository}/")
        rest = address.removeprefix(self.repository)
        return f"[{words}]({address})" if inside and _PLAIN.fullmatch(rest) else words

    def run(self, words: str) -> str:
        """The workflow run; nothing where there is none."""
        return f"[{words}]({self.workflow_run})" if self.workflow_run else ""
