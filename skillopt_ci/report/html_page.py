"""From a run's evidence to the page."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from skillopt_ci import __version__
from skillopt_ci.ledger.records import BoundaryRecord, StepRecord
from skillopt_ci.report.html_attempts import Viewer, section_name, viewer
from skillopt_ci.report.html_charts import Column, OutcomeMap, anchor, curve, outcome_map
from skillopt_ci.report.html_skill import Evidence, Version, blame
from skillopt_ci.report.html_step import Card, epoch_card, step_card
from skillopt_ci.report.view import RunView, run_facts
from skillopt_ci.report.words import event_name
from skillopt_ci.sanitize import visible
from skillopt_ci.text import plural, score


def build_page(evidence: Evidence, *, live: bool = False) -> str:
    """Return the whole HTML document; nothing in it is fetched from anywhere.

    All texts of models, tasks and people are escaped; characters that nobody sees are left out. A
    content security policy lets only our own script run. With ``live`` the page asks the server
    that it came from for a newer one.
    """
    run = evidence.run
    columns = tuple(_columns(evidence))
    others = _others(evidence)
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
            cards=[_card_of(record, evidence) for record in _records(run)][::-1],
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
        finalize=_shown,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters["score"] = score
    environment.filters["plural"] = plural
    environment.filters["section_name"] = section_name
    return environment


def _shown(value: object) -> object:
    """What a person can see of a text, and nothing of what only a browser would."""
    return visible(value) if type(value) is str else value


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


def _records(run: RunView) -> Iterator[StepRecord | BoundaryRecord]:
    """The evidence of steps and epochs' ends, as far as it was read, oldest first."""
    steps = {record.step: record for record in run.steps}
    ends = {record.epoch: record for record in run.epochs}
    for entry in run.history:
        if entry.kind == "step" and entry.step in steps:
            yield steps[entry.step]
        elif entry.kind == "slow_update" and entry.epoch in ends:
            yield ends[entry.epoch]


def _columns(evidence: Evidence) -> Iterator[Column]:
    """The skill at the start and every candidate whose tasks are on record, oldest first."""
    if evidence.first is not None:
        yield Column("at the start", "", "measured", evidence.first, "start")
    for record in _records(evidence.run):
        decision = record.decision
        if decision is None or decision.measurement is None:
            continue
        fate = "merged" if decision.stays else "reverted"
        name, where, label = f"end of epoch {record.epoch}", f"epoch-{record.epoch}", "e"
        if isinstance(record, StepRecord):
            name, where, label = f"step {record.step}", f"step-{record.step}", ""
        number = where.split("-")[1]
        yield Column(f"{name}, {fate}", where, fate, decision.measurement, label + number)


def _card_of(record: StepRecord | BoundaryRecord, evidence: Evidence) -> Card:
    run, texts = evidence.run, evidence.candidates
    if isinstance(record, StepRecord):
        place, known = run.place(record.step), texts.get(f"step-{record.step}")
        return step_card(record, place, evidence.effects, known)
    place = run.place(record.epoch, "slow_update")
    return epoch_card(record, place, texts.get(f"epoch-{record.epoch}"))


def _others(evidence: Evidence) -> tuple[Version, ...]:
    """The texts of candidates that did not become the skill."""
    known = {version.text for version in evidence.versions}
    return tuple(
        Version(section_name(name).removeprefix("the "), after, name)
        for name, (_, after) in evidence.candidates.items()
        if after not in known
    )


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
