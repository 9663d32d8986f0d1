"""``skillopt-ci report``: one HTML file that shows what a run has learned."""

import http.server
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from types import MappingProxyType

import click

from skillopt_ci.cli.build import events_path
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.read import RunReader, gather, open_reader, view
from skillopt_ci.errors import ExitCode, SkilloptError, UsageError
from skillopt_ci.ledger.inspect import newest
from skillopt_ci.ledger.records import HistoryEntry, StepRecord
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.report.html_attempts import Recorded, Trajectory, Turn, recorded, wishes
from skillopt_ci.report.html_charts import anchor
from skillopt_ci.report.html_page import build_page
from skillopt_ci.report.html_skill import EditEffect, Effects, Evidence, Version
from skillopt_ci.report.terminal import course_lines, shortened
from skillopt_ci.report.view import RunView
from skillopt_ci.rollout.events import AttemptTrace, attempt_traces, read_events
from skillopt_ci.rollout.types import Status
from skillopt_ci.text import plural, score
from skillopt_ci.training.edit_ablation import attribute, compared_in, rules_of
from skillopt_ci.util import write_atomically

# Read the attempts that the report shows from this machine's record of events.

#: Characters of one text, and of all texts of one attempt.
_TEXT, _ATTEMPT = 1_600, 6_000
#: What a turn is, by its heading in the record; all others are tools.
_KINDS = ("system", "user", "model", "result", "outcome")
_SOLVED = 1 - 1e-9


def recorded_attempts(reader: RunReader, run: RunView, redact: Redact) -> Recorded:
    """The attempts that the sections of the report could show.

    Of other attempts nothing is kept, so that memory does not grow with the record.
    """
    wanted = {(one.stage, one.task, one.skill) for own in wishes(run).values() for one in own}
    count = 0

    def wished() -> Iterator[Trajectory]:
        nonlocal count
        for course in attempt_traces(read_events(events_path(reader.ledger, reader.state.run))):
            count += 1
            if (course.stage, course.task, course.skill_sha256) in wanted:
                yield trajectory(course, redact)

    found = recorded(wished())
    return Recorded(found.attempts, count)


def trajectory(course: AttemptTrace, redact: Redact) -> Trajectory:
    """An attempt as the report shows it, shortened, without the secrets that are known by now."""
    end = course.end or {}
    measured = str(end.get("status", "")) in [one for one in Status if one.measured]
    hard, soft = float(end.get("hard") or 0), float(end.get("soft") or 0)
    return Trajectory(
        task=redact(course.task),
        stage=course.stage,
        attempt=course.attempt,
        skill=course.skill_sha256,
        outcome=_outcome(hard, soft) if measured else _unmeasured(course),
        solved=hard >= _SOLVED if measured else None,
        turns=_bounded(tuple(_turns(course, redact))),
    )


def _outcome(hard: float, soft: float) -> str:
    if hard >= _SOLVED:
        return "solved"
    return f"solved in part ({score(max(hard, soft))})" if hard > 0 or soft > 0 else "failed"


def _unmeasured(course: AttemptTrace) -> str:
    if course.end is None:
        return "not ended"
    return f"not measured: {str(course.end.get('status')).replace('_', ' ')}"


def _turns(course: AttemptTrace, redact: Redact) -> Iterator[Turn]:
    """What was said and done. The instructions are the same for all tasks, but for the skill."""
    first, *rest = course_lines(course, whole=True)
    del first
    for heading, text in rest:
        if heading == "system" or (heading, text) == ("result", "as said last"):
            continue
        kind = heading if heading in _KINDS else "tool"
        yield Turn(kind, redact(heading), shortened(redact(text), _TEXT))


def _bounded(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The first two turns and as many of the last ones as there is room for."""
    room = _ATTEMPT - sum(len(turn.text) for turn in turns[:2])
    last: list[Turn] = []
    for turn in reversed(turns[2:]):
        room -= len(turn.text)
        if room < 0:
            break
        last.insert(0, turn)
    left_out = len(turns) - len(turns[:2]) - len(last)
    gap = (Turn("gap", "", f"{left_out} turns left out"),) if left_out > 0 else ()
    return (*turns[:2], *gap, *last)


# What all races and verdicts of a run say of its single edits, and how that came about.

#: At so many moments the belief is told, the last one being now: each is a regression of its own.
_MOMENTS = 5
#: Beyond so many rules only the newest steps are looked at: a regression takes their third power.
_MOST_RULES = 120


def edit_effects(steps: Sequence[StepRecord]) -> Effects:
    """The effects of every edit that some comparison of the newest steps tells of."""
    looked_at = _newest(steps)
    found = defaultdict[tuple[int, int], list[EditEffect]](list)
    for end in _moments(len(looked_at)):
        for place, effect in _believed(looked_at[:end]):
            found[place].append(effect)
    return {place: tuple(effects) for place, effects in found.items()}


def _newest(steps: Sequence[StepRecord]) -> Sequence[StepRecord]:
    rules = set[str]()
    for number, record in enumerate(reversed(steps)):
        rules |= {rule for edit in record.proposal.edits for rule in rules_of(edit)}
        if len(rules) > _MOST_RULES:
            return steps[len(steps) - number :]
    return steps


def _moments(count: int) -> list[int]:
    return sorted({-(-count * part // _MOMENTS) for part in range(1, _MOMENTS + 1)} - {0})


def _believed(steps: Sequence[StepRecord]) -> Iterator[tuple[tuple[int, int], EditEffect]]:
    known = attribute(list(compared_in(steps)))
    for record in steps:
        for number, edit in enumerate(record.proposal.edits):
            rules = rules_of(edit)
            if any(rule in known.rules for rule in rules):
                believed = known.effect(rules)
                yield (
                    (record.step, number),
                    EditEffect(steps[-1].step, believed.mean, believed.sd, believed.helpful),
                )


# Gather what the report tells of: the record of a run, and the texts of its skill.


def page_evidence(reader: RunReader, redact: Redact = unchanged) -> Evidence:
    """Read a whole run; a shallow clone is deepened as far as skill texts are missing.

    The attempts come from this machine's record, and pass ``redact``.
    """
    known = gather(reader)
    run = view(reader, newest=max(len(reader.history), 1))
    return Evidence(
        run=run,
        versions=tuple(_versions(run, known.texts)),
        candidates=dict(_candidates(run, known.texts)),
        meta_skill=(reader.read(reader.folder.meta_skill) or "").strip(),
        attempts=recorded_attempts(reader, run, redact),
        effects=edit_effects(run.steps),
        first=known.baseline,
    )


def _versions(run: RunView, texts: Mapping[str, str]) -> Iterator[Version]:
    """Each text that was the current one, as far as commits with it can still be reached."""
    before = ""
    for entry in run.history:
        text = texts.get(entry.skill_sha256)
        if text is None or entry.skill_sha256 == before:
            continue
        before = entry.skill_sha256
        yield Version(_label(entry), text, _origin(entry), _commit(run, entry))


def _label(entry: HistoryEntry) -> str:
    names = {
        "start": "at the start",
        "step": f"step {entry.step}",
        "notes": f"reminders of step {entry.step}",
        "slow_update": f"end of epoch {entry.epoch}",
        "measure": f"by hand, after step {entry.step}",
    }
    return names.get(entry.kind, entry.kind.replace("_", " "))


def _origin(entry: HistoryEntry) -> str:
    return "" if entry.kind == "measure" else anchor(entry)


def _commit(run: RunView, entry: HistoryEntry) -> str:
    if entry.kind == "step":
        return run.place(entry.step).verdict
    return run.place(entry.epoch, "slow_update").verdict if entry.kind == "slow_update" else ""


def _candidates(run: RunView, texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    made: Sequence[tuple[str, str, str]] = [
        *(
            (f"step-{one.step}", one.proposal.skill_before, one.proposal.skill_after)
            for one in run.steps
        ),
        *((f"epoch-{one.epoch}", one.skill_before, one.skill_after) for one in run.epochs),
    ]
    for name, before, after in made:
        if before in texts and after in texts and before != after:
            yield name, (texts[before], texts[after])


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("skillopt-report.html"),
    show_default=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option("--serve", is_flag=True, help="Serve the report on this machine, always up to date.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
    show_default=True,
    help="Port for --serve; 0 takes a free one.",
)
@global_options
def report_command(settings: Globals, output: Path, serve: bool, port: int) -> ExitCode:
    """Write one self-contained HTML file that shows what the run has learned, read from git alone.

    It needs no network and no server: curve, tasks, steps, the skill with where each rule came
    from, and a comparison of any two versions. With --serve it is a page on this machine that
    follows a run while it works, until it is interrupted.
    """
    if serve:
        return serve_report(settings, port)
    evidence = page_evidence(open_reader(settings), settings.redact)
    page = build_page(evidence)
    file = settings.cwd / output
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page)
    size = len(page.encode())
    if settings.json:
        told = {"run": evidence.run.state.run, "file": str(output), "bytes": size}
        click.echo(json.dumps(told))
    elif settings.verbosity >= 0:
        click.echo(f"{output}: {size / 1000:,.0f} kB, open it in a browser")
    return ExitCode.DONE


# What a run is at, told by the record of events that it is writing.

_WORDS = {
    "rollout": "training tasks",
    "selection": "selection tasks",
    "slow_rollout": "training tasks at the end of the epoch",
    "race": "races of edits",
}


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


# Serve the report on this machine, made anew whenever the run has moved.

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


# ``skillopt-ci export``: a run as the files of another program.

#: Writers of other programs' run folders, imported only by the export.
_EXPORTS = MappingProxyType({"skillopt": "skillopt_ci.integrations.skillopt.export:skillopt_files"})


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--format",
    "layout",
    type=click.Choice(list(_EXPORTS)),
    default="skillopt",
    show_default=True,
    help="Whose files to write.",
)
@global_options
def export_command(settings: Globals, folder: Path, layout: str) -> ExitCode:
    """Write the run into the new folder DIR in SkillOpt's layout, read from git alone."""
    target = settings.cwd / folder
    refuse_occupied(target)
    evidence = gather(open_reader(settings))
    files = resolve_name(_EXPORTS[layout])(evidence, str(folder))
    write_folder(target, files)
    told = {"run": evidence.state.run, "format": layout, "folder": str(folder), "files": len(files)}
    if settings.json:
        click.echo(json.dumps(told))
    elif settings.verbosity >= 0:
        click.echo(f"{plural(len(files), 'file')} of run {evidence.state.run} written to {folder}")
    return ExitCode.DONE


def refuse_occupied(target: Path) -> None:
    """Raise :class:`UsageError` unless ``target`` is absent or an empty folder."""
    occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if occupied:
        raise UsageError(
            f"{target} is there already: nothing was written.",
            hint="Name a new or an empty folder.",
        )


def write_folder(target: Path, files: Mapping[str, str]) -> None:
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
