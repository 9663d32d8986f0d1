"""The gate: decide whether a candidate becomes the current skill, as soon as that is clear.

A sequential test asks for attempts look by look until the remaining tasks could no longer lead
to acceptance. The verdict compares exact means, and its arithmetic is recorded.
"""

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate
from statistics import variance
from typing import Literal

from skillopt_ci.config.config import Config, Evaluation
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import Action, Decision, GateRecord, Snapshot, State
from skillopt_ci.text import plural
from skillopt_ci.training.measure import TaskScores, exact, worth
from skillopt_ci.util import grouped

#: A score above this counts as perfect.
PERFECT = 1 - 1e-9


def no_score_is_higher(config: Config, current: Snapshot) -> bool:
    """Whether the gate accepts only a higher score, and the current score is already perfect."""
    measured, evaluation = current.measurement, config.evaluation
    strict = (
        evaluation.use_gate
        and evaluation.ties == "reject"
        and not evaluation.use_semantic_density
        and not config.optimizer.use_skill_aware_reflection
    )
    return strict and measured.n > 0 and measured.score > PERFECT


@dataclass(frozen=True, slots=True)
class Ask:
    tasks: tuple[str, ...]
    #: The later asks that are certain, in order, given the scores so far: they may start now.
    sure: Callable[[TaskScores], tuple["Ask", ...]] = field(
        default=lambda _: (), repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class Setup:
    """A comparison on the tasks in ``order``; only the ``eligible`` ones count.

    ``bonus`` is the candidate's lead apart from tasks. If ``tie_wins``, an equal mean is accepted.
    Without ``stop``, the test measures all tasks. ``notes_only`` is as in :func:`compare`.
    """

    order: tuple[str, ...]
    eligible: frozenset[str]
    current: TaskScores
    evaluation: Evaluation
    notes_only: bool = False
    stop: bool = True
    bonus: Fraction = Fraction()
    tie_wins: bool = False

    def differences(self, candidate: TaskScores) -> dict[str, Fraction]:
        """Candidate minus current, for the measured tasks that count."""
        return {
            task: worth(self.evaluation, found) - worth(self.evaluation, self.current[task])
            for task, found in candidate.items()
            if task in self.eligible
        }

    def lead(self, candidate: TaskScores) -> Fraction:
        """The sum of the differences, each with the bonus: the sign of their mean and the bonus."""
        found = self.differences(candidate)
        return sum(found.values(), self.bonus * len(found))

    def hope(self, tasks: Iterable[str]) -> Fraction:
        """The most that ``tasks`` can add to the lead; one that ends in an error adds nothing."""
        counting = (self.current[task] for task in tasks if task in self.eligible)
        rooms = (1 - worth(self.evaluation, one) + self.bonus for one in counting)
        return sum((room for room in rooms if room > 0), Fraction())

    def certain(self, lead: Fraction, hope: Fraction) -> bool:
        """Whether the rest cannot lead to acceptance, whatever its outcome."""
        best = lead + hope
        return self.stop and (best < 0 or (best == 0 and not self.tie_wins))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a test ended: the candidate's scores, the tasks asked, and how many were attempted.

    It ends when all tasks were measured, or rejection was certain.
    """

    end: Literal["measured", "certain"]
    candidate: TaskScores
    asked: tuple[str, ...] = ()
    attempts: int = 0


Test = Generator[Ask, TaskScores, Ending]


def sequential_test(setup: Setup, known: TaskScores) -> Test:
    """Measure a candidate on the tasks not ``known``, look by look, until the verdict is clear."""
    size = setup.evaluation.gate.look_every if setup.stop else max(1, len(setup.order))
    looks = [setup.order[start : start + size] for start in range(0, len(setup.order), size)]
    # hopes[n] is the most that look n and all later ones can add to the lead
    hopes = [*accumulate(map(setup.hope, reversed(looks)), initial=Fraction())][::-1]
    candidate: TaskScores = {}
    asked: tuple[str, ...] = ()
    attempts, lead = 0, Fraction()

    @cache  # asked again and again about the same scores, mostly those of tasks to come
    def gained(*scores: tuple[str, tuple[float, float]]) -> Fraction:
        return setup.lead(dict(scores))

    def sure(number: int, lead: Fraction, found: TaskScores) -> tuple[Ask, ...]:
        """The looks after ``number`` that will be needed whatever the earlier ones show."""
        seen = {**known, **found}
        asks: list[Ask] = []
        for later in range(number + 1, len(looks)):
            # at worst, the tasks that have no score yet score 0
            lead += gained(*((task, seen.get(task, (0.0, 0.0))) for task in looks[later - 1]))
            if setup.certain(lead, hopes[later]):
                break
            if tasks := tuple(task for task in looks[later] if task not in known):
                asks.append(Ask(tasks))
        return tuple(asks)

    for number, look in enumerate(looks):
        scores = {task: known[task] for task in look if task in known}
        asked += look
        if tasks := tuple(task for task in look if task not in known):
            scores |= yield Ask(tasks, partial(sure, number, lead))
            attempts += len(tasks)
        candidate = {**candidate, **scores}
        lead += setup.lead(scores)
        if number + 1 < len(looks) and setup.certain(lead, hopes[number + 1]):
            return Ending("certain", candidate, asked, attempts)
    return Ending("measured", candidate, asked, attempts)


def set_up(
    text: tuple[float, int],
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[TaskScores],
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Setup:
    """Set up the comparison of a candidate with the ``current`` skill on ``planned`` tasks.

    ``text`` is the candidate's density of leading words and its length. The tasks solved least so
    far come first, because they show soonest that a candidate gains nothing. With ``notes_only``, a
    tie is enough. Without a gate, all tasks are measured.
    """
    known = current.tasks
    density, words = text
    mean = float(_mean([worth(evaluation, one) for one in known.values()]))
    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    ranks = {}
    for task in planned:
        found = [float(worth(evaluation, one[task])) for one in (known, *past) if task in one]
        # the mean of all tasks counts as one more measurement
        ranks[task] = task not in eligible, (sum(found) + mean) / (len(found) + 1)
    return Setup(
        order=tuple(sorted(planned, key=ranks.__getitem__)),
        eligible=eligible,
        current=known,
        evaluation=evaluation,
        notes_only=notes_only,
        stop=evaluation.gate.early_stop and evaluation.use_gate,
        bonus=_bonus(density, evaluation) - _bonus(current.density, evaluation),
        tie_wins=(evaluation.ties == "prefer_shorter" and words < current.words) or notes_only,
    )


def decide(
    setup: Setup, outcome: Ending, candidate: Measurement, state: State, types: Mapping[str, str]
) -> Decision:
    """The verdict after a test; TooManyErrors if no task was measured under all skills."""
    evaluation, notes_only = setup.evaluation, setup.notes_only
    current, best = state.current.measurement, state.best.measurement
    if not _shared(candidate, current, best):
        raise TooManyErrors("No selection task was measured under both skills.")
    differences = list(setup.differences(outcome.candidate).values())
    count = len(differences)
    if candidate.partial:
        # as if the remaining tasks scored like the current skill
        counting = [task for task in setup.order if task in setup.eligible]
        before = _mean([worth(evaluation, setup.current[task]) for task in counting])
        before += _bonus(current.density, evaluation)
        total = sum(differences, Fraction())
        gain = total / max(1, len(counting)) + setup.bonus
        decision = Decision(
            action="reject",
            reason=f"after {count:,} of {len(counting):,} tasks ({float(total):+.4g} in sum) "
            "no gain was in reach",
            metric=evaluation.gate_metric,
            score_before=float(before),
            score_after=float(before + gain),
        )
    else:
        decision = compare(candidate, current, best, evaluation, notes_only=notes_only)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate and not notes_only else None
    lost = losses(outcome.candidate, setup, types, allowed)
    if lost and decision.action != "reject":
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{decision.reason}, but types of task lost more than {allowed:g}: {told}"
        decision = decision.model_copy(
            update={"action": "reject", "reason": reason, "beats_best": False}
        )
    record = GateRecord(
        policy="strict",
        planned=len(setup.order),
        compared=count,
        difference=float(_mean(differences)),
        standard_error=math.sqrt(variance(differences) / count) if count > 1 else None,
        end=outcome.end,
        candidate_attempts=outcome.attempts,
        saved=len(setup.order) - len(outcome.asked),
        losses=lost,
    )
    return decision.model_copy(update={"gate": record})


def replay(
    decision: Decision, state: State, evaluation: Evaluation, *, notes_only: bool = False
) -> Decision | None:
    """Recompute ``decision`` from its records; None if it stopped before rejection was certain."""
    found, current, best = decision.measurement, state.current.measurement, state.best.measurement
    if found is None:
        return None
    seen = (*found.tasks, *found.errors)
    rest = tuple(task for task in current.tasks if task not in found.asked)
    text, order = (found.density, found.words), (*seen, *rest)
    setup = set_up(text, order, current, best, (), evaluation, notes_only=notes_only)
    if rest and not setup.certain(setup.lead(found.tasks), setup.hope(rest)):
        return None
    outcome = Ending("certain" if rest else "measured", found.tasks, seen)
    return decide(setup, outcome, found, state, {})


def compare(
    candidate: Measurement,
    current: Measurement,
    best: Measurement,
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Decision:
    """Compare the candidate's scores with those of the current and best skill.

    Its mean must be higher, since a tie is no evidence; with ``notes_only``, it must not be lower.
    """
    shared = _shared(candidate, current, best)
    ours, theirs, record = (
        _mean([worth(evaluation, side.tasks[task]) for task in shared])
        + _bonus(side.density, evaluation)
        for side in (candidate, current, best)
    )
    tasks = plural(len(shared), "task")
    told = f"{float(ours):.4f} is the same as the current skill's score on {tasks}"
    if ours != theirs:
        change = f"{abs(float(ours - theirs)):.4g} {'above' if ours > theirs else 'below'}"
        told = f"{float(ours):.4f} is {change} the current skill's {float(theirs):.4f} on {tasks}"

    def decision(action: Action, more: str = "", *, beats_best: bool = False) -> Decision:
        return Decision(
            action=action,
            reason=told + more,
            metric=evaluation.gate_metric,
            score_before=float(theirs),
            score_after=float(ours),
            beats_best=beats_best,
        )

    prefer_shorter = evaluation.ties == "prefer_shorter"
    if notes_only:
        if ours >= theirs:
            return decision("accept_notes", ": the notes do no harm", beats_best=ours > record)
        if not evaluation.use_gate:
            return decision("accept_notes", ", notes are kept in any case")
        return decision("reject")
    if not evaluation.use_gate:
        return decision("force_accept", ", taken over in any case", beats_best=ours > record)
    shorter = ""
    if ours == theirs and prefer_shorter and candidate.words < current.words:
        shorter = f", but {current.words - candidate.words} words shorter"
    elif ours <= theirs:
        return decision("reject")
    if ours > record or (ours == record and prefer_shorter and candidate.words < best.words):
        return decision("accept_new_best", shorter, beats_best=True)
    return decision("accept", f"{shorter}, but not above the best skill's {float(record):.4f}")


def _shared(*sides: Measurement) -> list[str]:
    """The tasks measured on all sides, so that an error favours none of them."""
    first, *others = sides
    return [task for task in first.tasks if all(task in other.tasks for other in others)]


def _bonus(density: float, evaluation: Evaluation) -> Fraction:
    if not evaluation.use_semantic_density:
        return Fraction()
    return exact(evaluation.semantic_density_weight) * exact(density)


def losses(
    candidate: TaskScores, setup: Setup, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    if allowed is None:
        return {}
    differences = setup.differences(candidate).items()
    groups = grouped((types[task], gain) for task, gain in differences if types.get(task))
    lost = {kind: -_mean(gains) for kind, gains in sorted(groups.items())}
    return {kind: float(loss) for kind, loss in lost.items() if loss > exact(allowed)}


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / max(1, len(values))
