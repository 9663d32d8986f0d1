"""Reflect: analysts read minibatches of trajectories and propose edits of the skill."""

from collections.abc import AsyncIterable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from skillopt_ci.aio import Begun, begun
from skillopt_ci.config.config import Gradient
from skillopt_ci.model.types import ModelUnavailable
from skillopt_ci.progress import StageAdvanced, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.edits import Source
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task
from skillopt_ci.training import reply_schema
from skillopt_ci.training.ask import Lost, ask, optimizer_request
from skillopt_ci.training.minibatch import Dealer, Minibatch, minibatches
from skillopt_ci.training.modes.mode import Desk, UpdateMode
from skillopt_ci.training.patch import Item, Patch, Reflection
from skillopt_ci.training.trajectory import FORMER_REFERENCE, SKILL_REFERENCE, render_trajectories
from skillopt_ci.training.wire import AnalystReply, parse_analyst

_PROMPT: Mapping[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}
_HEADING: Mapping[Source, str] = {"failure": "Failed", "success": "Successful"}


async def reflect(
    rollouts: AsyncIterable[Rollout],
    tasks_by_id: Mapping[str, Task],
    skill: str,
    *,
    former: str | None = None,
    mode: UpdateMode[Item],
    gradient: Gradient,
    learning_rate: int | None,
    desk: Desk,
    notes_from: Collection[Source] = (),
) -> tuple[Reflection[Item], ...]:
    """Let analysts read ``rollouts``; their reflections are in minibatch order, failures first.

    These were made under ``skill``, or under a ``former`` one: then analysts are told what was
    changed since.

    A minibatch is read as soon as its last rollout came, while others are still awaited. Once one
    could not be measured, the rest waits for the end, which may be that there are too many errors.

    Each proposes at most ``learning_rate`` edits (None: as many as it likes); with 0 nobody is
    asked. What an edit is, the update ``mode`` says. For the guidance of the ``desk`` an analyst is
    asked even without a failure. Of the minibatches ``notes_from`` reminders for the appendix are
    asked for too. A minibatch without a usable answer is missing from the result. Raises
    :class:`~skillopt_ci.model.types.ModelUnavailable` when the model could be reached for none of
    them: that says nothing about the skill.
    """
    before = as_read(skill if former is None else former)
    analysts = _Analysts(
        mode, desk, tasks_by_id, skill, before, gradient, learning_rate, notes_from
    )
    async with begun(analysts.read) as reading:
        work = await _begin(rollouts, gradient, reading, learning_rate != 0, desk)
        results = [await reading.result(minibatch) for minibatch in work]
    _refuse_unreachable(results)
    return tuple(result for result in results if isinstance(result, Reflection))


async def _begin(
    rollouts: AsyncIterable[Rollout],
    gradient: Gradient,
    reading: Begun[Minibatch, Reflection[Item] | Lost],
    asks: bool,
    desk: Desk,
) -> list[Minibatch]:
    """Have each minibatch read when it is complete; return all of them, failures first."""
    dealer, seen, work, sound = Dealer(gradient), list[Rollout](), list[Minibatch](), asks
    async for rollout in rollouts:
        seen.append(rollout)
        sound = sound and rollout.status.measured
        work += dealer.deal(rollout)
        if work and sound and not reading.any:
            desk.observer(StageStarted("reflect"))
        for minibatch in work if sound else ():
            reading.begin(minibatch)
    work += dealer.rest()
    if not work and desk.guidance:
        # what reviewers ask for is worked on even where there is nothing else to learn
        work = minibatches(seen, gradient.model_copy(update={"failure_only": False}))[:1]
    work = work if asks else []
    if not reading.any:
        desk.observer(StageStarted("reflect", len(work)))
    for minibatch in work:
        reading.begin(minibatch)
    return sorted(work, key=lambda one: one.source_type)


@dataclass(frozen=True, slots=True)
class _Analysts(Generic[Item]):
    """What every analyst call has in common."""

    mode: UpdateMode[Item]
    desk: Desk
    tasks: Mapping[str, Task]
    skill: str
    former: str
    gradient: Gradient
    budget: int | None
    notes_from: Collection[Source]

    async def read(self, minibatch: Minibatch) -> Reflection[Item] | Lost:
        source, size, desk = minibatch.source_type, len(minibatch.rollouts), self.desk
        user = library.joined(self._opening(), self._trajectories(minibatch))
        prompt, tokens = _PROMPT[source] + self.mode.prompt_suffix, self.mode.reply_tokens
        notes = source in self.notes_from
        supplement = f"{_PROMPT[source]}_skill_aware" if notes else ""
        key = self.mode.payload.key
        schema = reply_schema.analyst(key, source, notes=notes, wishes=bool(desk.guidance))
        reply = await ask(
            desk.client,
            optimizer_request(desk.prompts, prompt, "analyst", user, tokens, supplement, schema),
            lambda text: parse_analyst(self.mode.payload, text, source, size, notes=notes),
            what=minibatch.name,
            observer=desk.observer,
        )
        result = reply if isinstance(reply, Lost) else reflection_of(reply, minibatch, self.budget)
        desk.observer(StageAdvanced("reflect", _told(minibatch, result, self.mode.noun)))
        return result

    def _opening(self) -> str:
        """The same for every minibatch, and first: so a server's cache of prompts can know it."""
        return library.joined(
            library.current_skill(self.skill),
            self.mode.assignment(self.budget),
            library.previous_steps(self.desk.step_buffer),
            library.meta_skill(self.desk.meta_skill),
            library.last_change(unified_diff(self.former, as_read(self.skill))),
            self.desk.guidance,
        )

    def _trajectories(self, minibatch: Minibatch) -> str:
        rollouts, gradient = minibatch.rollouts, self.gradient
        return library.section(
            f"{_HEADING[minibatch.source_type]} Trajectories ({len(rollouts)} total)",
            render_trajectories(
                rollouts,
                self.tasks,
                {self.former: FORMER_REFERENCE, as_read(self.skill): SKILL_REFERENCE},
                gradient.max_trajectory_chars,
                traces=gradient.trace_to_optimizer,
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
