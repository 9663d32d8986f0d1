"""``skillopt-ci show``: the evidence of one step."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console
from rich.text import Text

from skillopt_ci.cli.build import find_skill, load_configured
from skillopt_ci.cli.options import Globals, build_console, global_options, wants_colour
from skillopt_ci.cli.read import RunReader, open_reader, step_places
from skillopt_ci.cli.table import print_rows, print_table
from skillopt_ci.config.config import GeneratedTasks
from skillopt_ci.errors import ExitCode, RepositoryError, SkilloptError, UsageError
from skillopt_ci.git.locks import is_held
from skillopt_ci.ledger.inspect import candidate
from skillopt_ci.ledger.records import BoundaryRecord, StepRecord
from skillopt_ci.report.terminal import (
    LOG_HEADINGS,
    boundary_rows_in_full,
    boundary_title,
    log_row,
    status_json,
    status_rows,
    step_rows_in_full,
)
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.skill.diff import DiffRow, diff_rows, unified_diff
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.text import plural
from skillopt_ci.training.offline_eval import NamedSkill
from skillopt_ci.training.trainer import Upcoming, upcoming
from skillopt_ci.util import write_atomically

# What is under way in a run, and what its next command will do.


@dataclass(frozen=True, slots=True)
class InFlight:
    """What was proposed and is not judged yet: a step, or the end of an epoch."""

    what: str
    commit: str


@dataclass(frozen=True, slots=True)
class NextWork:
    """What is known here of what comes next.

    ``flight`` is a candidate without a verdict; ``upcoming`` is None if configuration or tasks are
    not here; ``at_work``: a process of this machine trains the run in this clone now; ``edited``:
    the skill is not as training left it.
    """

    flight: InFlight | None = None
    upcoming: Upcoming | None = None
    at_work: bool = False
    edited: bool = False


def in_flight(commit: str, trailers: Mapping[str, str]) -> InFlight:
    """What the candidate ``commit`` with these ``trailers`` belongs to."""
    if "Skillopt-Epoch-End" in trailers:
        return InFlight(f"end of epoch {trailers.get('Skillopt-Epoch', '?')}", commit)
    return InFlight(f"step {trailers.get('Skillopt-Step', '?')}", commit)


def next_rows(work: NextWork) -> Iterator[tuple[str, str]]:
    """Rows for a person: what is under way, and what the next command will do."""
    if work.at_work:
        yield "at work", "another skillopt-ci is training this run in this clone now"
    if work.flight is not None:
        short = work.flight.commit[:10]
        yield "in flight", f"{work.flight.what}: its candidate {short} waits to be measured"
    first = "measure the skill again, which was changed by hand; then " if work.edited else ""
    if work.flight is not None:
        yield "next", f"{first}the verdict on it, by `step` or `run`"
    elif work.upcoming is not None:
        yield "next", first + _sentence(work.upcoming)


def next_json(work: NextWork) -> dict[str, object]:
    """The same for programs."""
    flight, coming = work.flight, work.upcoming
    return {
        "steps": None if coming is None else coming.total,
        "in_flight": None if flight is None else {"what": flight.what, "commit": flight.commit},
        "next": None if coming is None else "verdict" if flight is not None else coming.work,
        "epoch_end_due": None if coming is None else coming.epoch_end,
        "at_work": work.at_work,
    }


def _sentence(coming: Upcoming) -> str:
    step = "" if coming.step is None else f"step {coming.step} of {coming.total}"
    match coming.work:
        case "step" if coming.epoch_end is not None:
            end = f"the end of epoch {coming.epoch_end}"
            return f"{step}, by `step` or `run`; {end} is due, by `slow-update`"
        case "step":
            return f"{step}, by `step` or `run`"
        case "epoch_end":
            then = f", then {step}" if step else ""
            by = "`slow-update`" if coming.scheduled else "`step` or `run`"
            return f"the end of epoch {coming.epoch_end}{then}, by {by}"
        case "finish":
            return f"the tests and the summary, by `run` or `finish`; {_all_done(coming)}"
        case "nothing_to_learn":
            return "nothing: the skill solves every selection task before any training"
        case "done":
            return f"nothing: {_all_done(coming)}"


def _all_done(coming: Upcoming) -> str:
    return "the one step is done" if coming.total == 1 else f"all {coming.total} steps are done"


# ``skillopt-ci status``: where training stands, and what comes next.


@click.command()
@global_options
def status_command(settings: Globals) -> ExitCode:
    """Say where training stands, read from git alone."""
    reader = open_reader(settings)
    work = _next_work(settings, reader)
    facts = (reader.state, reader.history, reader.commit)
    if settings.json:
        click.echo(json.dumps(status_json(*facts, next_json(work))))
        return ExitCode.DONE
    note = " (simulated models)" if reader.state.simulated else ""
    rows = status_rows(*facts, next_rows(work))
    print_rows(f"Run {reader.state.run}{note}", rows, sys.stdout, settings.environ)
    return ExitCode.DONE


def _next_work(settings: Globals, reader: RunReader) -> NextWork:
    waiting = candidate(reader.ledger)
    skill = reader.read(reader.skill_path)
    return NextWork(
        flight=None if waiting is None else in_flight(waiting.sha, waiting.trailers),
        upcoming=_upcoming(settings, reader),
        at_work=is_held(reader.ledger.common_dir, reader.state.run),
        edited=skill is not None and sha256(skill) != reader.state.current.sha256,
    )


def _upcoming(settings: Globals, reader: RunReader) -> Upcoming | None:
    """What comes next by configuration and tasks, where both are here."""
    try:
        loaded = load_configured(settings)
        tasks, train = loaded.config.tasks, loaded.config.train
        # an environment would have to be opened
        if loaded.config.run != reader.state.run or tasks is None:
            return None
        # no code of the repository runs for a look
        generated = isinstance(tasks, GeneratedTasks)
        newest_event = reader.history[-1] if reader.history else None
        size = train.train_size if generated else len(load_splits(tasks, loaded.root, train).train)
        return upcoming(loaded.config, size, reader.state, newest_event)
    except SkilloptError:
        return None  # the run is read from git alone; what comes next is an extra


# ``skillopt-ci log``: the training log.

#: Events listed unless somebody asks for more, or another number.
_NEWEST = 40
#: What the table goes without on a narrow terminal, the least missed first.
_DISPENSABLE = ("words", "edits", "epoch")


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), help="Only the newest N events.")
@click.option("--all", "whole", is_flag=True, help=f"All events, not only the newest {_NEWEST}.")
@global_options
def log_command(settings: Globals, number: int | None, whole: bool) -> ExitCode:
    """List what happened in the run, oldest first, read from git alone.

    Of a long history the newest events are listed, with --json all of them.
    """
    if whole and number is not None:
        raise click.UsageError("name either a --number or --all")
    reader = open_reader(settings)
    newest = len(reader.history) if whole or settings.json else _NEWEST
    entries = reader.history[-(number or newest) :]
    if settings.json:
        for entry in entries:
            click.echo(entry.model_dump_json())
        return ExitCode.DONE
    rows, title = [log_row(entry) for entry in entries], _title(reader, len(entries))
    print_table(LOG_HEADINGS, rows, sys.stdout, settings.environ, title, _DISPENSABLE)
    return ExitCode.DONE


def _title(reader: RunReader, shown: int) -> str:
    note = " (simulated models)" if reader.state.simulated else ""
    count = len(reader.history)
    part = f", newest {shown} of {count} events (see --all)" if shown < count else ""
    return f"Run {reader.state.run}{note}{part}"


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("step", type=click.IntRange(min=1), required=False)
@click.option("--epoch", type=click.IntRange(min=1), help="Show the end of this epoch instead.")
@global_options
def show_command(settings: Globals, step: int | None, epoch: int | None) -> ExitCode:
    """Show one step: rollouts, edits as a diff, flips and the gate's arithmetic, from git alone.

    With --epoch, the end of that epoch: the comparison, the guidance, the notes for the optimizer.
    """
    if step is not None and epoch is None:
        _show_step(open_reader(settings).step(step), settings)
    elif epoch is not None and step is None:
        _show_boundary(open_reader(settings).boundary(epoch), settings)
    else:
        raise click.UsageError("name either a STEP or an --epoch")
    return ExitCode.DONE


def _show_boundary(record: BoundaryRecord, settings: Globals) -> None:
    if settings.json:
        click.echo(record.model_dump_json())
    else:
        rows = boundary_rows_in_full(record)
        print_rows(boundary_title(record), rows, sys.stdout, settings.environ)


def _show_step(record: StepRecord, settings: Globals) -> None:
    if settings.json:
        click.echo(record.model_dump_json())
        return
    note = " (simulated models)" if record.simulated else ""
    title = f"Step {record.step}, epoch {record.epoch}{note}"
    print_rows(title, step_rows_in_full(record), sys.stdout, settings.environ)
    if record.proposal.diff:
        click.echo()
        _print_diff(record.proposal.diff, colour=wants_colour(sys.stdout, settings.environ))


def _print_diff(diff: str, *, colour: bool) -> None:
    for line in diff.splitlines():
        shown = harmless(line)
        click.echo(click.style(shown, fg=_COLOURS.get(line[:1])) if colour else shown)


# A word-aware diff for people: colours on a terminal, brackets around changed words elsewhere.

_STYLES = {"same": "default", "removed": "red", "added": "green", "gap": "dim"}
#: What git puts around changed words where there are no colours.
_BRACKETS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
_MARGIN = 2


def print_diff(
    old: NamedSkill, new: NamedSkill, stream: TextIO, environ: Mapping[str, str]
) -> None:
    """Print what changed from ``old`` to ``new``, no line wider than the terminal."""
    console, colour = build_console(stream, environ), wants_colour(stream, environ)
    rows = diff_rows(old.text, new.text)
    with console.capture() as drawn:
        for line in (*_header(old, new, rows), *_lines(rows, console, colour=colour)):
            console.print(line, soft_wrap=True)
    lines = (line.rstrip() for line in drawn.get().splitlines())
    # once more as whole lines, for what only comes together in them
    stream.writelines(f"{line if colour else harmless(line)}\n" for line in lines)
    stream.flush()


def _header(old: NamedSkill, new: NamedSkill, rows: tuple[DiffRow, ...]) -> Iterator[Text]:
    if not rows:
        yield Text(f"The skill is the same in {_name(old)} and {_name(new)}.")
        return
    kinds = [row.kind for row in rows]
    yield Text(f"− {_name(old)}, {plural(word_count(old.text), 'word')}", "bold red")
    yield Text(f"+ {_name(new)}, {plural(word_count(new.text), 'word')}", "bold green")
    removed, added = plural(kinds.count("removed"), "line"), plural(kinds.count("added"), "line")
    yield Text(f"{removed} removed or changed, {added} added or changed", "dim")
    yield Text("")


def _name(skill: NamedSkill) -> str:
    return harmless_line(skill.name)


def _lines(rows: tuple[DiffRow, ...], console: Console, *, colour: bool) -> Iterator[Text]:
    for row in rows:
        style = _STYLES[row.kind]
        whole = _text(row, colour=colour)
        whole.expand_tabs(4)
        folded = whole.wrap(console, max(console.width - _MARGIN, _MARGIN)) if whole else [whole]
        for number, part in enumerate(folded):
            # the sign again: a line that was folded is to be told from one that is the same
            sign = row.sign if number == 0 or row.kind in _BRACKETS else " "
            yield Text(f"{sign} ", style).append_text(part)


def _text(row: DiffRow, *, colour: bool) -> Text:
    style = _STYLES[row.kind]
    whole = Text(style=style)
    # brackets tell a part of a line; a line that changed as a whole has its sign
    partly = any(not span.changed for span in row.spans)
    for span in row.spans:
        changed = span.changed and partly
        opening, closing = _BRACKETS.get(row.kind, ("", "")) if changed and not colour else ("", "")
        emphasis = "bold underline" if changed else ""
        whole.append(f"{opening}{harmless(span.text)}{closing}", emphasis)
    return whole


# ``skillopt-ci diff``: what training changed in the skill.

_MOST_DIGITS = 6


@click.command()
@click.argument("before", default="initial", metavar="[A]")
@click.argument("after", default="current", metavar="[B]")
@global_options
def diff_command(settings: Globals, before: str, after: str) -> ExitCode:
    """Show what changed in the skill from A to B, word by word, read from git alone.

    A and B are `initial`, `current` or `best`, the number of a step (the skill as that step left
    it), a file, a git ref, or REF:path. Without them: from `initial` to `current`.
    """
    reader = open_reader(settings)
    old, new = (_version(reader, word, settings) for word in (before, after))
    if settings.json:
        click.echo(json.dumps(_as_json(old, new)))
    else:
        print_diff(old, new, sys.stdout, settings.environ)
    return ExitCode.DONE


def _version(reader: RunReader, word: str, settings: Globals) -> NamedSkill:
    if word.isdecimal() and len(word) <= _MOST_DIGITS:
        return _after_step(reader, int(word))
    return find_skill(reader, word, settings.cwd)


def _after_step(reader: RunReader, number: int) -> NamedSkill:
    """The skill as the step left it, merged or not."""
    reader.step(number)
    place = step_places(reader).get(("step", number))
    text = None if place is None else reader.ledger.read(place.verdict, reader.skill_path)
    if text is None:
        raise UsageError(
            f"Step {number} is not in the history of this clone any more (a squash merge?).",
            hint=f"`skillopt-ci show {number}` shows what it changed, from its record.",
        )
    return NamedSkill(f"step {number}", text)


def _as_json(old: NamedSkill, new: NamedSkill) -> dict[str, object]:
    kinds = [row.kind for row in diff_rows(old.text, new.text)]
    sides = {
        side: {"name": one.name, "sha256": one.sha256, "words": word_count(one.text)}
        for side, one in (("before", old), ("after", new))
    }
    return {
        **sides,
        "lines_removed": kinds.count("removed"),
        "lines_added": kinds.count("added"),
        "diff": unified_diff(old.text, new.text),
    }


# ``skillopt-ci best``: the best skill so far.


@click.command()
@click.option(
    "--output", "-O", type=click.Path(path_type=Path), metavar="FILE", help="Write it to FILE."
)
@global_options
def best_command(settings: Globals, output: Path | None) -> ExitCode:
    """Print the best skill measured so far, or write it to a file; read from git alone."""
    reader = open_reader(settings)
    text = reader.read(reader.folder.best_skill)
    if text is None:
        raise RepositoryError(f"{reader.folder.best_skill} is missing in {reader.commit[:10]}.")
    if output is not None:
        write_atomically(settings.cwd / output, text)
    if settings.json:
        click.echo(json.dumps({**_facts(reader), "text": text}))
    elif output is None:
        # a program gets the text to the last byte, a terminal nothing that it would obey
        click.echo(harmless(text) if sys.stdout.isatty() else text, nl=False)
    return ExitCode.DONE


def _facts(reader: RunReader) -> dict[str, object]:
    best = reader.state.best
    return {
        "run": reader.state.run,
        "step": best.step,
        "origin": best.origin,
        "score": best.measurement.score,
        "tasks": best.measurement.n,
        "sha256": best.sha256,
        "simulated": reader.state.simulated,
    }
