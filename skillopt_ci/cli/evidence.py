"""Gather what the HTML report shows: records, skill texts, attempts, effects of edits."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from skillopt_ci.cli.build import events_path
from skillopt_ci.cli.read import RunReader, gather, view
from skillopt_ci.ledger.records import HistoryEntry, StepRecord
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.report.html_attempts import Recorded, Trajectory, Turn, recorded, wishes
from skillopt_ci.report.html_charts import anchor
from skillopt_ci.report.html_skill import EditEffect, Effects, Evidence, Version
from skillopt_ci.report.terminal import course_lines, shortened
from skillopt_ci.report.view import RunView
from skillopt_ci.rollout.events import AttemptTrace, attempt_traces, read_events
from skillopt_ci.rollout.types import Status
from skillopt_ci.text import score
from skillopt_ci.training.edit_ablation import attribute, compared_in, rules_of

#: Characters of one text, and of all texts of one attempt.
_TEXT, _ATTEMPT = 1_600, 6_000
#: What a turn is, by its heading in the record; all others are tools.
_KINDS = ("system", "user", "model", "result", "outcome")
_SOLVED = 1 - 1e-9
_MEASURED = tuple(one.value for one in Status if one.measured)
#: The belief in an edit is told at so many moments, the last one being now: each is a regression.
_MOMENTS = 5
#: Beyond so many rules only the newest steps are looked at: a regression takes their third power.
_MOST_RULES = 120


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
        before, commit = entry.skill_sha256, ""
        if entry.kind == "step":
            commit = run.place(entry.step).verdict
        elif entry.kind == "slow_update":
            commit = run.place(entry.epoch, "slow_update").verdict
        origin = "" if entry.kind == "measure" else anchor(entry)
        yield Version(_label(entry), text, origin, commit)


def _label(entry: HistoryEntry) -> str:
    names = {
        "start": "at the start",
        "step": f"step {entry.step}",
        "notes": f"reminders of step {entry.step}",
        "slow_update": f"end of epoch {entry.epoch}",
        "measure": f"by hand, after step {entry.step}",
    }
    return names.get(entry.kind, entry.kind.replace("_", " "))


def _candidates(run: RunView, texts: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    made = [
        (f"step-{one.step}", one.proposal.skill_before, one.proposal.skill_after)
        for one in run.steps
    ]
    made += [(f"epoch-{one.epoch}", one.skill_before, one.skill_after) for one in run.epochs]
    for name, before, after in made:
        if before in texts and after in texts and before != after:
            yield name, (texts[before], texts[after])


# The attempts, from this machine's record of events.


def recorded_attempts(reader: RunReader, run: RunView, redact: Redact) -> Recorded:
    """The attempts that the sections of the report could show.

    Nothing is kept of other attempts, so that memory does not grow with the record.
    """
    wanted = {(one.stage, one.task, one.skill) for own in wishes(run).values() for one in own}
    count = 0

    def wished() -> Iterator[Trajectory]:
        nonlocal count
        for trace in attempt_traces(read_events(events_path(reader.ledger, reader.state.run))):
            count += 1
            if (trace.stage, trace.task, trace.skill_sha256) in wanted:
                yield trajectory(trace, redact)

    found = recorded(wished())
    return Recorded(found.attempts, count)


def trajectory(trace: AttemptTrace, redact: Redact) -> Trajectory:
    """An attempt as the report shows it, shortened, without the secrets that are known by now."""
    solved = None
    if trace.end is None:
        outcome = "not ended"
    elif (status := str(trace.end.get("status", ""))) not in _MEASURED:
        outcome = f"not measured: {status.replace('_', ' ')}"
    else:
        hard, soft = float(trace.end.get("hard") or 0), float(trace.end.get("soft") or 0)
        solved = hard >= _SOLVED
        outcome = f"solved in part ({score(max(hard, soft))})" if hard > 0 or soft > 0 else "failed"
        outcome = "solved" if solved else outcome
    return Trajectory(
        task=redact(trace.task),
        stage=trace.stage,
        attempt=trace.attempt,
        skill=trace.skill_sha256,
        outcome=outcome,
        solved=solved,
        turns=_bounded(tuple(_turns(trace, redact))),
    )


def _turns(trace: AttemptTrace, redact: Redact) -> Iterator[Turn]:
    """What was said and done. The instructions are the same for all tasks, but for the skill."""
    for heading, text in islice(course_lines(trace, whole=True), 1, None):
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


# What all comparisons of a run say of its single edits, and how that came about.


def edit_effects(steps: Sequence[StepRecord]) -> Effects:
    """The effects of every edit that some comparison of the newest steps tells of."""
    rules, start = set[str](), len(steps)
    for record in reversed(steps):
        rules |= {rule for edit in record.proposal.edits for rule in rules_of(edit)}
        if len(rules) > _MOST_RULES:
            break
        start -= 1
    newest = steps[start:]
    found = defaultdict[tuple[int, int], list[EditEffect]](list)
    moments = {-(-len(newest) * part // _MOMENTS) for part in range(1, _MOMENTS + 1)}
    for end in sorted(moments - {0}):
        seen = newest[:end]
        known = attribute(list(compared_in(seen)))
        for record in seen:
            for number, edit in enumerate(record.proposal.edits):
                if any(rule in known.rules for rule in rules_of(edit)):
                    believed = known.effect(rules_of(edit))
                    found[record.step, number].append(
                        EditEffect(seen[-1].step, believed.mean, believed.sd, believed.helpful)
                    )
    return {place: tuple(effects) for place, effects in found.items()}
