"""What PyGithub sends and gets, from its own log, held against GitHub's description."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from github_server import description


@dataclass(frozen=True)
class Exchange:
    """A request and the answer to it."""

    method: str
    target: str
    body: Any
    status: int
    answer: Any

    def request_problems(self) -> list[str]:
        """Say what GitHub's description does not allow of the request."""
        url = urlsplit(self.target)
        operation = description.find(self.method, unquote(url.path))
        if operation is None:
            return [f"{self.method} {self.target} is not described"]
        return description.request_problems(operation, dict(parse_qsl(url.query)), self.body)

    def answer_problems(self) -> list[str]:
        """Say in what the answer departs from the description, if it is no error."""
        operation = description.find(self.method, unquote(urlsplit(self.target).path))
        if operation is None or self.status >= 400:
            return []
        return description.answer_problems(operation, self.status, self.answer)


@contextmanager
def recording() -> Iterator[list[Exchange]]:
    """Record the exchanges of a ``with`` block."""
    found: list[Exchange] = []
    handler = _Recorder(found)
    log = logging.getLogger("github.Requester")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    yield found
    log.propagate = True
    log.setLevel(level)
    log.removeHandler(handler)


class _Recorder(logging.Handler):
    def __init__(self, found: list[Exchange]) -> None:
        super().__init__(logging.DEBUG)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if not isinstance(record.args, tuple) or len(record.args) != 9:
            return
        method, _, _, target, _, body, status, _, answer = (str(word) for word in record.args)
        self._found.append(Exchange(method, target, _parse(body), int(status), _parse(answer)))


def _parse(text: str) -> Any:
    return json.loads(text) if text not in ("", "None") else None
