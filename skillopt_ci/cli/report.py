"""``skillopt-ci report`` and ``export``: a run as an HTML page, or as another program's files."""

import http.server
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from types import MappingProxyType

import click

from skillopt_ci.cli.build import events_path
from skillopt_ci.cli.evidence import page_evidence
from skillopt_ci.cli.options import FILE, Globals, command, print_json
from skillopt_ci.cli.read import gather, open_reader
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.report.html_page import build_page
from skillopt_ci.text import plural
from skillopt_ci.util import write_atomically

#: Writers of other programs' run folders, imported only by the export.
_EXPORTS = MappingProxyType({"skillopt": "skillopt_ci.integrations.skillopt.export:skillopt_files"})
#: Stages in the words of the live page.
_WORDS = MappingProxyType(
    {
        "rollout": "training tasks",
        "selection": "selection tasks",
        "slow_rollout": "training tasks at the end of the epoch",
        "race": "races of edits",
    }
)
#: Only this machine may ask: the page shows tasks and models' words.
_HOST = "127.0.0.1"


@command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("skillopt-report.html"),
    metavar="FILE",
    help="The file to write.",
)
@click.option("--serve", is_flag=True, help="Serve the report on this machine, always up to date.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
    help="Port for --serve; 0 takes a free one.",
)
def report_command(settings: Globals, output: Path, serve: bool, port: int) -> None:
    """Write one self-contained HTML file that shows what the run has learned, read from git alone.

    It needs no network and no server, and shows the learning curve, the tasks, the steps, the
    origin of each rule of the skill, and a diff of any two versions. With --serve it is a page on
    this machine that follows the run until you interrupt it.
    """
    if serve:
        _serve(settings, port)
        return
    evidence = page_evidence(open_reader(settings), settings.redact)
    page = build_page(evidence)
    file = settings.cwd / output
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page)
    size = len(page.encode())
    if settings.json:
        print_json({"run": evidence.run.state.run, "file": str(output), "bytes": size})
    elif settings.verbosity >= 0:
        click.echo(f"{output}: {size / 1000:,.0f} kB, open it in a browser")


@command()
@click.argument("folder", type=FILE, metavar="DIR")
@click.option(
    "--format",
    "layout",
    type=click.Choice(list(_EXPORTS)),
    default="skillopt",
    help="The program to write files for.",
)
def export_command(settings: Globals, folder: Path, layout: str) -> None:
    """Write the run into the new folder DIR in SkillOpt's layout, read from git alone."""
    target = settings.cwd / folder
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{target} is there already: nothing was written.",
            hint="Name a new or an empty folder.",
        )
    records = gather(open_reader(settings))
    files = resolve_name(_EXPORTS[layout])(records, str(folder))
    _write_folder(target, files)
    if settings.json:
        run, count = records.state.run, len(files)
        print_json({"run": run, "format": layout, "folder": str(folder), "files": count})
    elif settings.verbosity >= 0:
        click.echo(f"{plural(len(files), 'file')} of run {records.state.run} written to {folder}")


def _write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` by their paths below ``target``: all of them or none.

    Raises :class:`UsageError` if that is not possible.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=target.parent, prefix=f".{target.name}.", ignore_cleanup_errors=True
        ) as place:
            made = Path(place) / "run"
            for name, text in files.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(text, encoding="utf-8", newline="")
            os.replace(made, target)  # noqa: PTH105 (an empty folder gives way to it)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error


# The report served on this machine, made again whenever the run has moved.


def _serve(settings: Globals, port: int) -> None:
    """Serve until interrupted.

    Raises UsageError if the port is taken, and what reading the run raises.
    """
    report = LiveReport(settings)
    report.page()
    with _listening(report, port) as server:
        address = f"http://{_HOST}:{server.server_address[1]}/"
        click.echo(f"The report of this run: {address} (Ctrl-C ends it)")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.1)


def _listening(report: "LiveReport", port: int) -> http.server.ThreadingHTTPServer:
    class Handler(_Handler):
        live = report

    try:
        return http.server.ThreadingHTTPServer((_HOST, port), Handler)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be listened on: {error.strerror}", hint="Take a free one: --port 0"
        ) from error


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


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    live: LiveReport

    def do_GET(self) -> None:
        """Answer with the page, or with its version and what the run is at."""
        if self.headers.get("Host", "").partition(":")[0] not in (_HOST, "localhost"):
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
        """Print nothing: each second has a request."""

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)


class LiveAttempts:
    """Counts the attempts of the newest file of events. Safe to use from several threads.

    Of each file only what is new is read, whole lines alone: the last one may be half written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._file: Path | None = None
        self._place = 0
        self._ended = Counter[str]()
        self._solved = Counter[str]()

    def told(self) -> str:
        """What was attempted in the newest piece of work, by stage; empty if nothing was."""
        with self._lock:
            newest = max(self._folder.glob("*.jsonl"), default=None)
            if newest != self._file:
                self._file, self._place = newest, 0
                self._ended.clear()
                self._solved.clear()
            if newest is not None:
                self._read(newest)
            return ", ".join(
                f"{plural(count, 'attempt')} at {_WORDS.get(stage, f'{stage} tasks')} "
                f"({self._solved[stage]} solved)"
                for stage, count in self._ended.items()
            )

    def _read(self, file: Path) -> None:
        try:
            with file.open("rb") as stream:
                stream.seek(self._place)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self._place += len(line)
                    self._count(line)
        except OSError:  # removed by the run, which keeps the newest files only
            return

    def _count(self, line: bytes) -> None:
        if b'"attempt_ended"' not in line:
            return
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict) and event.get("type") == "attempt_ended":
            stage = str(event.get("stage"))
            self._ended[stage] += 1
            self._solved[stage] += event.get("hard") == 1
