"""Slow update and meta skill at an epoch's end (SkillOpt, reference 1.11 and 1.12).

Unlike SkillOpt's, guidance must pass the gate too.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from statistics import fmean
from typing import Literal

from pydantic import Field

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import Gradient
from skillopt_ci.ledger.evidence import by_stage_as_recorded
from skillopt_ci.ledger.records import BoundaryRecord, MetaSkillRecord, PairRecord, SlowUpdateRecord
from skillopt_ci.messages import fenced
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, RequestTooLarge, Usage
from skillopt_ci.progress import Note, Observer, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.edits import clean
from skillopt_ci.skill.regions import SLOW_UPDATE, region_text, strip_markers, with_region
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import collapsed, plural
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.guard import GuardContext, guard_context
from skillopt_ci.training.measure import Scores, round_of
from skillopt_ci.training.memory import meta_skill, step_buffer
from skillopt_ci.training.plan import EPOCH_STRIDE, shuffled
from skillopt_ci.training.reflect import conversation_entries, keep_ends
from skillopt_ci.training.replies import WRITTEN, Shape, parse_as
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import ScoredCheckout
from skillopt_ci.util import grouped

Policy = Literal["mixed", "changed", "unchanged"]

#: Rolls out tasks under both skills; returns the earlier skill's rollouts and the later one's.
RollOutBoth = Callable[[Sequence[Task]], Awaitable[tuple[Sequence[Rollout], Sequence[Rollout]]]]


class Category(StrEnum):
    REGRESSED = "regressed"
    PERSISTENT_FAIL = "persistent_fail"
    IMPROVED = "improved"
    STABLE_SUCCESS = "stable_success"


@dataclass(frozen=True, slots=True)
class Side:
    """The measured attempts (at least one) at a task under one skill."""

    attempts: tuple[Rollout, ...]

    @property
    def solved(self) -> Fraction:
        return Fraction(sum(one.succeeded for one in self.attempts), len(self.attempts))

    @property
    def hard(self) -> float:
        return fmean(one.hard for one in self.attempts)

    @property
    def soft(self) -> float:
        return fmean(one.soft for one in self.attempts)

    @property
    def telling(self) -> Rollout:
        return next((one for one in self.attempts if one.failed), self.attempts[0])


@dataclass(frozen=True, slots=True)
class Pair:
    task: Task
    previous: Side
    current: Side

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def category(self) -> Category:
        before, after = self.previous.solved, self.current.solved
        if before != after:
            return Category.IMPROVED if after > before else Category.REGRESSED
        return Category.STABLE_SUCCESS if 2 * after >= 1 else Category.PERSISTENT_FAIL


def pair_up(
    tasks: Sequence[Task], before: Iterable[Rollout], after: Iterable[Rollout]
) -> tuple[Pair, ...]:
    """Pair the results by task, in task order; skip tasks not measured on both sides."""
    earlier, later = _measured(before), _measured(after)
    return tuple(
        Pair(task, earlier[task.id], later[task.id])
        for task in tasks
        if task.id in earlier and task.id in later
    )


async def sample_pairs(
    train: Sequence[Task], size: int, seed: int, policy: Policy, roll_out: RollOutBoth
) -> tuple[Pair, ...]:
    """Compare the skills on ``size`` training tasks from a shuffle with ``seed``.

    ``changed`` keeps tasks whose outcome changed and continues through the shuffle, ``size`` tasks
    at a time, until it has ``size``. ``unchanged`` keeps the others, ``mixed`` all.
    """
    order = shuffled(train, seed)
    wanted = {"mixed": (True, False), "changed": (True,), "unchanged": (False,)}[policy]
    found: list[Pair] = []
    for start in range(0, len(order), size):
        drawn = order[start : start + size]
        pairs = pair_up(drawn, *await roll_out(drawn))
        found += [pair for pair in pairs if (pair.previous.solved != pair.current.solved) in wanted]
        if policy != "changed" or len(found) >= size:
            break
    return tuple(found[:size])


def _measured(rollouts: Iterable[Rollout]) -> Mapping[str, Side]:
    attempts = grouped((one.task_id, one) for one in rollouts if one.status.measured)
    return {task: Side(tuple(made)) for task, made in attempts.items()}


# Comparison pairs as text for the optimizer: regressions first, everything untrusted fenced.

_TITLES: Mapping[Category, str] = {
    Category.REGRESSED: "Regressions (HIGHEST PRIORITY)",
    Category.PERSISTENT_FAIL: "Persistent failures",
    Category.IMPROVED: "Improvements",
    Category.STABLE_SUCCESS: "Stable successes",
}


def render_pairs(
    pairs: Sequence[Pair], earlier_skill: str, current_skill: str, gradient: Gradient
) -> str:
    groups = {kind: [pair for pair in pairs if pair.category is kind] for kind in _TITLES}
    counts = ", ".join(f"{len(group)} {kind}" for kind, group in groups.items()).replace("_", " ")
    parts = [f"{plural(len(pairs), 'task')}: {counts}."]
    for category, group in groups.items():
        if group:
            blocks = (_block(pair, (earlier_skill, current_skill), gradient) for pair in group)
            parts += [f"### {_TITLES[category]}: {len(group)}", *blocks]
    return library.section("Comparison", *parts)


def _block(pair: Pair, skills: tuple[str, str], gradient: Gradient) -> str:
    limit = gradient.max_trajectory_chars
    sides = (("previous", pair.previous), ("current", pair.current))
    facts = list[str]()
    for name, side in sides:
        shown, solved, made = side.telling, side.solved, len(side.attempts)
        verdict = "PASS" if solved else "FAIL"
        share = f" in {solved * made} of {made} attempts" if 0 < solved < 1 else ""
        answer = keep_ends([collapsed(shown.answer) or "(none)"], limit)[0]
        facts.append(f"{name}: {verdict}{share}, soft {side.soft:.2f}, answer {answer}")
        if shown.failed and shown.reason:
            facts.append(f"{name} failure reason: {keep_ends([collapsed(shown.reason)], limit)[0]}")
    parts = [f"#### Task {collapsed(pair.task.id)}", fenced("\n".join(facts))]
    if pair.category is not Category.STABLE_SUCCESS:
        listed = "\n".join(f"- {reference}" for reference in pair.task.references)
        if hidden := list(filter(None, keep_ends([listed, pair.task.reference_text], limit))):
            parts += ["##### Hidden Reference", *map(fenced, hidden)]
        for (name, side), skill in zip(sides, skills, strict=True):
            shown = side.telling
            if gradient.trace_to_optimizer and shown.trace:
                trace = fenced(keep_ends([shown.trace], limit)[0])
                parts += [f"##### Trace under the {name} skill", trace]
            entries = conversation_entries(shown.messages, skill, f"[{name} skill as above]", limit)
            parts += [f"##### Conversation under the {name} skill", *map(fenced, entries)]
    return "\n\n".join(parts)


Stage = Literal["slow_update", "meta_skill"]

#: The heading over the text to be replaced, and the placeholder if there is none.
_BEFORE: Mapping[Stage, tuple[str, str]] = {
    "slow_update": (
        "Previous Guidance",
        "There is none yet: this is the first slow update of the run.",
    ),
    "meta_skill": ("Previous Meta Skill", "None yet."),
}


@dataclass(frozen=True, slots=True)
class Written:
    content: str = ""
    reasoning: str = ""


class _SlowUpdateShape(Shape):
    content: str = Field(alias="slow_update_content")
    reasoning: str = ""


class _MetaSkillShape(_SlowUpdateShape):
    content: str = Field(alias="meta_skill_content")


async def write(
    stage: Stage,
    before: str,
    skills: tuple[str, str],
    pairs: Sequence[Pair],
    chat: OptimizerChat,
    gradient: Gradient,
) -> Written:
    """Ask for the guidance or meta skill to replace ``before``; empty without a usable reply.

    ``skills`` are the earlier and the current one. If the prompt is refused, half of the pairs are
    shown, regressions first. An outage is raised: it must not cost an epoch.
    """
    if not pairs:
        return Written()
    what = stage.replace("_", " ")
    chat.observer(StageStarted(what))
    heading, none = _BEFORE[stage]
    user = library.joined(
        library.section("Previous Epoch's Skill", fenced(skills[0], "markdown")),
        library.current_skill(skills[1]),
        library.section(heading, fenced(before) if before else none),
        library.previous_steps(chat.step_buffer),
        render_pairs(pairs, *skills, gradient),
    )
    parse = partial(parse_as, _SlowUpdateShape if stage == "slow_update" else _MetaSkillShape)
    reply = await chat.ask(what, user, parse, WRITTEN[stage], prompt=stage)
    if isinstance(reply, Lost):
        if isinstance(reply.error, ModelRefusal | RequestTooLarge) and len(pairs) > 1:
            # the prompt is too long, or a filter objects to one pair
            half = sorted(pairs, key=lambda one: [*Category].index(one.category))[: len(pairs) // 2]
            return await write(stage, before, skills, half, chat, gradient)
        if isinstance(reply.error, ModelUnavailable):
            raise reply.error
        written = Written(reasoning=f"no usable answer: {reply.error.message}")
    else:
        content = strip_markers(clean(reply.content)).strip()
        written = Written(content, clean(reply.reasoning).strip())
    chat.observer(StageFinished(what, plural(word_count(written.content), "word")))
    return written


def slow_record(
    skill: str, written: Written, guard: GuardContext, observer: Observer
) -> SlowUpdateRecord:
    """Record the guidance; empty, unchanged or refused guidance proposes nothing."""
    guidance = region_text(skill, SLOW_UPDATE) or ""
    record = partial(SlowUpdateRecord, previous_content=guidance)
    before, after = (with_region(skill, SLOW_UPDATE, one) for one in (guidance, written.content))
    if not written.content or after == before:
        return record(action="no_content", reasoning=written.reasoning)
    if refused := _refused("guidance", before, after, guard, observer):
        return record(action="no_content", refused=refused)
    return record(action="propose", content=written.content, reasoning=written.reasoning)


def meta_record(
    before: str, written: Written, guard: GuardContext, observer: Observer
) -> MetaSkillRecord:
    """Record the meta skill; it may address the optimizer, for which it is written."""
    if not written.content:
        return MetaSkillRecord(action="no_content", reasoning=written.reasoning)
    rules = guard.rules.model_copy(update={"optimizer_instructions": False, "max_words": 0})
    lenient = replace(guard, rules=rules)
    if refused := _refused("memory", before, written.content, lenient, observer):
        return MetaSkillRecord(action="no_content", refused=refused)
    return MetaSkillRecord(
        action="write_meta_skill", content=written.content, reasoning=written.reasoning
    )


def _refused(what: str, before: str, after: str, guard: GuardContext, observer: Observer) -> str:
    if reason := guard.refuse(before, after):
        observer(Note(f"The optimizer's {what} is refused: {reason}.", level="warning"))
    return reason or ""


def earlier_skill(run: Run, checkout: ScoredCheckout, epoch: int) -> str:
    """The skill after the last epoch's end that was carried out, or else the initial skill."""
    paths = (*map(run.folder.epoch_skill, range(epoch - 1, 0, -1)), run.folder.initial_skill)
    texts = (run.ledger.read(checkout.commit, path) for path in paths)
    return next((text for text in texts if text is not None), checkout.skill)


async def compare_epochs(
    run: Run, earlier: str, current: str, epoch: int, models: OpenModels
) -> tuple[Pair, ...]:
    """Roll out a sample of training tasks under both skills; may raise TooManyErrors."""
    optimizer, train, each = run.config.optimizer, run.splits.train, run.config.rollout.attempts
    observer, scores = run.observer, Scores()
    observer(StageStarted("compare", 2 * min(optimizer.slow_update_samples, len(train)) * each))

    async def both(tasks: Sequence[Task]) -> tuple[Sequence[Rollout], Sequence[Rollout]]:
        before, after = (
            round_of(run, tasks, skill, "slow_rollout") for skill in (earlier, current)
        )
        rollouts = await models.runner.carry_out(
            before + after, lambda one: observer(StageAdvanced("compare", one.task_id))
        )
        scores.add(*rollouts)
        scores.refuse_errors(run.config.evaluation.max_error_rate, "comparison")
        return rollouts[: len(before)], rollouts[len(before) :]

    seed, policy = sampling_seed(run, epoch), optimizer.longitudinal_pair_policy
    pairs = await sample_pairs(train, optimizer.slow_update_samples, seed, policy, both)
    scores.finish(run, "comparison")
    counts = Counter(pair.category for pair in pairs)
    changed = f"{counts[Category.IMPROVED]} fixed, {counts[Category.REGRESSED]} broken"
    observer(StageFinished("compare", f"{changed} of {plural(len(pairs), 'task')}"))
    return pairs


def sampling_seed(run: Run, epoch: int) -> int:
    return run.config.train.seed + 2 * EPOCH_STRIDE * epoch


def first_epoch(run: Run, checkout: ScoredCheckout) -> tuple[str, BoundaryRecord]:
    """Only add the region for guidance: the first epoch has nothing to compare with."""
    optimizer, skill, slow = run.config.optimizer, checkout.skill, None
    if optimizer.use_slow_update:
        slow = SlowUpdateRecord(action="inject_placeholder")
        if region_text(skill, SLOW_UPDATE) is None:
            skill = with_region(skill, SLOW_UPDATE, "")
    meta = MetaSkillRecord(action="skip_first_epoch") if optimizer.use_meta_skill else None
    return skill, _record(run, checkout, 1, skill, slow, meta)


async def later_epoch(
    run: Run, checkout: ScoredCheckout, epoch: int, models: OpenModels
) -> tuple[str, BoundaryRecord]:
    """Compare the epochs' skills on the same tasks; ask for guidance and meta skill in parallel."""
    optimizer, skill = run.config.optimizer, checkout.skill
    earlier = earlier_skill(run, checkout, epoch)
    pairs = await compare_epochs(run, earlier, skill, epoch, models)
    buffer = step_buffer(run, checkout, epoch)
    chat = OptimizerChat(models.client, run.prompts, run.observer, buffer)
    advice = meta_skill(run, checkout)
    before: dict[Stage, str] = {}
    if optimizer.use_slow_update:
        before["slow_update"] = region_text(skill, SLOW_UPDATE) or ""
    if optimizer.use_meta_skill:
        before["meta_skill"] = advice.strip()
    found = await map_ordered(
        lambda stage: write(
            stage, before[stage], (earlier, skill), pairs, chat, run.config.gradient
        ),
        before,
        limit=2,
    )
    written = dict(zip(before, found, strict=True))
    guard, slow, meta = guard_context(run, checkout), None, None
    if "slow_update" in written:
        slow = slow_record(skill, written["slow_update"], guard, run.observer)
    if "meta_skill" in written:
        meta = meta_record(advice, written["meta_skill"], guard, run.observer)
    if slow is not None and slow.action == "propose":
        skill = with_region(skill, SLOW_UPDATE, slow.content)
    stages = by_stage_as_recorded(models.meter.accounts())
    return skill, _record(run, checkout, epoch, skill, slow, meta, pairs, stages)


def _record(
    run: Run,
    checkout: ScoredCheckout,
    epoch: int,
    skill: str,
    slow: SlowUpdateRecord | None,
    meta: MetaSkillRecord | None,
    pairs: Sequence[Pair] = (),
    stages: Mapping[str, Usage] = {},
) -> BoundaryRecord:
    return BoundaryRecord(
        epoch=epoch,
        step=checkout.state.step,
        simulated=run.simulated,
        policy=run.config.optimizer.longitudinal_pair_policy,
        # outcomes only, without the texts of tasks or answers
        pairs=tuple(PairRecord.model_validate(pair, from_attributes=True) for pair in pairs),
        previous_hard=fmean(pair.previous.hard for pair in pairs) if pairs else None,
        current_hard=fmean(pair.current.hard for pair in pairs) if pairs else None,
        slow_update=slow,
        meta_skill=meta,
        skill_before=checkout.sha256,
        skill_after=sha256(skill),
        config_sha256=run.config_sha256,
        stages=dict(stages),
    )
