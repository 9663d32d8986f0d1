"""One request to the server and the answer to it."""

from dataclasses import dataclass, field
from typing import Any

from github_server.state import Hub


@dataclass(frozen=True)
class Request:
    """A request of the API, with who sent it."""

    hub: Hub
    login: str
    params: dict[str, str]
    query: dict[str, str]
    body: dict[str, Any]

    def number(self, name: str) -> int:
        return int(self.params[name])


@dataclass
class Answer:
    """Status and content; a list is sent in pages."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    key: str = ""
    """Where a page goes inside of the answer, for lists that come in an object."""


class Refusal(Exception):
    """An answer that is an error, in GitHub's shape."""

    def __init__(self, status: int, message: str, *errors: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "documentation_url": "https://docs.github.com/rest"}
        if errors:
            self.body["errors"] = list(errors)


NOT_GRANTED = Refusal(403, "Resource not accessible by integration")
NOT_FOUND = Refusal(404, "Not Found")


def known(table: dict[int, Any], key: int) -> Any:
    """Return a thing or answer that there is none."""
    if key not in table:
        raise Refusal(404, "Not Found")
    return table[key]


def check_length(body: str) -> None:
    if len(body) > 65_536:
        detail = {"resource": "IssueComment", "field": "body", "code": "custom",
                  "message": "body is too long (maximum is 65536 characters)"}  # fmt: skip
        raise Refusal(422, "Validation Failed", detail)
