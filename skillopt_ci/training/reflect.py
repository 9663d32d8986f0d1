"""Reflect: analysts read minibatches of trajectories and propose edits of the skill."""

from collections import Counter
from collections.abc import AsyncIterable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from skillopt_ci.concurrency import Begun, begun
from skillopt_ci.model.client import ChatClient, ModelUnavailable
from skillopt_ci.progress import Observer, StageAdvanced, StageStarted
from skillopt_ci.prompts import sections
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.report.figures import plural
from skillopt_ci.rollout.outcome import Rollout
from skillopt_ci.settings.config import Gradient
from skillopt_ci.skill.edit import Source
from skillopt_ci.tasks.task import Task
from skillopt_ci.training import reply_schema
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.modes.mode import UpdateMode
from skillopt_ci.training.patch import Item, Patch, Reflection
from skillopt_ci.training.trajectory import render_trajectories
from skillopt_ci.training.wire import AnalystReply, parse_analyst

_PROMPT: Mapping[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}
_HEADING: Mapping[Source, str] = {"failure": "Failed", "success": "Successful"}


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """Trajectories of one kind that one analyst reads; ``name`` is for people."""

    source_type: Source
    rollouts: tuple[Rollout, ...]
    name: str


async def reflect(
    rollouts: AsyncIterable[Rollout],
    tasks_by_id: Mapping[str, Task],
    skill: str,
    *,
    mode: UpdateMode[Item],
    gradient: Gradient,
    learning_rate: int | None,
    prompts: Prompts,
    client: ChatClient,
    observer: Observer,
    step_buffer: str = "",
    meta_skill: str = "",
    guidance: str = "",
    notes_from: Collection[Source] = (),
) -> tuple[Reflection[Item], ...]:
    """Let analysts read ``rollouts``; their reflections are in minibatch order, failures first.

    A minibatch is read as soon as its last rollout came, while others are still awaited. Once one
    could not be measured, the rest waits for the end, which may be that there are too many errors.

    Each proposes at most ``learning_rate`` edits (None: as many as it likes); with 0 nobody is
    asked. What an edit is, the update ``mode`` says. ``step_buffer``,
    ``meta_skill`` and ``guidance`` (a whole section, for which an analyst is asked even without a
    failure) are texts for the prompt, left out when empty. Of the minibatches ``notes_from``
    reminders for the appendix are asked for too. A minibatch without a usable
    answer is missing from the result. Raises
    :class:`~skillopt_ci.model.client.ModelUnavailable` when the model could be reached for none of
    them: that says nothing about the skill.
    """
    stable = sections.joined(
        sections.current_skill(skill),
        mode.assignment(learning_rate),
        sections.previous_steps(step_buffer),
        sections.meta_skill(meta_skill),
        guidance,
    )
    analysts = _Analysts(
        mode,
        client,
        prompts,
        observer,
        stable,
        skill,
        tasks_by_id,
        gradient.max_trajectory_chars,
        gradient.trace_to_optimizer,
        learning_rate,
        notes_from,
        bool(guidance),
    )
    async with begun(analysts.read) as reading:
        work = await _begin(rollouts, gradient, reading, learning_rate != 0, guidance, observer)
        results = [await reading.result(minibatch) for minibatch in work]
    _refuse_unreachable(results)
    return tuple(result for result in results if isinstance(result, Reflection))


async def _begin(
    rollouts: AsyncIterable[Rollout],
    gradient: Gradient,
    reading: Begun[Minibatch, Reflection[Item] | Lost],
    asks: bool,
    guidance: str,
    observer: Observer,
) -> list[Minibatch]:
    """Have each minibatch read when it is complete; return all of them, failures first."""
    dealer, seen, work, sound = Dealer(gradient), list[Rollout](), list[Minibatch](), asks
    async for rollout in rollouts:
        seen.append(rollout)
        sound = sound and rollout.status.measured
        work += dealer.deal(rollout)
        if work and sound and not reading.any:
            observer(StageStarted("reflect"))
        for minibatch in work if sound else ():
            reading.begin(minibatch)
    work += dealer.rest()
    if not work and guidance:
        # what reviewers ask for is worked on even where there is nothing else to learn
        work = minibatches(seen, gradient.model_copy(update={"failure_only": False}))[:1]
    work = work if asks else []
    if not reading.any:
        observer(StageStarted("reflect", len(work)))
    for minibatch in work:
        reading.begin(minibatch)
    return sorted(work, key=lambda one: one.source_type)


class Dealer:
    """Deals measured trajectories to minibatches of failures and of successes, as they come.

    Attempts that ended in an error, or of which there is no conversation, belong to neither. A
    minibatch is complete when it is full, or when the next trajectory would make it too long.
    """

    def __init__(self, gradient: Gradient) -> None:
        self._gradient = gradient
        self._open: dict[Source, list[Rollout]] = {"failure": [], "success": []}
        self._room = dict.fromkeys(self._open, gradient.max_minibatch_chars)
        self._count: Counter[Source] = Counter()

    def deal(self, rollout: Rollout) -> Iterator[Minibatch]:
        """Take a trajectory; yield the minibatches that are complete by it."""
        source = self._source(rollout)
        if source is None:
            return
        size = _shown_chars(rollout, self._gradient)
        if size > self._room[source]:
            yield from self._closed(source)
        self._open[source].append(rollout)
        self._room[source] -= size
        if len(self._open[source]) == self._gradient.minibatch_size:
            yield from self._closed(source)

    def rest(self) -> Iterator[Minibatch]:
        """Yield what is left, when no more trajectories come."""
        for source in self._open:
            yield from self._closed(source)

    def _source(self, rollout: Rollout) -> Source | None:
        if not rollout.messages:
            return None
        if rollout.failed:
            return "failure"
        return "success" if rollout.succeeded and not self._gradient.failure_only else None

    def _closed(self, source: Source) -> Iterator[Minibatch]:
        self._room[source] = self._gradient.max_minibatch_chars
        if self._open[source]:
            self._count[source] += 1
            name = f"{source} minibatch {self._count[source]}"
            yield Minibatch(source, tuple(self._open[source]), name)
            self._open[source] = []


def minibatches(rollouts: Iterable[Rollout], gradient: Gradient) -> list[Minibatch]:
    """The minibatches of ``rollouts``, failures first."""
    dealer = Dealer(gradient)
    work = [complete for rollout in rollouts for complete in dealer.deal(rollout)]
    return sorted((*work, *dealer.rest()), key=lambda one: one.source_type)


def _shown_chars(rollout: Rollout, gradient: Gradient) -> int:
    """About how much of a prompt a trajectory takes up; the system prompt is shown only once."""
    said = sum(len(one.content) for one in rollout.messages if one.role != "system")
    return min(said + len(rollout.trace), gradient.max_trajectory_chars)


@dataclass(frozen=True, slots=True)
class _Analysts(Generic[Item]):
    """What every analyst call has in common; ``stable`` opens each user message."""

    mode: UpdateMode[Item]
    client: ChatClient
    prompts: Prompts
    observer: Observer
    stable: str
    skill: str
    tasks: Mapping[str, Task]
    max_chars: int
    traces: bool
    budget: int | None
    notes_from: Collection[Source]
    wishes: bool

    async def read(self, minibatch: Minibatch) -> Reflection[Item] | Lost:
        source, size = minibatch.source_type, len(minibatch.rollouts)
        user = sections.joined(self.stable, self._trajectories(minibatch))
        prompt, tokens = _PROMPT[source] + self.mode.prompt_suffix, self.mode.reply_tokens
        notes = source in self.notes_from
        supplement = f"{_PROMPT[source]}_skill_aware" if notes else ""
        key = self.mode.payload.key
        schema = reply_schema.analyst(key, source, notes=notes, wishes=self.wishes)
        reply = await ask(
            self.client,
            optimizer_request(self.prompts, prompt, "analyst", user, tokens, supplement, schema),
            lambda text: parse_analyst(self.mode.payload, text, source, size, notes=notes),
            what=minibatch.name,
            observer=self.observer,
        )
        result = reply if isinstance(reply, Lost) else reflection_of(reply, minibatch, self.budget)
        self.observer(StageAdvanced("reflect", _told(minibatch, result, self.mode.noun)))
        return result

    def _trajectories(self, minibatch: Minibatch) -> str:
        rollouts = minibatch.rollouts
        return sections.section(
            f"{_HEADING[minibatch.source_type]} Trajectories ({len(rollouts)} total)",
            render_trajectories(
                rollouts, self.tasks, self.skill, self.max_chars, traces=self.traces
            ),
        )


def reflection_of(
    reply: AnalystReply[Item], minibatch: Minibatch, budget: int | None
) -> Reflection[Item]:
    """Return the reflection; the source and the tasks are those that we know, not those told."""
    ids = tuple(rollout.task_id for rollout in minibatch.rollouts)
    source = minibatch.source_type
    edits = tuple(replace(edit, source_type=source) for edit in reply.patch.edits[:budget])
    return Reflection(
        source_type=source,
        patch=Patch(edits, reply.patch.reasoning),
        task_ids=ids,
        batch_size=len(ids),
        failure_patterns=tuple(replace(found, task_ids=ids) for found in reply.failure_patterns),
        success_patterns=reply.success_patterns,
        notes=reply.notes,
    )


def _told(minibatch: Minibatch, result: Reflection[Item] | Lost, noun: str) -> str:
    if isinstance(result, Lost):
        return f"{minibatch.name}: no answer"
    notes = f", {plural(len(result.notes), 'note')}" if result.notes else ""
    return f"{minibatch.name}: {len(result.patch.edits)} {noun}s{notes}"


def _refuse_unreachable(results: Sequence[Reflection[Item] | Lost]) -> None:
    errors = [result.error for result in results if isinstance(result, Lost)]
    unreachable = [error for error in errors if isinstance(error, ModelUnavailable)]
    if unreachable and len(unreachable) == len(results):
        raise unreachable[0]
