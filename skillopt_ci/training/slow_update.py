"""Slow update and meta skill: what an epoch's end proposes (SkillOpt, reference 1.11 and 1.12)."""

from collections.abc import Sequence

from skillopt_ci.aio import siblings
from skillopt_ci.ledger.records import BoundaryRecord, MetaSkillRecord, SlowUpdateRecord
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import SLOW_UPDATE, region_text, with_region
from skillopt_ci.training.guard_context import guard_context
from skillopt_ci.training.guidance import Advisor
from skillopt_ci.training.guidance_record import meta_record, slow_record
from skillopt_ci.training.longitudinal import compare_epochs, earlier_skill
from skillopt_ci.training.memory import meta_skill
from skillopt_ci.training.pair_record import means, pair_records
from skillopt_ci.training.pairs import Pair
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Settled


def first_epoch(session: Session, standing: Settled) -> tuple[str, BoundaryRecord]:
    """The first epoch has nothing to compare with: only the place for guidance is prepared."""
    optimizer = session.config.optimizer
    skill, slow = standing.skill, None
    if optimizer.use_slow_update:
        slow = SlowUpdateRecord(action="inject_placeholder")
        if region_text(skill, SLOW_UPDATE) is None:
            skill = with_region(skill, SLOW_UPDATE, "")
    meta = MetaSkillRecord(action="skip_first_epoch") if optimizer.use_meta_skill else None
    return skill, _record(session, standing, 1, skill, slow, meta, ())


async def later_epoch(
    session: Session, standing: Settled, epoch: int, bench: Bench
) -> tuple[str, BoundaryRecord]:
    """Compare the epochs' skills on the same tasks, and write new guidance and memory."""
    earlier = earlier_skill(session, standing, epoch)
    pairs = await compare_epochs(session, earlier, standing.skill, epoch, bench)
    slow, meta = await _write(session, standing, earlier, pairs, bench)
    skill = standing.skill
    if slow is not None and slow.action == "propose":
        skill = with_region(skill, SLOW_UPDATE, slow.content)
    return skill, _record(session, standing, epoch, skill, slow, meta, pairs)


async def _write(
    session: Session, standing: Settled, earlier: str, pairs: Sequence[Pair], bench: Bench
) -> tuple[SlowUpdateRecord | None, MetaSkillRecord | None]:
    """Ask for guidance and memory at once; both read the skill as it is before the guidance."""
    optimizer, current = session.config.optimizer, standing.skill
    advisor = Advisor(bench.client, session.prompts, session.observer, session.config.gradient)
    guidance = region_text(current, SLOW_UPDATE) or ""
    memory = meta_skill(session, standing)
    slow = meta = None
    async with siblings() as questions:
        if optimizer.use_slow_update:
            slow = questions.create_task(advisor.slow_update(earlier, current, guidance, pairs))
        if optimizer.use_meta_skill:
            meta = questions.create_task(advisor.meta_skill(earlier, current, memory, pairs))
    guard = guard_context(session, standing)
    return (
        None if slow is None else slow_record(current, slow.result(), guard, session.observer),
        None if meta is None else meta_record(memory, meta.result(), guard, session.observer),
    )


def _record(
    session: Session,
    standing: Settled,
    epoch: int,
    skill: str,
    slow: SlowUpdateRecord | None,
    meta: MetaSkillRecord | None,
    pairs: Sequence[Pair],
) -> BoundaryRecord:
    previous, current = means(pairs)
    return BoundaryRecord(
        epoch=epoch,
        step=standing.state.step,
        simulated=session.simulated,
        policy=session.config.optimizer.longitudinal_pair_policy,
        pairs=pair_records(pairs),
        previous_hard=previous,
        current_hard=current,
        slow_update=slow,
        meta_skill=meta,
        skill_before=standing.sha256,
        skill_after=sha256(skill),
        config_sha256=session.config_sha256,
    )
