"""Reflect: analysts read minibatches of trajectories and propose edits of the skill."""

import hashlib
import json
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

from skillopt_ci.aio import Begun
from skillopt_ci.config.config import Gradient
from skillopt_ci.environments import api
from skillopt_ci.messages import Message, fenced
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, RequestTooLarge
from skillopt_ci.progress import Note, StageAdvanced, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.rollout.environment import Environment, Reflecting
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.edits import Source
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import collapsed, plural
from skillopt_ci.training import replies
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.replies import Item, Patch, Reflection, WireError, parse_analyst
from skillopt_ci.training.update import UpdateMode


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    source_type: Source
    rollouts: tuple[Rollout, ...]
    name: str
    sample: int = 0
    """Which of its analysts' answers it is for, from 0."""


class Dealer:
    """Deals measured trajectories into minibatches of failures and successes as they arrive.

    Errors and attempts without a conversation are skipped. A minibatch is complete when it is full
    or when the next trajectory would make it too long.
    """

    def __init__(self, gradient: Gradient) -> None:
        self._gradient = gradient
        self._open: dict[Source, list[Rollout]] = {"failure": [], "success": []}
        self._room = dict.fromkeys(self._open, gradient.max_minibatch_chars)
        self._count: Counter[Source] = Counter()

    def deal(self, rollout: Rollout) -> Iterator[Minibatch]:
        source: Source = "failure" if rollout.failed else "success"
        unread = source == "success" and (not rollout.succeeded or self._gradient.failure_only)
        if unread or not rollout.messages:
            return
        # its approximate length in a prompt, which shows the system prompt only once
        said = sum(len(one.content) for one in rollout.messages if one.role != "system")
        size = min(said + len(rollout.trace), self._gradient.max_trajectory_chars)
        if size > self._room[source]:
            yield from self._closed(source)
        self._open[source].append(rollout)
        self._room[source] -= size
        if len(self._open[source]) == self._gradient.minibatch_size:
            yield from self._closed(source)

    def rest(self) -> Iterator[Minibatch]:
        for source in self._open:
            yield from self._closed(source)

    def _closed(self, source: Source) -> Iterator[Minibatch]:
        self._room[source] = self._gradient.max_minibatch_chars
        if self._open[source]:
            self._count[source] += 1
            name, analysts = f"{source} minibatch {self._count[source]}", self._gradient.analysts
            for sample in range(analysts):
                of = f", analyst {sample + 1} of {analysts}" if analysts > 1 else ""
                yield Minibatch(source, tuple(self._open[source]), name + of, sample)
            self._open[source] = []


def minibatches(rollouts: Iterable[Rollout], gradient: Gradient) -> list[Minibatch]:
    dealer = Dealer(gradient)
    work = [complete for rollout in rollouts for complete in dealer.deal(rollout)]
    return sorted((*work, *dealer.rest()), key=lambda one: one.source_type)


# Trajectories as text for analysts: everything untrusted is fenced as data.

#: Replaces the skill in the target's system prompt.
SKILL_REFERENCE = "[current skill as above]"


def render_trajectories(
    rollouts: Sequence[Rollout],
    tasks: Mapping[str, Task],
    skill: str,
    max_chars: int,
    *,
    traces: bool = False,
) -> str:
    """Render each of ``rollouts`` as a numbered block; ``tasks`` must be training tasks.

    ``skill`` is replaced by a reference to it. A long trajectory loses its middle.
    """
    blocks = []
    for number, rollout in enumerate(rollouts, start=1):
        task = tasks[rollout.task_id]
        facts = list[str]()
        if rollout.task_type:
            facts.append(f"Task type: {collapsed(rollout.task_type)}")
        if rollout.failed and rollout.reason:
            facts.append(f"Failure reason: {keep_ends([collapsed(rollout.reason)], max_chars)[0]}")
        facts.append(f"Steps: {rollout.n_turns}")
        if rollout.limit is not None:
            facts.append(
                f"Cut off by the limit of {rollout.limit}; what there was by then is graded"
            )
        if rollout.progress:
            scores = ", ".join(f"{score.soft:.2f}" for score in rollout.progress)
            facts.append(f"Score after each tool use: {scores}")
        heading = f"### Trajectory {number} (id={collapsed(rollout.task_id)})"
        parts = [heading, fenced("\n".join(facts))]
        answers = "\n".join("- " + one.replace("\n", "\n  ") for one in task.references)
        if hidden := list(filter(None, keep_ends([answers, task.reference_text], max_chars))):
            parts += ["#### Hidden Reference", *map(fenced, hidden)]
        if traces and rollout.trace:
            parts += ["#### Trace", fenced(keep_ends([rollout.trace], max_chars)[0])]
        entries = conversation_entries(rollout.messages, skill, SKILL_REFERENCE, max_chars)
        blocks.append("\n\n".join([*parts, "#### Conversation", *map(fenced, entries)]))
    return "\n\n---\n\n".join(blocks)


def keep_ends(texts: Sequence[str], limit: int) -> list[str]:
    """Cut the middle out of ``texts``, taken as one text, and note there how much is missing."""
    total = sum(map(len, texts))
    if total <= limit:
        return list(texts)
    head, tail = limit - limit // 2, total - limit // 2
    note = f"[… {tail - head} characters left out …]"
    kept, start = [], 0
    for text in texts:
        until, since = max(0, head - start), max(0, tail - start)
        cut_here = start <= head < start + len(text)
        kept.append(text[:until] + (note if cut_here else "") + text[since:])
        start += len(text)
    return kept


def conversation_entries(
    messages: Sequence[Message], skill: str, reference: str, max_chars: int
) -> Iterable[str]:
    """The messages as ``[role] content``, each to be fenced separately.

    ``reference`` replaces ``skill`` in system prompts; ``max_chars`` are kept, from both ends.
    """
    document, texts = as_read(skill).strip(), list[str]()
    for message in messages:
        text = message.content
        if message.role == "system" and len(document) > len(reference):
            text = text.replace(document, reference)
        for image in message.images:
            digest = hashlib.sha256(b64decode(image.data)).hexdigest()
            text += f"\n[a picture, {image.media_type}, sha256 {digest[:12]}]"
        calls = [f"→ {collapsed(call.name)} {call.arguments}" for call in message.tool_calls]
        texts.append("\n".join(filter(None, (text, *calls))) if calls else text)
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    for message, text, kept in zip(messages, texts, keep_ends(texts, max_chars), strict=True):
        tool = tools.get(message.tool_call_id) if message.role == "tool" else None
        if kept or not text:
            who = f"{message.role} {collapsed(tool)}" if tool else message.role
            yield f"[{who}] {kept}"


_PROMPT: Mapping[Source, str] = {"failure": "analyst_error", "success": "analyst_success"}
_HEADING: Mapping[Source, str] = {"failure": "Failed", "success": "Successful"}


@dataclass(frozen=True, slots=True)
class Analysts(Generic[Item]):
    """The analysts of a batch and their common context.

    Each proposes at most ``learning_rate`` edits (None: any number; 0: no analyst is asked).
    Minibatches of the kinds in ``notes_from`` also yield reminders for the appendix.
    """

    mode: UpdateMode[Item]
    chat: OptimizerChat
    tasks: Mapping[str, Task]
    skill: str
    gradient: Gradient
    learning_rate: int | None
    notes_from: Collection[Source] = ()

    async def reflect(
        self, rollouts: AsyncIterable[Rollout]
    ) -> tuple[Reflection[Item] | Lost, ...]:
        """Let analysts read ``rollouts``; return results in minibatch order, failures first.

        A minibatch is read once it is complete, and in halves if its prompt is refused. After the
        first rollout that could not be measured, reading waits for all, since too many of those
        stop the step. Raises ModelUnavailable if no minibatch could reach the model.
        """
        async with Begun(self._read) as reading:
            dealer, seen, work = Dealer(self.gradient), list[Rollout](), list[Minibatch]()

            def begin(total: int = 0) -> None:
                if not reading.tasks:
                    self.chat.observer(StageStarted("reflect", total))
                for minibatch in work:
                    reading.begin(minibatch)

            read_now = self.learning_rate != 0
            async for rollout in rollouts:
                seen.append(rollout)
                read_now = read_now and rollout.status.measured
                work += dealer.deal(rollout)
                if work and read_now:
                    begin()
            work += dealer.rest()
            if not work and self.chat.reviewer_guidance:
                # reviewers' requests get an analyst even if there is nothing else to learn
                both = self.gradient.model_copy(update={"failure_only": False})
                work = minibatches(seen, both)[:1]
            work = [] if self.learning_rate == 0 else work
            begin(len(work))
            work.sort(key=lambda one: one.source_type)
            results = [one for minibatch in work for one in await reading.result(minibatch)]
        lost = [one.error for one in results if isinstance(one, Lost)]
        unreachable = [error for error in lost if isinstance(error, ModelUnavailable)]
        if unreachable and len(unreachable) == len(results):
            raise unreachable[0]
        return tuple(results)

    async def _read(self, minibatch: Minibatch) -> list[Reflection[Item] | Lost]:
        source, mode, chat, gradient = minibatch.source_type, self.mode, self.chat, self.gradient
        rollouts, notes = minibatch.rollouts, source in self.notes_from
        user = library.joined(
            # The part that all minibatches share comes first, so that servers can cache it.
            library.current_skill(self.skill),
            mode.assignment(self.learning_rate),
            library.previous_steps(chat.step_buffer),
            library.meta_skill(chat.meta_skill),
            chat.reviewer_guidance,
            library.section(
                f"{_HEADING[source]} Trajectories ({len(rollouts)} total)",
                render_trajectories(
                    rollouts,
                    self.tasks,
                    self.skill,
                    gradient.max_trajectory_chars,
                    traces=gradient.trace_to_optimizer,
                ),
            ),
        )
        reply = await chat.ask(
            minibatch.name,
            user,
            partial(parse_analyst, mode.payload, source=source, shown=len(rollouts), notes=notes),
            replies.analyst(mode.payload, source, notes=notes, wishes=bool(chat.reviewer_guidance)),
            prompt=_PROMPT[source] + mode.prompt_suffix,
            supplement=f"{_PROMPT[source]}_skill_aware" if notes else "",
            stage="analyst",
            tokens=mode.reply_tokens,
            sample=minibatch.sample,
        )
        told, half = "no answer", len(rollouts) // 2
        error = reply.error if isinstance(reply, Lost) else None
        if half and isinstance(error, ModelRefusal | RequestTooLarge):
            # the prompt is too long, or a filter objects to one trajectory
            return [
                one
                for part in (rollouts[:half], rollouts[half:])
                for one in await self._read(replace(minibatch, rollouts=part))
            ]
        if isinstance(reply, Reflection):
            reply = self._attributed(reply, minibatch.rollouts)
            if minibatch.sample:  # the first one described the same failures
                reply = replace(reply, failure_patterns=(), notes=())
            noted = f", {plural(len(reply.notes), 'note')}" if reply.notes else ""
            told = f"{len(reply.patch.edits)} {mode.noun}s{noted}"
        chat.observer(StageAdvanced("reflect", f"{minibatch.name}: {told}"))
        return [reply]

    def _attributed(self, reply: Reflection[Item], shown: Sequence[Rollout]) -> Reflection[Item]:
        # we know better than the reply what was shown, and how many edits are allowed
        ids = tuple(rollout.task_id for rollout in shown)
        patterns = (one.model_copy(update={"task_ids": ids}) for one in reply.failure_patterns)
        edits = (replace(one, source_type=reply.source_type) for one in reply.patch.edits)
        patch = Patch(tuple(edits)[: self.learning_rate], reply.patch.reasoning)
        return replace(reply, patch=patch, failure_patterns=tuple(patterns))

    async def reflect_there(
        self, environment: Environment, rollouts: Sequence[Rollout], seed: int
    ) -> tuple[Reflection[Item] | Lost, ...]:
        """Let ``environment`` reflect. Drops unusable patches with a note; raises outages."""
        chat = self.chat
        shown = [one for one in rollouts if one.messages and (one.failed or one.succeeded)]
        if not shown or self.learning_rate == 0:
            return ()
        chat.observer(StageStarted("reflect", 1))
        asked = Reflecting(
            rollouts=tuple(shown),
            skill=self.skill,
            update_mode=self.mode.name,
            budget=self.learning_rate,
            gradient=self.gradient,
            seed=seed,
            step_buffer=library.joined(chat.step_buffer, chat.reviewer_guidance),
            meta_skill=chat.meta_skill,
            notes_from=self.notes_from,
        )
        patches = await api.reflect(environment, asked, chat.client)
        proposals = f"{plural(len(patches), 'proposal')} of the environment"
        chat.observer(StageAdvanced("reflect", proposals))
        found = list[Reflection[Item] | Lost]()
        for number, patch in enumerate(patches, start=1):
            try:
                found.append(self._proposed_there(patch, shown))
            except WireError as error:
                told = f"patch {number} of the environment cannot be used. {error.message}"
                chat.observer(Note(told, level="warning"))
                found.append(Lost(error, json.dumps(patch, ensure_ascii=False)))
        return tuple(found)

    def _proposed_there(
        self, patch: Mapping[str, object], shown: Sequence[Rollout]
    ) -> Reflection[Item]:
        """Read a patch; it may use any rollout of its kind and states how many it used."""
        source: Source = "success" if patch.get("source_type") == "success" else "failure"
        seen = [one for one in shown if one.succeeded == (source == "success")]
        stated = replies.whole_number(patch.get("batch_size")) or len(seen)
        size, notes = max(1, min(stated, len(seen))), source in self.notes_from
        reply = parse_analyst(self.mode.payload, json.dumps(patch), source, size, notes=notes)
        return self._attributed(reply, seen)
