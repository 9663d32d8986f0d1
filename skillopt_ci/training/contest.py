"""Contest: the attempts that a duel asks for, made with the models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from skillopt_ci.aio import Begun, begun, map_ordered
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import Order, Rollout
from skillopt_ci.training.attempts import Numbered, roll_out_numbered, round_of
from skillopt_ci.training.gates.duel import Answer, Ask, Duel, Outcome
from skillopt_ci.training.incoming import Incoming
from skillopt_ci.training.measure import Scores
from skillopt_ci.training.session import Bench, Session

STAGE = "selection"

#: Tasks with the number of earlier attempts at each.
_Lot = tuple[tuple[str, int], ...]
#: Those of the candidate and those of the current skill.
_Lots = tuple[_Lot, _Lot]


@dataclass(frozen=True, slots=True)
class Side:
    """A skill in a duel; attempts before number ``first`` were put aside."""

    skill: str
    first: int = 0


async def fight(
    session: Session,
    bench: Bench,
    duel: Duel,
    candidate: Side,
    current: Side,
    planned: int,
    before: Mapping[str, tuple[float, float]],
) -> tuple[Outcome, Scores]:
    """Make the attempts of ``duel`` until it is decided.

    What is asked at once runs at once; its results are looked at together, so that nothing depends
    on the order in which they come. Lots that are sure to be asked next begin meanwhile, as soon as
    that is sure: few places stay empty for want of a look, and none is taken for naught. Which
    verdict it looks like is told to who works ahead; ``before`` are the current skill's scores,
    hard and soft. Returned is also what the candidate's attempts came to. Raises
    :class:`~skillopt_ci.errors.TooManyErrors` when so many of the ``planned`` tasks fail that a
    verdict would be dishonest.
    """
    session.observer(StageStarted(STAGE, planned))
    limit, made = session.config.evaluation.max_error_rate, list[Rollout]()
    scores = Scores(())
    incoming, sides = Incoming(session.config.rollout.attempts), (candidate, current)
    async with begun(partial(_put, session, bench, sides, incoming)) as under_way:
        try:
            ask = next(duel)
            while True:
                lots = await _asked(ask, under_way, incoming)
                made += [one for lot in lots for one in lot]
                for rollout in lots[0]:
                    scores.add(rollout)
                if sum(not one.status.measured for one in made) > limit * max(planned, len(made)):
                    refuse_too_many_errors(made, limit, STAGE)
                ask = duel.send(Answer(*map(_scores, lots)))
                session.ahead.favour(merged=_leads(scores, before))
        except StopIteration as done:
            outcome: Outcome = done.value
    refuse_too_many_errors(made, limit, STAGE)
    session.observer(StageFinished(STAGE, _told(outcome, planned)))
    return outcome, scores


def orders_of(session: Session, side: Side, lot: _Lot) -> Iterator[Order]:
    """The attempts of a lot."""
    tasks = {task.id: task for task in session.selection}
    for name, earlier in lot:
        for number in round_of(side.first + earlier, session.config.rollout.attempts):
            yield Order(tasks[name], side.skill, STAGE, number)


async def _asked(
    ask: Ask, under_way: Begun[_Lots, list[list[Rollout]]], incoming: Incoming
) -> list[list[Rollout]]:
    """What comes of ``ask``; what is asked next in any case begins as soon as that is known."""
    tasks = [task for task, _ in ask.candidate]
    # each look costs as much as some answers: they are worth it where few answers are out
    looks = {len(tasks) >> halved for halved in range(1, len(tasks).bit_length())}

    def begin_sure() -> None:
        for one in ask.sure(incoming.scores()):
            under_way.begin((one.candidate, one.current))

    def look() -> None:
        if incoming.lacks(tasks) in looks:
            begin_sure()

    under_way.begin((ask.candidate, ask.current))
    begin_sure()
    incoming.completed = look
    return await under_way.result((ask.candidate, ask.current))


async def _put(
    session: Session, bench: Bench, sides: tuple[Side, Side], incoming: Incoming, lots: _Lots
) -> list[list[Rollout]]:
    """Both sides at the same time."""
    heard = (incoming.add, lambda _: None)

    async def one(work: tuple[Side, _Lot, Callable[[Rollout], None]]) -> list[Rollout]:
        return await _attempt(session, bench, *work)

    return await map_ordered(one, zip(sides, lots, heard, strict=True), limit=2)


async def _attempt(
    session: Session, bench: Bench, side: Side, lot: _Lot, heard: Callable[[Rollout], None]
) -> list[Rollout]:
    tasks = {task.id: task for task in session.selection}

    def done(rollout: Rollout) -> None:
        session.observer(StageAdvanced(STAGE, rollout.task_id))
        heard(rollout)

    made = await roll_out_numbered(
        bench.runner,
        [Numbered(tasks[name], side.first + earlier) for name, earlier in lot],
        side.skill,
        stage=STAGE,
        done=done,
    )
    return list(made)


def _leads(scores: Scores, before: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the candidate solved more than the current skill, of what was attempted so far."""
    found = scores.means()
    return sum(found[task][0] - before[task][0] for task in found.keys() & before.keys()) > 0


def _scores(rollouts: Sequence[Rollout]) -> Mapping[str, tuple[float, float]]:
    return Scores.of(rollouts).means()


def _told(outcome: Outcome, planned: int) -> str:
    measured = f"{len(outcome.standoff.candidate)} of {plural(planned, 'task')} measured"
    return measured if outcome.end == "measured" else f"{measured}, then the verdict was clear"
