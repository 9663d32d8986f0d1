"""The facts of a run, a step and an epoch's end, worked out once; reports only format them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from skillopt_ci.ledger.evidence import EditRecord, Measurement, ProposalRecord
from skillopt_ci.ledger.records import BoundaryRecord, Decision, HistoryEntry, State, StepRecord
from skillopt_ci.ledger.summary import DifferenceRecord, FinalSkill, Summary, comparable_from
from skillopt_ci.report import words as say
from skillopt_ci.rollout.types import FAILURE_BELOW, Status
from skillopt_ci.sanitize import visible
from skillopt_ci.skill.document import sha256
from skillopt_ci.text import collapsed, difference_text, names_text, plural, score, score_text
from skillopt_ci.training.gate import PERFECT

#: How edits were chosen if there were more than the edit budget allows.
_CHOICE = {"ranked": ", ranked by the optimizer", "truncated": ", the first ones taken"}


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The commit that merged or reverted a step, and its candidate."""

    verdict: str = ""
    candidate: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with a text, which may contain a model's words, or with names of tasks."""

    label: str
    text: str = ""
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """A step or the end of an epoch, as every report presents it.

    ``work`` says what the candidate was made from and how; ``extras``, what else was proposed and
    what the guard refused. ``failed`` are the training tasks that it learned from.
    """

    record: StepRecord | BoundaryRecord
    place: StepPlace
    name: str
    heading: str
    verdict: str
    reason: str
    work: tuple[Fact, ...]
    extras: tuple[Fact, ...]
    reasoning: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def anchor(self) -> str:
        record = self.record
        return f"step-{record.step}" if isinstance(record, StepRecord) else f"epoch-{record.epoch}"

    @property
    def made(self) -> ProposalRecord | BoundaryRecord:
        return self.record if isinstance(self.record, BoundaryRecord) else self.record.proposal

    @property
    def headline(self) -> str:
        decision = self.record.decision
        if decision is None or decision.score_after is None:
            return f"{self.name}: {self.verdict}"
        return f"{self.name} {self.verdict}: {say.arrow(decision)} on {say.tasks_text(decision)}"

    @property
    def fate(self) -> Literal["merged", "reverted", "none", "flight"]:
        decision = self.record.decision
        if decision is None or decision.score_after is None:
            return "flight" if self.verdict == "in flight" else "none"
        return "merged" if decision.stays else "reverted"

    @property
    def gate(self) -> Iterator[Fact]:
        decision = self.record.decision
        yield Fact("verdict", self.verdict)
        if self.reason:
            yield Fact("because", self.reason)
        if decision is None:
            return
        if decision.measurement is not None:
            yield from _measured(decision, decision.measurement)
        if (alone := decision.notes) is not None:
            told = f"{alone.verdict}, {say.arrow(alone)}: {alone.reason}. {say.arithmetic(alone)}"
            yield Fact("reminders alone", told.rstrip())

    @property
    def used(self) -> Fact:
        took = "" if self.place.seconds is None else f", {self.place.seconds:,.1f} s"
        return Fact("used", say.usage_text(self.record.usage) + took)


def event_view(record: StepRecord | BoundaryRecord, place: StepPlace = StepPlace()) -> EventView:
    decision = record.decision
    if isinstance(record, StepRecord):
        proposal = record.proposal
        failed = tuple(dict.fromkeys(one.id for one in proposal.rollout.tasks if one.failed))
        return EventView(
            record,
            place,
            name=f"Step {record.step}",
            heading=f"step {record.step_in_epoch} of epoch {record.epoch}",
            verdict="in flight" if decision is None else decision.verdict,
            reason="" if decision is None else decision.reason,
            work=tuple(_step_work(record, failed)),
            extras=tuple(extra_facts(proposal)),
            reasoning=(proposal.reasoning.strip(),) if proposal.reasoning.strip() else (),
            failed=failed,
        )
    parts = (record.slow_update, record.meta_skill)
    undecided = "in flight" if record.changed else "nothing changed"
    return EventView(
        record,
        place,
        name=f"End of epoch {record.epoch}",
        heading=f"after step {record.step}",
        verdict=undecided if decision is None else decision.verdict,
        reason=record.reason,
        work=tuple(_epoch_work(record)),
        extras=(),
        reasoning=tuple(one.reasoning.strip() for one in parts if one and one.reasoning.strip()),
        failed=tuple(pair.id for pair in record.pairs if pair.current.hard < FAILURE_BELOW),
    )


def _measured(decision: Decision, measured: Measurement) -> Iterator[Fact]:
    known = ", not measured again: this text already has a score"
    reused = "" if decision.reused_from is None else known
    metric = say.with_pessimistic(decision.metric, measured)
    after = score_text(measured.score, measured.n)
    if measured.partial:
        after = f"{score(decision.score_after)} (estimate: {say.tasks_text(decision)} measured)"
    yield Fact("selection tasks", f"{score(decision.score_before)} → {after} ({metric}){reused}")
    if sentences := say.arithmetic(decision):
        yield Fact("arithmetic", sentences)
    if decision.gate is not None and decision.gate.rounds > 1:
        yield Fact("rounds", f"{decision.gate.rounds}")
    yield Fact("fixed", names=decision.fixed)
    yield Fact("broken", names=decision.broken)
    if measured.errors:
        yield Fact("not measured", names=measured.errors)
    yield from (Fact("caution", sentence) for sentence in say.reservations(measured))


def _step_work(record: StepRecord, failed: tuple[str, ...]) -> Iterator[Fact]:
    proposal, tasks = record.proposal, record.proposal.rollout.tasks
    yield Fact("training tasks", say.training_score(proposal))
    yield Fact("failed", names=failed)
    read = dict.fromkeys(name for one in proposal.patterns for name in one.task_ids)
    rare = {
        "prompt refused": [task.id for task in tasks if task.status is Status.REFUSED],
        "failed in earlier steps": [name for name in read if name not in failed],
        "not measured": [task.id for task in tasks if not task.status.measured],
    }
    yield from (Fact(label, names=tuple(names)) for label, names in rare.items() if names)
    rate, most = proposal.learning_rate, "no limit"
    if proposal.edit_budget is not None:
        chosen = ", chosen by the optimizer" if rate else ""
        most = f"at most {proposal.edit_budget} to apply{chosen}"
    yield Fact(
        "proposals",
        f"{proposal.n_edits_merged} (patches: {proposal.n_failure_patches} from failures, "
        f"{proposal.n_success_patches} from successes), {most}"
        f"{_CHOICE.get(proposal.selection, '')}",
    )
    if rate is not None:
        sure = f", {rate.confidence} confidence" if rate.confidence else ""
        yield Fact("step size", f"{rate.learning_rate} of {rate.available}{sure}: {rate.reasoning}")
        yield from (Fact("risk", risk) for risk in rate.risk_notes)
    if record.changes:
        yield Fact("changed since", ", ".join(record.changes))


def extra_facts(proposal: ProposalRecord) -> Iterator[Fact]:
    yield from (Fact(label, words) for label, words in say.suggestion_rows(proposal))
    yield from (Fact("change", words) for words in proposal.change_summary)
    yield from (Fact("reminder", words) for words in say.reminders(proposal))
    yield from (Fact("refused", words) for words in say.refusal_lines(proposal, edits=False))
    yield from (Fact("unusable reply", words) for words in say.unusable_lines(proposal))


def _epoch_work(record: BoundaryRecord) -> Iterator[Fact]:
    told = "nothing to compare"
    if record.pairs:
        change = f"{score(record.previous_hard)} → {score(record.current_hard)}"
        told = f"{change} on {plural(len(record.pairs), 'training task')}: {say.categories(record)}"
    yield Fact("compared", told)
    for category in ("regressed", "improved"):
        if names := tuple(pair.id for pair in record.pairs if pair.category == category):
            yield Fact(f"training tasks {say.CATEGORIES[category]}", names=names)
    for label, part in (("guidance", record.slow_update), ("memory", record.meta_skill)):
        if part is not None and part.refused:
            yield Fact(label, f"refused: {part.refused}")


EventKind = Literal["step", "slow_update"]


@dataclass(frozen=True)
class RunView:
    """A run as of ``commit``.

    ``steps`` and ``epochs`` are the evidence of the newest steps and epochs' ends, oldest first;
    ``places`` says where they are in git. ``summary`` is the result of the last time the run
    finished. ``base`` is the branch that people work on; it has the first ``base_events`` of
    ``history``. Scores and counts are relative to base, as in a pull request. ``flight`` is the
    candidate that waits for its verdict, with its place in git. ``texts`` are skill texts by their
    SHA-256, ``baseline`` is the initial skill's measurement: on request, as far as history reaches.
    ``inconclusive`` says why the newest job has no verdict.
    """

    state: State
    history: tuple[HistoryEntry, ...]
    steps: tuple[StepRecord, ...] = ()
    epochs: tuple[BoundaryRecord, ...] = ()
    summary: Summary | None = None
    places: Mapping[tuple[EventKind, int], StepPlace] = field(default_factory=dict)
    base: str = ""
    base_events: int = 0
    commit: str = ""
    skill: str = ""
    flight: EventView | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    baseline: Measurement | None = None
    inconclusive: str = ""

    @property
    def skill_name(self) -> str:
        """The skill's name for people: the folder of a SKILL.md, else the file name."""
        *folders, file = self.state.skill.split("/")
        return folders[-1] if folders and file.lower() == "skill.md" else file

    @property
    def tested(self) -> Summary | None:
        """The ``summary``, unless scores from after it no longer compare with those in it."""
        ends = [place for place, one in enumerate(self.history) if one.kind == "finish"]
        return None if ends and ends[-1] < comparable_from(self.history) else self.summary

    @property
    def tested_skill(self) -> tuple[FinalSkill, DifferenceRecord | None] | None:
        """Of the ``tested`` skills the current one, else the best one, and its gain."""
        if (found := self.tested) is None:
            return None
        best, last = (found.best, found.best_gain), (found.last, found.last_gain)
        return last if self.state.current.sha256 == found.last.sha256 != found.best.sha256 else best

    @property
    def origin(self) -> HistoryEntry | None:
        """The event that measured base's skill, or the one that training started with."""
        last = max(comparable_from(self.history), self.base_events - 1)
        measured = (
            entry
            for entry in reversed(self.history[: last + 1])
            if entry.kind in ("start", "measure") or entry.stays
        )
        return next((entry for entry in measured if entry.score_after is not None), None)

    @property
    def first_score(self) -> float:
        return (self.origin and self.origin.score_after) or 0.0

    @property
    def rescaled(self) -> bool:
        return comparable_from(self.history) > max(self.base_events - 1, 0)

    @property
    def counts(self) -> dict[str, int]:
        steps = [entry for entry in self.history[self.base_events :] if entry.kind == "step"]
        merged = sum(entry.stays for entry in steps)
        empty = sum(entry.score_after is None for entry in steps)
        return {"merged": merged, "reverted": len(steps) - merged - empty, "empty": empty}

    @property
    def counts_text(self) -> str:
        counts = self.counts
        empty = f", {counts['empty']} without a candidate" if counts["empty"] else ""
        events = self.history[self.base_events :]
        gone = sum(one.kind == "step" and one.step in self.taken_back for one in events)
        taken = f" ({gone} taken back)" if gone else ""
        return f"{counts['merged']} merged{taken}, {counts['reverted']} reverted{empty}"

    @property
    def unscored(self) -> bool:
        """Whether a person took back a step or changed the skill, and it was not scored since."""
        return bool(self.skill) and sha256(self.skill) != self.state.current.sha256

    @property
    def improved(self) -> bool:
        """Whether a change beyond base scored higher and was not taken back."""
        events = self.history[self.base_events :]
        return (
            not self.unscored
            and (self.rescaled or self.state.current.measurement.score > self.first_score)
            and any(one.better and one.step not in self.taken_back for one in events)
        )

    @cached_property
    def taken_back(self) -> frozenset[int]:
        """The steps that people took back whole."""
        return frozenset(one.step for one in self.history if one.kind == "revert" and not one.edit)

    @property
    def confirmation(self) -> HistoryEntry | None:
        """The newest confirmation test of the current skill, unless it was changed since."""
        now = self.state.current.sha256
        tests = [one for one in self.history if (one.kind, one.skill_sha256) == ("confirm", now)]
        return tests[-1] if tests and not self.unscored else None

    @cached_property
    def provisional(self) -> tuple[HistoryEntry, ...]:
        """The changes merged since the last confirmation that have not been reverted."""
        if not self.state.provisional:
            return ()
        sure = [place for place, one in enumerate(self.history) if one.action == "confirmed"]
        since = self.history[sure[-1] + 1 if sure else 0 :]
        return tuple(one for one in since if one.stays and one.step not in self.taken_back)

    @property
    def refuted(self) -> bool:
        """Whether by fresh attempts the current skill is worse than the last confirmed one."""
        test = self.confirmation
        return self.state.provisional and test is not None and test.action == "refuted"

    @property
    def claim(self) -> str:
        """What fresh attempts say of this skill, and of the last confirmed one if it is another."""
        now, test = "", self.confirmation
        if self.refuted and test is not None:
            now = f"Refuted: {test.reason}"
        elif self.state.provisional:
            names = [say.event_name(one).lower() for one in self.provisional] or ["the skill"]
            more = f"; so far {test.reason}" if test and test.action == "open" else ""
            now = f"Provisional: fresh attempts have yet to confirm {names_text(names, 8)}{more}"
        sure = next((one for one in reversed(self.history) if one.action == "confirmed"), None)
        when = f" after step {sure.step}" if sure and (now or self.unscored) else ""
        since = self.history[comparable_from(self.history) :]
        old = "" if sure in since else ", before scoring changed"
        confirmed = f"Confirmed{when}{old}: {sure.reason}" if sure else ""
        return f"{now}. {confirmed}" if now and confirmed else now or confirmed

    def mark(self, entry: HistoryEntry) -> str:
        if entry.kind == "step" and entry.step in self.taken_back:
            return "taken back"
        if self.state.confirmed is None or not entry.stays:
            return ""
        if entry in self.provisional:
            return "refuted" if self.refuted else "provisional"
        later = self.history[self.history.index(entry) :]
        return "confirmed" if any(one.action == "confirmed" for one in later) else ""

    @property
    def newest(self) -> EventView | None:
        return self.views["step", self.steps[-1].step] if self.steps else None

    def place(self, number: int, kind: EventKind = "step") -> StepPlace:
        return self.places.get((kind, number), StepPlace())

    @cached_property
    def views(self) -> Mapping[tuple[str, int], EventView]:
        """The steps and epochs' ends that have evidence, by kind and number."""
        return {("step", one.step): event_view(one, self.place(one.step)) for one in self.steps} | {
            ("slow_update", one.epoch): event_view(one, self.place(one.epoch, "slow_update"))
            for one in self.epochs
        }

    def told(self, entry: HistoryEntry) -> EventView | None:
        number = entry.epoch if entry.kind == "slow_update" else entry.step
        return self.views.get((entry.kind, number))


def run_facts(run: RunView) -> Iterator[Fact]:
    state, first, since = run.state, run.origin, run.base_events
    current, best = state.current.measurement, state.best.measurement
    started = "–" if first is None else score_text(run.first_score, first.tasks)
    now = say.with_pessimistic(score_text(current.score, current.n), current)
    if (found := run.tested) is not None and run.tested_skill is not None:
        skill, _ = run.tested_skill
        if told := [score_text(one.hard, one.n) for one in (found.initial.test, skill.test) if one]:
            other = f"the skill of {skill.origin}, not this one; "
            which = "" if skill.sha256 == state.current.sha256 else other
            when = say.after_step(found.step) + (", from where training began" if since else "")
            used = f"training used {found.trained} of the tasks" if found.trained else ""
            after = f"{which}{when}, {used or 'tasks kept out of training'}"
            share = "share solved, " if found.metric != "hard" else ""
            yield Fact("test", f"{' → '.join(told)} ({share}{after})")
    yield Fact("selection", f"{started} → {now} ({state.current.origin})")
    if run.claim:
        yield Fact("fresh attempts", run.claim)
    yield from (Fact("caution", sentence) for sentence in say.reservations(current))
    if run.rescaled:
        yield Fact("caution", "scoring has changed: the selection scores are from after that")
    if run.unscored:
        yield Fact("caution", "the skill was changed since: `step` or `run` scores it again")
    elif current.score > PERFECT and not current.density:
        yield Fact("caution", "all measured selection tasks are solved: no edit can solve more")
    if best.score > current.score:
        yield Fact("best", f"{score_text(best.score, best.n)} ({state.best.origin})")
    yield Fact("steps not yet in base" if since else "steps", run.counts_text)
    yield Fact("last step", f"{state.step} (epoch {state.epoch})" if state.step else "none yet")
    yield Fact("used by the whole run" if since else "used", say.usage_text(state.usage))


# What a run has learned: the rules that were merged and are still in the skill.

#: Most characters shown of a rule.
_RULE = 200


@dataclass(frozen=True, slots=True)
class Lesson:
    """Rules that were merged together and stay; the first ones are those of ``edits``."""

    name: str
    rules: Sequence[str]
    edits: Sequence[EditRecord]
    entry: HistoryEntry
    view: EventView

    @property
    def decision(self) -> Decision | None:
        decision = self.view.record.decision
        return decision and (decision.notes if self.entry.kind == "notes" else decision)

    @property
    def gain(self) -> float:
        return (self.entry.score_after or 0.0) - (self.entry.score_before or 0.0)

    @property
    def text(self) -> str:
        """``**+0.225 ± 0.135 (95 %)** on 40 tasks``, and whether that is within noise."""
        gate, tasks = self.decision and self.decision.gate, self.entry.tasks
        error = gate.standard_error if gate else None
        noise = ", within noise" if gate and gate.within_noise else ""  # as the verdict says
        return f"**{difference_text(self.gain, error, tasks)}** on {plural(tasks, 'task')}{noise}"


def lessons(run: RunView) -> list[Lesson]:
    """What the branch has learned beyond base, largest gain first."""
    events = run.history[run.base_events :]
    taken = {(entry.step, entry.edit) for entry in events if entry.kind == "revert"}
    later = set[str]()  # a person removed a rule, and a later step learned it again
    found = [_lesson(run, entry, taken, later) for entry in reversed(events) if entry.stays]
    return sorted(filter(None, reversed(found)), key=lambda one: -one.gain)


def _lesson(
    run: RunView, entry: HistoryEntry, taken: Collection[tuple[int, int]], later: set[str]
) -> Lesson | None:
    """The rules of ``entry`` that stay; adds its edits to those of ``later`` entries."""
    notes = entry.kind == "notes"
    view = run.views.get(("step", entry.step)) if notes else run.told(entry)
    if view is None or (not notes and (entry.step, 0) in taken):
        return None
    record, edits, name = view.record, list[EditRecord](), view.name.lower()
    if isinstance(record, BoundaryRecord):
        guidance = "" if record.slow_update is None else record.slow_update.content
        rules = [say.quoted(line, _RULE) for line in guidance.splitlines()]
    elif notes:
        rules = [say.notes_gist(record.proposal, _RULE)]
    else:
        reverted = {edit - 1 for step, edit in taken if step == entry.step}
        gone = reverted.union(_replaced(record.proposal, run.skill, later))
        edits = [one for n, one in enumerate(record.proposal.applied_edits) if n not in gone]
        later.update(collapsed(edit.content) for edit in edits)
        rules = [rule for n, rule in enumerate(say.rules(record.proposal, _RULE)) if n not in gone]
        name += ", a rule of it taken back" if reverted else ""
    shown = [rule for rule in rules if visible(rule).strip()]
    return Lesson(name, shown, edits, entry, view) if shown else None


def _replaced(proposal: ProposalRecord, skill: str, later: Collection[str]) -> Iterator[int]:
    """Which applied edits, from 0, people or ``later`` steps have undone or made anew."""
    text = collapsed(skill)
    for number, edit in enumerate(proposal.applied_edits):
        if skill and edit.op != "delete":
            lines = [collapsed(line) for line in edit.content.splitlines() if line.strip()]
            if collapsed(edit.content) in later or not any(line in text for line in lines):
                yield number
