"""``skillopt-ci report`` and ``export``: a run as an HTML page, or as another program's files."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from itertools import accumulate, islice
from pathlib import Path
from pkgutil import resolve_name

import click

from skillopt_ci.cli.build import events_path
from skillopt_ci.cli.options import FILE, Globals, command, print_text
from skillopt_ci.cli.read import RunReader, gather, open_reader
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.report.effects import edit_effects
from skillopt_ci.report.html_attempts import Recorded, Trajectory, Turn, recorded, wishes
from skillopt_ci.report.html_charts import TaskGrade, anchor, grade_of
from skillopt_ci.report.html_page import Evidence, Version, build_page
from skillopt_ci.report.terminal import MEASURED, shortened, trace_lines
from skillopt_ci.report.view import RunView
from skillopt_ci.report.words import after_step, event_name
from skillopt_ci.rollout.events import AttemptTrace, attempt_traces, read_events
from skillopt_ci.sanitize import visible
from skillopt_ci.text import plural, score
from skillopt_ci.util import write_atomically

#: Writers of other programs' run folders, imported only by the export.
_EXPORTS = {"skillopt": "skillopt_ci.integrations.skillopt.export:skillopt_files"}
#: Only this machine may ask: the page shows tasks and models' words.
_HOST = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
#: Characters of one text, and of all texts of one attempt.
_TEXT_CHARS, _ATTEMPT_CHARS = 1_600, 6_000
#: What a turn is, by its heading in the record; all others are tools.
_KINDS = ("system", "user", "model", "result", "outcome")


@command()
@click.option(
    *("--output", "-O"),
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("skillopt-report.html"),
    metavar="FILE",
    help="The file to write.",
)
@click.option("--serve", is_flag=True, help="Serve the report on this machine, kept up to date.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8300,
    help="Port for --serve; 0 takes a free one.",
)
def report_command(settings: Globals, output: Path, serve: bool, port: int) -> None:
    """Write one self-contained HTML file that shows what the run has learned; calls no model.

    It shows the learning curve, the tasks, the steps and the origin of each rule of the skill.
    --serve serves it on this machine instead, and follows the run until Ctrl-C.
    """
    if serve:
        _serve(settings, port)
        return
    evidence = page_evidence(open_reader(settings), settings.redact)
    page = build_page(evidence)
    if output == Path("-"):
        if settings.json:
            raise UsageError("--json and --output - both print to standard output: name one.")
        print_text(page)
        return
    write_atomically(settings.cwd / output, page)
    size = len(page.encode())
    if settings.json or settings.verbosity >= 0:
        settings.tell(
            {"run": evidence.run.state.run, "file": str(output), "bytes": size},
            f"{output}: {size / 1000:,.0f} kB, open it in a browser",
        )


@command()
@click.argument("folder", type=FILE, metavar="DIR")
@click.option(
    "--format", "layout", type=click.Choice(list(_EXPORTS)), default="skillopt", help="The layout."
)
def export_command(settings: Globals, folder: Path, layout: str) -> None:
    """Export the run to the new folder DIR in SkillOpt's layout, read from git alone."""
    target = settings.cwd / folder
    mark = target / "EXPORT_INCOMPLETE"  # what a kill or a full disk leaves must not look whole
    if target.exists() and not mark.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{target} already exists: nothing was written.", hint="Name a new or an empty folder."
        )
    found = gather(open_reader(settings))
    files = resolve_name(_EXPORTS[layout])(found, visible(str(folder)))
    for name, text in {mark.name: "Run the same export again.\n", **files}.items():
        write_atomically(target / name, text)
    mark.unlink(missing_ok=True)
    if settings.json or settings.verbosity >= 0:
        settings.tell(
            {"run": found.state.run, "format": layout, "folder": str(folder), "files": len(files)},
            f"{plural(len(files), 'file')} of run {found.state.run} written to {folder}",
        )


def page_evidence(reader: RunReader, redact: Redact = unchanged) -> Evidence:
    """Read a whole run; its attempts come from this machine's record, and pass ``redact``."""
    run = gather(reader)
    attempts, count = recorded_attempts(reader, run, redact)
    log = reader.ledger.log(reader.commit, paths=(reader.folder.path,))
    edited = [Version("changed since, not scored yet", run.skill)] if run.unscored else []
    return Evidence(
        run=run,
        versions=(*_versions(run), *edited),
        meta_skill=(reader.folder.read(reader.folder.meta_skill) or "").strip(),
        attempts=attempts,
        count=count,
        effects=edit_effects(run.steps),
        # the days of the run's first and newest commits, one if they are the same
        dates=tuple(dict.fromkeys(one.time[:10] for one in (*log[-1:], *log[:1]))),
    )


def _versions(run: RunView) -> Iterator[Version]:
    before = ""
    for entry in run.history:
        text = run.texts.get(entry.skill_sha256)
        if text is not None and entry.skill_sha256 != before:
            before = entry.skill_sha256
            told = {"start": "at the start", "measure": f"by hand, {after_step(entry.step)}"}
            yield Version(told.get(entry.kind) or event_name(entry).lower(), text, anchor(entry))


def recorded_attempts(reader: RunReader, run: RunView, redact: Redact) -> tuple[Recorded, int]:
    """The attempts on this machine's record that the report could show, and how many there are."""
    # one after the other: memory grows only by the names of attempts, which cached answers repeat
    wanted = {one for own in wishes(run).values() for one in own}
    seen = set[tuple[str, str, int, str]]()

    def wished() -> Iterator[Trajectory]:
        for trace in attempt_traces(read_events(events_path(reader.ledger))):
            seen.add((trace.stage, trace.task, trace.attempt, trace.skill_sha256))
            if (trace.stage, trace.task, trace.skill_sha256) in wanted:
                yield trajectory(trace, redact)

    return recorded(run, wished()), len(seen)


def trajectory(trace: AttemptTrace, redact: Redact) -> Trajectory:
    """An attempt as the report shows it, shortened, without the secrets that are known by now."""
    outcome: TaskGrade = "unknown"
    told = "not ended"
    if trace.end is not None and (status := str(trace.end.get("status", ""))) in MEASURED:
        hard, soft = float(trace.end.get("hard") or 0), float(trace.end.get("soft") or 0)
        outcome = grade_of(hard, soft)
        told = f"solved in part ({score(max(hard, soft))})" if outcome == "partial" else outcome
    elif trace.end is not None:
        told = f"not measured: {status.replace('_', ' ')}"
    return Trajectory(
        task=redact(trace.task),
        stage=trace.stage,
        attempt=trace.attempt,
        skill=trace.skill_sha256,
        outcome=outcome,
        told=told,
        turns=_bounded(tuple(_turns(trace, redact))),
        reason=redact(str((trace.end or {}).get("reason") or "")),
    )


def _turns(trace: AttemptTrace, redact: Redact) -> Iterator[Turn]:
    for heading, text in islice(trace_lines(trace, whole=True), 1, None):
        if heading != "system" and (heading, text) != ("result", "as said last"):
            kind = heading if heading in _KINDS else "tool"
            yield Turn(kind, redact(heading), shortened(redact(text), _TEXT_CHARS))


def _bounded(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The first two turns, and as many of the last ones as there is room for."""
    head, rest = turns[:2], turns[2:]
    room = _ATTEMPT_CHARS - sum(len(turn.text) for turn in head)
    sizes = accumulate(len(turn.text) for turn in reversed(rest))
    left_out = len(rest) - sum(size <= room for size in sizes)
    gap = (Turn("gap", "", f"{left_out} turns left out"),) if left_out else ()
    return (*head, *gap, *rest[left_out:])


# The page served on this machine, made again whenever the run has moved.


def _serve(settings: Globals, port: int) -> None:
    from aiohttp import web  # noqa: PLC0415 - a page that is only written needs no server

    page, made_of, making = "", "", asyncio.Lock()

    async def newest_page() -> str:
        nonlocal page, made_of
        async with making:
            reader = await asyncio.to_thread(open_reader, settings)
            if reader.version != made_of:
                evidence = await asyncio.to_thread(page_evidence, reader, settings.redact)
                page = await asyncio.to_thread(build_page, evidence, live=reader.version)
                made_of = reader.version
            return page

    async def respond(request: web.Request) -> web.Response:
        status, kind, body = HTTPStatus.OK, "text/plain", ""
        try:
            if request.host.partition(":")[0] not in (_HOST, "localhost"):
                # a foreign page could otherwise read this one by a name of its own for this address
                status, body = HTTPStatus.FORBIDDEN, f"open http://{_HOST} instead"
            elif request.path == "/":
                kind, body = "text/html", await newest_page()
            elif request.path == "/version":
                body = (await asyncio.to_thread(open_reader, settings)).version
            else:
                status, body = HTTPStatus.NOT_FOUND, "nothing here"
        except SkilloptError as error:
            status, body = HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        return web.Response(text=body, status=status, content_type=kind, headers=_HEADERS)

    asyncio.run(newest_page())  # or what keeps it from being read
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be opened: {error.strerror}", hint="Use a free one: --port 0"
        ) from error
    address = f"http://{_HOST}:{listener.getsockname()[1]}/"
    settings.tell({"address": address}, f"The report of this run: {address} (Ctrl-C ends it)")
    sys.stdout.flush()
    application = web.Application()
    application.router.add_get("/{path:.*}", respond)
    web.run_app(application, sock=listener, print=None, access_log=None, shutdown_timeout=1)
