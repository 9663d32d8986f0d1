"""The HTML report, built from a run's evidence."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from skillopt_ci import __version__
from skillopt_ci.config.reference import leaves
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.model.types import by_role
from skillopt_ci.report import words as say
from skillopt_ci.report.effects import Effects
from skillopt_ci.report.html_attempts import Recorded, section_name, viewer
from skillopt_ci.report.html_charts import Column, anchor, curve, outcome_map
from skillopt_ci.report.markdown import with_code
from skillopt_ci.report.view import EventView, RunView, lessons, run_facts
from skillopt_ci.sanitize import visible
from skillopt_ci.skill.diff import diff_rows, lines_of, matcher
from skillopt_ci.stats import wilson
from skillopt_ci.text import cost_text, plural, score, score_text, signed


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the skill's text; ``anchor`` is the section of the report that explains it."""

    label: str
    text: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run with every step's evidence; the skill's ``versions`` are oldest first, current last.

    ``attempts`` are some of the ``count`` attempts recorded on this machine; ``dates`` are the days
    of the run's first and newest commit.
    """

    run: RunView
    versions: tuple[Version, ...]
    meta_skill: str = ""
    attempts: Recorded = field(default_factory=dict)
    count: int = 0
    effects: Effects = field(default_factory=dict)
    dates: tuple[str, ...] = ()


#: The skill, its mean score, the number of tasks.
_Score = tuple[str, float, int]


def build_page(evidence: Evidence, *, live: str = "") -> str:
    """A self-contained HTML document; if ``live`` names its version, it polls for a newer one."""
    # The page shows all of training, including what base already has.
    run = replace(evidence.run, base_events=0)
    views = [view for entry in run.history if (view := run.told(entry)) is not None]
    views += [run.flight] if run.flight else []
    columns = tuple(_columns(evidence, views))
    drawn, shown = outcome_map(columns), viewer(run, evidence.attempts, evidence.count)
    found = tuple(passages([version.text for version in evidence.versions]))
    script = (resources.files("skillopt_ci.report") / "templates" / "page.js").read_bytes()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    ours = "'self'" if live else "'none'"
    data = {
        "columns": [[visible(column.title), column.anchor] for column in drawn.columns],
        "rows": [[visible(row.task), row.letters] for row in drawn.rows],
        # Attempt ids by task and section.
        "cells": {f"{visible(task)},{column}": ids for (column, task), ids in shown.links.items()},
    }
    return _template().render(
        run=run,
        results=tuple(_results(run)),
        known=dict(leaves(run.state.basis.config if run.state.basis else {})).get,
        spent=by_role(run.state.accounts),
        evidence=evidence,
        curve=curve(run.history, {view.anchor: view.verdict for view in views}),
        history=[_event(run, entry) for entry in reversed(run.history)],
        map=drawn,
        learned=lessons(run),
        blame=[(evidence.versions[origin], lines) for origin, lines in found],
        views=views[::-1],
        marks={anchor(entry): run.mark(entry) for entry in run.history if entry.stays},
        viewer=shown,
        data=data,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        f"img-src data:; connect-src {ours}; base-uri 'none'; form-action 'none'",
        live=live,
        version=__version__,
    )


def _event(run: RunView, entry: HistoryEntry) -> tuple[HistoryEntry, str, str, str]:
    view = run.told(entry)
    told = [entry.verdict if view is None else view.verdict, run.mark(entry)]
    if entry.kind == "confirm":
        told = [f"{entry.verdict}: {entry.reason}"]
    elif entry.kind not in ("step", "slow_update", "notes"):  # no gate decided it
        told = [entry.reason]
    return entry, say.event_name(entry), anchor(entry), ", ".join(filter(None, told))


def _results(run: RunView) -> Iterator[tuple[str, Sequence[_Score], list[str]]]:
    """For each kind of task its name, the first and newest score, and what is to be said."""
    found = run.tested
    skill, gain = run.tested_skill or (None, None)
    if found is not None and skill is not None and skill.test is not None:
        tested = (("at the start", found.initial.test), (skill.origin, skill.test))
        used = f"; training used {found.trained}" if found.trained else " that training never used"
        share = "share solved of " if found.metric != "hard" else ""
        told = [f"{share}{plural(skill.test.n, 'task')}{used}"]
        if skill.sha256 != run.state.current.sha256:
            told.append(f"the skill of {skill.origin}, not the current one")
        if gain is not None:
            told += [f"{say.gain_text(gain)}, {len(gain.fixed)} fixed, {len(gain.broken)} broken"]
        if run.state.step > found.step:
            told.append(f"measured {say.after_step(found.step)}; training has gone on since")
        yield "Test", [(name, one.hard, one.n) for name, one in tested if one is not None], told
    current, origin, facts = run.state.current, run.origin, tuple(run_facts(run))
    told = [
        f"{plural(current.measurement.n, 'task')} to decide which edits stay",
        *(f"best so far: {one.text}" for one in facts if one.label == "best"),
        "" if run.refuted else run.claim,
        *(one.text for one in facts if one.label == "caution"),
    ]
    now = (current.origin, current.measurement.score, current.measurement.n)
    began = f"after step {origin.step}" if origin and origin.step else "at the start"
    first = () if origin is None else ((began, run.first_score, origin.tasks),)
    yield "Selection", (*first, now), told


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("skillopt_ci.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Drops invisible characters, which a browser may act on.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    shown = (score, score_text, signed, plural, cost_text, section_name, diff_rows, wilson)
    told = (say.failures, say.edit_evidence, say.edit_fate, say.effect_text, say.gist)
    also = (code_spans, say.note_outcomes, say.usage_text, say.account_rows)
    environment.filters.update({one.__name__: one for one in (*shown, *told, *also)})
    return environment.get_template("page.html")


def _columns(evidence: Evidence, views: Sequence[EventView]) -> Iterator[Column]:
    if (first := evidence.run.baseline) is not None:
        yield Column("at the start", "", "measured", first, "start")
    for view in views:
        decision = view.record.decision
        if decision is not None and decision.measurement is not None:
            label = view.anchor.replace("step-", "").replace("epoch-", "e")
            title = f"{view.name.lower()}, {view.fate}"
            yield Column(title, view.anchor, view.fate, decision.measurement, label)


def code_spans(text: str) -> Markup:
    return Markup(with_code(visible(text), escape))  # noqa: S704 - escaped


def passages(texts: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Split the last of ``texts`` into runs of lines with one origin: (index of the text, lines).

    A line's origin is the text since which it is unchanged, found by diffing successive texts. A
    blank line belongs to the line before it.
    """
    origins: list[int] = []
    lines: list[str] = []
    for index, text in enumerate(texts):
        before, lines = lines, lines_of(text)
        found = [index] * len(lines)
        for block in matcher(before, lines).get_matching_blocks():
            found[block.b : block.b + block.size] = origins[block.a : block.a + block.size]
        origins = found
    for index, line in enumerate(lines[1:], start=1):
        if not line.strip():
            origins[index] = origins[index - 1]
    for origin, told in groupby(zip(origins, lines, strict=True), key=lambda pair: pair[0]):
        yield origin, tuple(line for _, line in told)
