"""From a run's evidence to the page."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from skillopt_ci import __version__
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.report.html_attempts import Viewer, section_name, viewer
from skillopt_ci.report.html_charts import Column, OutcomeMap, anchor, curve, outcome_map
from skillopt_ci.report.html_skill import Evidence, Version, blame
from skillopt_ci.report.view import EventView, failures, run_facts
from skillopt_ci.report.words import (
    edit_evidence,
    edit_fate,
    effect_text,
    event_name,
    follows,
    note_outcomes,
)
from skillopt_ci.sanitize import visible
from skillopt_ci.skill.diff import diff_rows
from skillopt_ci.text import cost_text, plural, score


def build_page(evidence: Evidence, *, live: bool = False) -> str:
    """Return the whole HTML document; nothing in it is fetched from anywhere.

    All texts of models, tasks and people are escaped; characters that nobody sees are left out. A
    content security policy lets only our own script run. With ``live`` the page asks the server
    that it came from for a newer one.
    """
    # the page tells of all training, whatever base has of it already
    run = replace(evidence.run, base_events=0)
    views = [view for entry in run.history if (view := run.told(entry)) is not None]
    columns = tuple(_columns(evidence, views))
    known = {version.text for version in evidence.versions}
    others = tuple(
        Version(section_name(name).removeprefix("the "), after, name)
        for name, (_, after) in evidence.candidates.items()
        if after not in known
    )
    drawn, shown = outcome_map(columns), viewer(run, evidence.attempts)
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            facts=run_facts(run),
            curve=curve(run.history),
            history=[(entry, event_name(entry), anchor(entry)) for entry in reversed(run.history)],
            map=drawn,
            blame=blame(evidence),
            views=views[::-1],
            candidates=evidence.candidates,
            effects=evidence.effects,
            versions=evidence.versions,
            others=others,
            meta_skill=evidence.meta_skill,
            viewer=shown,
            sections=_choices((one.section, section_name(one.section)) for one in shown.shown),
            stages=_choices((one.attempt.stage, one.what) for one in shown.shown),
            data=_data((*evidence.versions, *others), drawn, shown),
            policy=_policy(live=live),
            live=live,
            version=__version__,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skillopt_ci.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # what a person can see of a text, and nothing of what only a browser would
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    shown = (score, plural, cost_text, section_name, failures, edit_evidence, edit_fate)
    told = (effect_text, follows, wishes, diff_rows)
    environment.filters.update({one.__name__: one for one in (*shown, *told)})
    return environment


def _policy(*, live: bool) -> str:
    script = (resources.files("skillopt_ci.report") / "templates" / "page.js").read_bytes()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    rules = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "script-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _choices(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each value once, with its words; an empty one is no choice."""
    return [(value, words) for value, words in dict(pairs).items() if value]


def _columns(evidence: Evidence, views: Sequence[EventView]) -> Iterator[Column]:
    """The skill at the start and every candidate whose tasks are on record, oldest first."""
    if evidence.first is not None:
        yield Column("at the start", "", "measured", evidence.first, "start")
    for view in views:
        decision = view.record.decision
        if decision is not None and decision.measurement is not None:
            fate = "merged" if decision.stays else "reverted"
            label = view.anchor.replace("step-", "").replace("epoch-", "e")
            title = f"{view.name[:1].lower()}{view.name[1:]}, {fate}"
            yield Column(title, view.anchor, fate, decision.measurement, label)


def _data(versions: Sequence[Version], drawn: OutcomeMap, shown: Viewer) -> dict[str, object]:
    """What the script works on. ``places`` has the column of each text, -1 where there is none."""
    lines: dict[str, int] = {}
    texts = [
        [lines.setdefault(line, len(lines)) for line in visible(version.text).split("\n")]
        for version in versions
    ]
    places = {column.anchor: number for number, column in enumerate(drawn.columns)}
    return {
        # each text as indices into the lines of all: they are much alike
        "lines": list(lines),
        "texts": texts,
        # without a section: the first text, which has a column, or one that a person wrote
        "places": [
            places.get(version.anchor, -1) if version.anchor or not number else -1
            for number, version in enumerate(versions)
        ],
        "columns": [[visible(column.title), column.anchor] for column in drawn.columns],
        "rows": [[visible(row.task), row.letters] for row in drawn.rows],
        "cells": shown.cells(drawn.columns, drawn.rows),
    }


# What a card shows besides the record and its view.


def wishes(record: StepRecord) -> Iterator[str]:
    """What reviewers asked for, and what became of it."""
    for one in note_outcomes(record):
        note = one.note
        line = f":{note.line}" if note.line is not None else ""
        place = f" on {note.path}{line}" if note.path else ""
        edits = f"{plural(note.proposed, 'edit')} proposed for it, {note.taken} taken"
        yield f"{note.author or 'somebody'}{place}: “{note.text}” – {one.fate}, {edits}"
