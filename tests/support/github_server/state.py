"""What the server remembers beside the repository."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from github_server.bare import Bare

Json = dict[str, Any]
ACTIONS = "github-actions[bot]"


@dataclass
class Fault:
    """Something that goes wrong with the next ``times`` requests of an operation."""

    operation: str
    """Method and path template without `/repos/{owner}/{repo}`, or `*`."""
    status: int
    message: str = "trouble"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    after: bool = False
    """The request is carried out and only its answer lost."""
    content: bytes = b""
    """What is sent instead of GitHub's JSON."""


@dataclass
class Hub:
    """One repository on the server; guarded by ``lock``."""

    bare: Bare
    name: str = "octo/skills"
    url: str = ""
    tokens: dict[str, str] = field(default_factory=lambda: {"job": ACTIONS, "pat": "ada"})
    permissions: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(("contents", "pull-requests", "checks"), "write")
    )
    """Of a job's token, as a workflow grants them; a person's token may do everything."""
    labels: set[str] = field(default_factory=lambda: {"bug"})
    roles: dict[str, str] = field(default_factory=lambda: {"ada": "admin", "bob": "read"})
    pulls: dict[int, Json] = field(default_factory=dict)
    comments: dict[int, Json] = field(default_factory=dict)
    reviews: dict[int, Json] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    checks: dict[int, Json] = field(default_factory=dict)
    statuses: list[Json] = field(default_factory=list)
    reactions: list[tuple[int, str, str]] = field(default_factory=list)
    pushes: list[Json] = field(default_factory=list)
    dispatched: list[Json] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    required_check: str = ""
    """Name of the check without which base takes no merge."""
    auto_merge: bool = True
    drafts: bool = True
    actions_may_open: bool = True
    private: bool = False
    policies: list[str] = field(default_factory=list)
    """How each policy of Actions is enforced."""
    secrets: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    """Kinds of the rules that every branch has."""
    looks_until_mergeable: int = 0
    """How often a pull request is shown before GitHub knows whether it can be merged."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    @property
    def api(self) -> str:
        return f"{self.url}/repos/{self.name}"

    def moment(self) -> str:
        """A time that moves on with everything that is made."""
        number = next(self.ids)
        return f"2026-01-02T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"

    def event(self, number: int, kind: str) -> None:
        self.events.append({"id": next(self.ids), "issue": number, "event": kind})

    def convert_to_draft(self, number: int) -> None:
        """Let somebody hold a pull request back."""
        self.pulls[number]["draft"] = True
        self.event(number, "convert_to_draft")

    def push(self, branch: str, after: str, at: str, name: str = "", kind: str = "push") -> None:
        """Enter what the log of activity says, oldest first."""
        self.pushes.append(
            {"id": next(self.ids), "repository": name or self.name, "ref": f"refs/heads/{branch}",
             "after": after, "timestamp": at, "activity_type": kind}
        )  # fmt: skip

    def fail(self, operation: str, status: int, message: str = "trouble", **more: Any) -> None:
        self.faults.append(Fault(operation, status, message, **more))

    def fault(self, operation: str) -> Fault | None:
        """Take the next fault of an operation."""
        short = operation.replace("/repos/{owner}/{repo}", "")
        for fault in self.faults:
            if fault.times and fault.operation in (short, "*"):
                fault.times -= 1
                return fault
        return None

    def say(self, author: str, body: str, number: int = 1) -> int:
        """Let somebody comment in the conversation."""
        with self.lock:
            key = next(self.ids)
            self.comments[key] = {
                "id": key, "issue": number, "login": author, "body": body, "at": self.moment(),
            }  # fmt: skip
            return key

    def review(self, author: str, body: str, path: str, line: int | None = 1, **more: Any) -> int:
        """Let somebody comment on a line."""
        with self.lock:
            key = next(self.ids)
            facts = {"id": key, "login": author, "body": body, "path": path, "line": line}
            self.reviews[key] = {"pull": 1, "at": self.moment(), **facts, **more}
            return key

    def own_comments(self, login: str = ACTIONS) -> list[str]:
        return [each["body"] for each in self.comments.values() if each["login"] == login]
