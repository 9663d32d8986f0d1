"""The server: REST as described by GitHub, GraphQL and git, on one port."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from http_server import Handler, http_server

from github_server import (
    checks,
    comments,
    description,
    graphql,
    objects,
    permissions,
    pulls,
    smart_http,
)
from github_server.description import Operation
from github_server.request import Answer, Refusal, Request
from github_server.state import Fault, Hub

_ROUTES = {**objects.ROUTES, **pulls.ROUTES, **comments.ROUTES, **checks.ROUTES}


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve a repository on a free port; ``hub.url`` is the root of the API."""
    with http_server(_Handler, hub=hub) as hub.url:
        yield hub


class _Handler(Handler):
    hub: Hub

    def respond(self) -> None:
        if ".git/" in self.path:
            self._git()
            return
        try:
            answer = self._api()
        except Refusal as refusal:
            answer = Answer(refusal.status, refusal.body)
        self._send(answer)

    do_PATCH = do_PUT = do_DELETE = Handler.do_GET  # noqa: N815

    def _git(self) -> None:
        login = self._login()
        if "receive-pack" in self.path and not permissions.may_push(self.hub, login):
            self.send_response(401 if login is None else 403)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        smart_http.serve(self, self.hub.bare.folder.parent.parent, login or "")

    def _api(self) -> Answer:
        content = self.content()
        body = json.loads(content) if content else None
        login = self._login()
        if login is None:
            raise Refusal(401, "Bad credentials")
        path, query = unquote(urlsplit(self.path).path), dict(parse_qsl(urlsplit(self.path).query))
        if path in ("/graphql", "/api/graphql"):  # the latter on an Enterprise Server
            return self._graphql(login, body)
        operation = description.find(self.command, path.removeprefix("/api/v3"))
        if operation is None:
            self.hub.problems.append(f"{self.command} {path} is not described")
            raise Refusal(404, "Not Found")
        short = operation.name.replace("/repos/{owner}/{repo}", "")
        self.hub.requests.append(short)
        problems = description.request_problems(operation, query, body)
        self.hub.problems += [f"{operation.name}: {problem}" for problem in problems]
        fault = self.hub.fault(operation.name)
        if fault is not None and not fault.after:
            return _trouble(fault)
        permissions.demand(self.hub, login, short)
        answer = self._run(operation, login, query, body)
        return answer if fault is None else _trouble(fault)

    def _run(self, operation: Operation, login: str, query: dict[str, str], body: Any) -> Answer:
        owner, repo = operation.params.get("owner"), operation.params.get("repo")
        forks = {each["head_repo"] for each in self.hub.pulls.values()}
        if owner is not None and f"{owner}/{repo}" not in (self.hub.name, *forks):
            raise Refusal(404, "Not Found")
        run = _ROUTES[operation.name.replace("/repos/{owner}/{repo}", "")]
        with self.hub.lock:
            pulls.follow(self.hub)
            answer = run(Request(self.hub, login, operation.params, query, body or {}))
            pulls.follow(self.hub)
        if isinstance(answer.body, list):
            answer = self._page(answer, query)
        answer.body = description.complete(operation, answer.status, answer.body)
        problems = description.answer_problems(operation, answer.status, answer.body)
        self.hub.problems += [f"answer to {operation.name}: {problem}" for problem in problems]
        return answer

    def _page(self, answer: Answer, query: dict[str, str]) -> Answer:
        """Cut out a page and say where the next one is."""
        size, number = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        whole, part = answer.body, answer.body[(number - 1) * size : number * size]
        answer.body = {"total_count": len(whole), answer.key: part} if answer.key else part
        if number * size < len(whole):
            path = urlsplit(self.path).path
            words = {**query, "page": str(number + 1)}
            next_page = f"{self.hub.url}{path}?{urlencode(words)}"
            answer.headers["Link"] = f'<{next_page}>; rel="next"'
        return answer

    def _graphql(self, login: str, body: Any) -> Answer:
        self.hub.requests.append("POST /graphql")
        fault = self.hub.fault("POST /graphql")
        if fault is not None:
            return _trouble(fault)
        with self.hub.lock:
            pulls.follow(self.hub)
            return Answer(200, graphql.answer(self.hub, login, body["query"], body["variables"]))

    def _login(self) -> str | None:
        """Return who the token of a request belongs to."""
        scheme, _, word = self.headers.get("Authorization", "").partition(" ")
        token = base64.b64decode(word).decode().partition(":")[2] if scheme == "Basic" else word
        return self.hub.tokens.get(token)

    def _send(self, answer: Answer) -> None:
        content = answer.body
        if not isinstance(content, bytes):
            content = b"" if content is None else json.dumps(content).encode()
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        status = answer.status
        if status == 200 and self.headers.get("If-None-Match") == tag:
            status, content = 304, b""
        self.send_response(status)
        headers = {"Content-Type": "application/json; charset=utf-8", "ETag": tag, **answer.headers}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


def _trouble(fault: Fault) -> Answer:
    body = fault.content or {"message": fault.message}
    return Answer(fault.status, body, dict(fault.headers))
