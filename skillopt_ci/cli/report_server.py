"""Serve the report on this machine, made anew whenever the run has moved."""

import http.server
import sys
from contextlib import suppress
from http import HTTPStatus
from threading import Lock

import click

from skillopt_ci.cli.assemble import events_path
from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.live_attempts import LiveAttempts
from skillopt_ci.cli.page_evidence import page_evidence
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.errors import ExitCode, SkilloptError, UsageError
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.report.html_page import build_page

#: Only this machine may ask: the page shows tasks and models' words.
HOST = "127.0.0.1"


class LiveReport:
    """The newest page of a run. Safe to use from several threads."""

    def __init__(self, settings: Globals) -> None:
        self._settings = settings
        self._lock = Lock()
        reader = open_reader(settings)
        self._attempts = LiveAttempts(events_path(reader.ledger, reader.state.run))
        self._page = b""
        self._version = ""

    def version(self) -> str:
        """The commit that the run has come to; raises SkilloptError if it cannot be told."""
        return newest(open_reader(self._settings).ledger)

    def now(self) -> str:
        """What the run is at."""
        return self._attempts.told()

    def page(self) -> bytes:
        """The page of that commit; raises SkilloptError if the run cannot be read."""
        with self._lock:
            reader = open_reader(self._settings)
            if reader.commit != self._version:
                self._page = build_page(
                    page_evidence(reader, self._settings.redact), live=True
                ).encode()
                self._version = reader.commit
            return self._page


def serve_report(settings: Globals, port: int) -> ExitCode:
    """Serve until interrupted.

    Raises UsageError if the port is taken, and what reading the run raises.
    """
    report = LiveReport(settings)
    report.page()
    with _listening(report, port) as server:
        address = f"http://{HOST}:{server.server_address[1]}/"
        click.echo(f"The report of this run: {address} (Ctrl-C ends it)")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.1)
    return ExitCode.DONE


def _listening(report: LiveReport, port: int) -> http.server.ThreadingHTTPServer:
    class Handler(_Handler):
        live = report

    try:
        return http.server.ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be listened on: {error.strerror}", hint="Take a free one: --port 0"
        ) from error


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    live: LiveReport

    def do_GET(self) -> None:
        """Answer with the page, or with its version and what the run is at.

        Nobody is answered who calls us by another name.
        """
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            # a foreign page could otherwise read this one by a name of its own for this address
            return self._send(HTTPStatus.FORBIDDEN, "text/plain", b"not by this name")
        try:
            if self.path == "/":
                return self._send(HTTPStatus.OK, "text/html", self.live.page())
            if self.path == "/version":
                told = f"{self.live.version()}\n{self.live.now()}"
                return self._send(HTTPStatus.OK, "text/plain", told.encode())
        except SkilloptError as error:
            return self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error).encode())
        return self._send(HTTPStatus.NOT_FOUND, "text/plain", b"nothing here")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: each second has a request."""

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)
