"""``skillopt-ci status``, ``log``, ``show``, ``diff``, ``best``, ``replay``: from git alone."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from skillopt_ci.cli.build import load_configured, skill_path
from skillopt_ci.cli.console import print_rows, print_table
from skillopt_ci.cli.options import FILE, Globals, command, print_json, print_text, wants_colour
from skillopt_ci.cli.read import RunReader, find_skill, in_flight, open_reader, step_places
from skillopt_ci.config.config import Evaluation, GateConfig, Optimizer
from skillopt_ci.config.loading import Loaded
from skillopt_ci.errors import RepositoryError, SkilloptError
from skillopt_ci.git.history import parents
from skillopt_ci.git.locks import is_held
from skillopt_ci.ledger.records import BoundaryRecord, Decision, StepRecord
from skillopt_ci.ledger.summary import MEASURED_ANEW
from skillopt_ci.report import terminal, words
from skillopt_ci.report.view import RunView, StepPlace, event_view
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.skill.diff import diff_rows, unified_diff
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.text import plural
from skillopt_ci.training.confirm import recomputed
from skillopt_ci.training.evaluate import evaluation_of
from skillopt_ci.training.fingerprint import measurement_fingerprint
from skillopt_ci.training.gate import replay
from skillopt_ci.training.offline_eval import NamedSkill
from skillopt_ci.training.plan import Part, planned, sizes_of
from skillopt_ci.training.run_context import runner_parts
from skillopt_ci.training.state import taken_back
from skillopt_ci.training.trainer import Upcoming, upcoming
from skillopt_ci.util import pick, write_atomically

_COLOURS = {"+": "green", "-": "red", "@": "cyan", "added": "green", "removed": "red"}
#: What git puts around changed words.
_BRACKETS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}


@command()
def status_command(settings: Globals) -> None:
    """Show where training stands and what comes next, read from git alone."""
    here, loaded, path = open_reader(settings), None, ""
    with suppress(SkilloptError):  # the run is read from git alone; what comes next is an extra
        found = load_configured(settings)
        if found.config.run == here.state.run:
            path, loaded = skill_path(found, here.ledger.git.folder), found
    reader, refused = here.start(path)
    flying, commit = in_flight(reader), reader.flight
    busy = is_held(reader.ledger.common_dir, reader.state.run)
    what = flying.name.lower() if flying else ""
    summary = reader.folder.read_summary()
    skill = reader.folder.read(reader.skill_path) or ""
    run = RunView(reader.state, reader.history, summary=summary, commit=here.commit, skill=skill)
    coming, anew = (
        (None, False)
        if refused or loaded is None
        else _coming(loaded, settings.environ, reader, edited=run.unscored)
    )
    # a commit of people, or of another score, made the trainer propose the step again
    stale = commit and (anew or parents(reader.ledger.git, commit) != (reader.commit,))
    if settings.json:
        next_work = {
            "unscored": run.unscored or anew,
            "steps": coming and coming.total,
            "in_flight": {"what": what, "commit": commit} if what else None,
            "next": coming and ("verdict" if what and not stale else coming.work),
            "epoch_end_due": coming and coming.epoch_end,
            "at_work": busy,
            **({"refused": refused} if refused else {}),
        }
        print_json(terminal.status_json(run, next_work))
        return
    rows = (
        [("at work", "another skillopt-ci is training this run in this clone now")] if busy else []
    )
    why = "a part of it was taken back" if taken_back(reader.history) else "it was changed by hand"
    # which may be another one than CI's
    other = [f"{MEASURED_ANEW} with this configuration"] if anew else []
    whys = " and ".join([*([why] if run.unscored else []), *other])
    first = f"measure the skill again, since {whys}; then " if whys else ""
    if flying:
        fate = "will be set aside" if stale else "waits to be measured"
        rows += [
            ("in flight", f"{what}: its candidate {commit[:10]} {fate}"),
            ("its proposal", f"{words.usage_text(flying.record.usage)}; not yet part of `used`"),
        ]
    if refused:
        rows.append(("next", f"no step until you fix this: {refused}"))
    elif flying and not stale:
        rows.append(("next", "the verdict on it, by `step` or `run`"))
    elif coming is not None:
        rows.append(("next", first + _sentence(coming, run)))
    print_rows(settings, _title(reader), terminal.status_rows(run, rows))


def _title(reader: RunReader) -> str:
    return f"Run {reader.state.run}{' (simulated models)' if reader.state.simulated else ''}"


def _coming(
    loaded: Loaded, environ: Mapping[str, str], reader: RunReader, *, edited: bool
) -> tuple[Upcoming | None, bool]:
    """What comes next, if that is known, and whether the score no longer compares with others."""
    if (tasks := loaded.config.tasks) is None:  # an environment would have to be opened
        return None, False
    try:
        config, splits = planned(loaded.config, load_splits(tasks, loaded.root), reader.state)
        sizes, root, anew = sizes_of(config, splits, reader.history), loaded.root, False
        with suppress(SkilloptError, GraderError):  # `check` tells of prompts and graders
            parts, asked = runner_parts(config, root, environ, None), splits.selection
            under = measurement_fingerprint(
                config, asked[: sizes.selection], parts.prompts, parts.rollout_facts, root
            )
            anew = under != reader.state.measured_under
        return upcoming(config, sizes, reader.state, reader.history, edited=edited or anew), anew
    except SkilloptError:
        return None, False


def _sentence(coming: Upcoming, run: RunView) -> str:
    step = "" if coming.step is None else f"step {coming.step} of {coming.total}"
    match coming.work:
        case "step":
            end = f"; the end of epoch {coming.epoch_end} is due, by `slow-update`"
            return f"{step}, by `step` or `run`{end if coming.epoch_end is not None else ''}"
        case "epoch_end":
            then = f", then {step}" if step else ""
            by = "`slow-update`" if coming.scheduled else "`step` or `run`"
            return f"the end of epoch {coming.epoch_end}{then}, by {by}"
        case "finish":
            return f"the tests and the summary, by `step`, `run` or `finish`; {coming.why}"
        case "done" if run.state.provisional and run.confirmation is None:
            return f"the last confirmation if one is due, by `step` or `run`; {coming.why}"
        case "done" | "nothing_to_learn":
            return f"nothing: {coming.why}"


@command()
@click.option("-n", "--number", type=click.IntRange(min=1), help="Only the newest N events.")
def log_command(settings: Globals, number: int | None) -> None:
    """List the run's events, oldest first, from git alone; with --json, one object per line."""
    reader = open_reader(settings)
    entries = reader.history[-(number or 0) :]
    if settings.json:
        for entry in entries:
            click.echo(entry.model_dump_json())
        return
    title = _title(reader)
    if len(entries) < len(reader.history):
        title += f", newest {len(entries)} of {len(reader.history)} events"
    read = reader.folder.read_conclusion
    # only here can the record change the verdict, and reading all of them takes long
    conclusions = (read(one) if one.action == "accept_new_best" else None for one in entries)
    rows = list(map(terminal.log_row, entries, conclusions))
    if waiting := in_flight(reader):
        rows.append(terminal.flight_row(waiting, reader.state))
    # a narrow terminal goes without these, the least missed first
    print_table(settings, terminal.LOG_HEADINGS, rows, title, ("words", "edits", "epoch"))


@command()
@click.argument("step", type=click.IntRange(min=1), required=False)
@click.option("--epoch", type=click.IntRange(min=1), help="Show the end of this epoch instead.")
def show_command(settings: Globals, step: int | None, epoch: int | None) -> None:
    """Show a step: rollouts, edits as a diff, flips and the gate's arithmetic, from git alone.

    STEP is the last one by default. With --epoch, an epoch's end: comparison, guidance, meta skill.
    """
    if step is not None and epoch is not None:
        raise click.UsageError("name either a STEP or an --epoch")
    reader = open_reader(settings)
    record = reader.boundary(epoch) if epoch else reader.step(step or reader.state.step or 1)
    if settings.json:
        click.echo(record.model_dump_json())
        return
    print_rows(settings, terminal.title(record), terminal.rows_in_full(event_view(record)))
    if isinstance(record, StepRecord) and record.proposal.diff:
        click.echo()
        # records name every skill SKILL.md in the two lines that begin their diff
        diff = record.proposal.diff.replace("/SKILL.md\n", f"/{reader.skill_path}\n", 2)
        for line in diff.splitlines():
            click.secho(harmless(line), fg=_COLOURS.get(line[:1]), color=settings.colour)


@command()
@click.argument("before", default="initial", metavar="[A]")
@click.argument("after", default="current", metavar="[B]")
def diff_command(settings: Globals, before: str, after: str) -> None:
    """Show what changed in the skill from A to B, word by word, read from git alone.

    A and B are `initial`, `current` or `best`, the number of a step (the skill after that step), a
    file, a git ref, or REF:path. The default is from `initial` to `current`.
    """
    reader = open_reader(settings)
    old, new = (find_skill(reader, word, settings) for word in (before, after))
    if not settings.json:
        print_diff(old, new, settings)
        return
    kinds = [row.kind for row in diff_rows(old.text, new.text)]
    sides = {
        side: {**pick(one, "name sha256"), "words": word_count(one.text)}
        for side, one in (("before", old), ("after", new))
    }
    counts = {"lines_removed": kinds.count("removed"), "lines_added": kinds.count("added")}
    print_json({**sides, **counts, "diff": unified_diff(old.text, new.text, reader.skill_path)})


def print_diff(old: NamedSkill, new: NamedSkill, settings: Globals) -> None:
    rows, names = diff_rows(old.text, new.text), [harmless_line(one.name) for one in (old, new)]
    if not rows:
        click.echo(f"The skill is the same in {' and '.join(names)}.", file=settings.people)
        return
    before, after = (plural(word_count(one.text), "word") for one in (old, new))
    lines = [("removed", f"− {names[0]}, {before}"), ("added", f"+ {names[1]}, {after}\n")]
    colour = wants_colour(settings.people, settings.environ)
    for row in rows:
        # brackets tell a part of a line; a line that changed as a whole has its sign
        partly = any(not span.changed for span in row.spans)
        opening, closing = _BRACKETS.get(row.kind, ("", "")) if partly else ("", "")
        spans = (f"{opening}{one.text}{closing}" if one.changed else one.text for one in row.spans)
        lines.append((row.kind, f"{row.sign} {harmless(''.join(spans))}"))
    for kind, line in lines:
        click.secho(line, settings.people, fg=_COLOURS.get(kind), color=colour)


@command()
@click.option("--output", "-O", type=FILE, metavar="FILE", help="Write it to FILE.")
def best_command(settings: Globals, output: Path | None) -> None:
    """Print the skill with the best score so far, or write it to a file; read from git alone."""
    reader = open_reader(settings)
    text = reader.folder.read(reader.folder.best_skill)
    if text is None:
        raise RepositoryError(f"{reader.folder.best_skill} is missing in {reader.commit[:10]}.")
    output = None if output == Path("-") else output
    if output is not None:
        write_atomically(settings.cwd / output, text)
    if settings.json:
        best = "step=best.step origin=best.origin score=best.measurement.score"
        facts = f"run {best} tasks=best.measurement.n sha256=best.sha256 simulated"
        print_json({**pick(reader.state, facts), "text": text})
    elif output is None:
        print_text(text)


@command()
def replay_command(settings: Globals) -> None:
    """Recompute every verdict of the gate from the recorded scores, read from git alone.

    Calls no model. Exits with 2 if a verdict contradicts its scores or `history.jsonl`.
    """
    reader = open_reader(settings)
    rows = [*_replayed(reader), *_replayed_confirmations(reader)]
    verdicts = [dict(zip(_REPLAY_HEADINGS, row, strict=True)) for row in rows]
    if rows and not settings.json:
        print_table(settings, _REPLAY_HEADINGS, rows, _title(reader), ("tasks", "recorded"))
    if wrong := [name for name, _, _, outcome in rows if outcome.startswith("differs")]:
        error = RepositoryError(f"The records do not support the verdict on {', '.join(wrong)}.")
        error.details = {"verdicts": verdicts}
        raise error
    if settings.json:
        print_json(verdicts)
    elif not rows:
        settings.say(f"{_title(reader)}: no verdict of the gate is recorded yet.")


_REPLAY_HEADINGS = ("what", "recorded", "tasks", "replayed")


def _replayed(reader: RunReader) -> Iterator[tuple[str, str, int, str]]:
    state, told = reader.state, {words.event_name(entry).lower() for entry in reader.history}
    steps = [f"step {number}" for number in range(1, state.step + 1)]
    ends = [
        f"end of epoch {epoch}"
        for epoch in range(1, state.boundary + 1)
        if reader.folder.read_boundary(epoch) is not None
    ]
    for name in steps + ends:
        if name not in told:
            yield name, "gone", 0, "differs: it has no line in history.jsonl"
    places, facts = step_places(reader), "action score_before score_after"
    for entry in reader.history:
        if entry.kind not in ("step", "slow_update"):
            continue
        number = entry.step if entry.kind == "step" else entry.epoch
        place = places.get((entry.kind, number), StepPlace())
        record = reader.step(number) if entry.kind == "step" else reader.boundary(number)
        name, whole = words.event_name(entry).lower(), record.decision
        made = record.proposal if isinstance(record, StepRecord) else record
        skill = made.skill_after if whole and whole.stays else made.skill_before
        if whole and (pick(entry, facts) != pick(whole, facts) or entry.skill_sha256 != skill):
            yield name, whole.verdict, whole.compared, "differs: history.jsonl says otherwise"
            continue
        for part, decision in (("", whole), (", its reminders", whole and whole.notes)):
            if decision is not None and decision.measurement is not None:
                outcome = _outcome(reader, place, record, decision)
                yield name + part, decision.verdict, decision.compared, outcome


def _outcome(
    reader: RunReader, place: StepPlace, record: StepRecord | BoundaryRecord, decision: Decision
) -> str:
    before, after = (
        reader.ledger.at(commit).read_state() if commit else None
        for commit in (place.candidate, place.verdict)
    )
    if not (before and after and after.basis):
        return "the commits are gone"
    proposed = record.proposal.notes if isinstance(record, StepRecord) else None
    notes = decision is not record.decision or (proposed is not None and proposed.alone)
    recorded: Any = after.basis.config
    gate = recorded["evaluation"]["gate"]
    if gate.get("policy", "strict") != "strict":
        return "not replayed: its gate is retired"
    options = _known(Evaluation, {**recorded["evaluation"], "gate": _known(GateConfig, gate)})
    optimizer = _known(Optimizer, recorded["optimizer"])
    evaluation = evaluation_of(options, optimizer, record, notes=notes)
    found = replay(decision, before, evaluation, notes_only=notes)
    kept = "gate.difference gate.standard_error gate.compared" if decision.gate else ""
    facts = f"action score_before score_after beats_best {kept}"
    if found is not None:
        if pick(found, facts) == pick(decision, facts):
            return "the same"
        guarded = found.model_copy(update={"action": "reject", "beats_best": False})
        if decision.gate and decision.gate.losses and pick(guarded, facts) == pick(decision, facts):
            return "not replayed: types of task lost too much"
    step = record if isinstance(record, StepRecord) else reader.step(record.step)
    # on record is the configuration of this or an earlier proposal, not the verdict's
    if step.proposal.config_sha256 != after.config_sha256 or (
        step.basis_sha256 not in ("", sha256(after.basis.model_dump_json()))
    ):
        return "not replayed: the configuration had changed by then"
    if found is None:
        return "differs: the scores leave the verdict open"
    return f"differs: {found.verdict}, {found.score_before:.4f} → {found.score_after:.4f}"


def _replayed_confirmations(reader: RunReader) -> Iterator[tuple[str, str, int, str]]:
    last = 0 if reader.state.confirmed is None else reader.state.confirmed.tests
    told = {(one.kind, one.action, one.tasks, one.skill_sha256) for one in reader.history}
    for test in range(1, last + 1):
        record = reader.folder.read_confirmation(test)
        if record is None:
            yield f"confirmation {test}", "gone", 0, "differs: its record is not there"
            continue
        found = recomputed(record)
        outcome = "the same" if found == record else f"differs: {found.action}, p={found.p_value}"
        if record.size is None:
            outcome = "not replayed: the test of an earlier version"
        elif ("confirm", record.action, len(record.pairs), record.current) not in told:
            outcome = "differs: history.jsonl has no line that says so"
        yield f"confirmation {test}", record.action, len(record.pairs), outcome


def _known(section: type[Part], facts: Mapping[str, object]) -> Part:
    """What is on record of a section, without settings that only earlier versions had."""
    return section.model_validate({k: v for k, v in facts.items() if k in section.model_fields})
