"""The estimate of a run: what is left of it, an epoch, a step, stage by stage."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Config
from skillopt_ci.config.scorers import AllScorer, AnyScorer, RubricScorer, WeightedScorer
from skillopt_ci.estimate.assumed import Assumed, assumed
from skillopt_ci.estimate.calls import (
    ROLLOUT,
    Calls,
    Situation,
    boundary_calls,
    finish_calls,
    in_calls,
    joined,
    likely,
    start_calls,
    step_calls,
)
from skillopt_ci.estimate.rehearsal import Likely, Schedule, rehearse
from skillopt_ci.estimate.sizes import (
    ANSWER,
    CHARACTERS_PER_TOKEN,
    PROPOSAL,
    CallSize,
    measured_sizes,
    sizes_by_texts,
)
from skillopt_ci.estimate.spread import Spread
from skillopt_ci.ledger.records import accounts_of
from skillopt_ci.model.budget import Tariff, tariffs
from skillopt_ci.model.types import Account, Usage
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.plan import StepPlan, plan_step, total_steps
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.state import Standing

#: A stretch of work: what its rules allow, and what is likely.
Work = tuple[Calls, Mapping[Account, float]]


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The calls of one role in one stage; ``cost_usd`` is for a call, None if unknown."""

    account: Account
    calls: Spread
    size: CallSize
    cost_usd: float | None

    def tokens(self) -> Spread:
        """Prompt and completion tokens of all calls."""
        return self.calls * self.size.usage.tokens


@dataclass(frozen=True, slots=True)
class Part:
    """An estimate for a stretch of work, with a ``name`` for people."""

    name: str
    stages: tuple[StageEstimate, ...]

    def calls(self) -> Spread:
        """All calls."""
        return sum((one.calls for one in self.stages), Spread())

    def tokens(self) -> Spread:
        """All tokens."""
        return sum((one.tokens() for one in self.stages), Spread())

    def cost_usd(self) -> tuple[float, float, float] | None:
        """Least, likely and most dollars; None as soon as one price is unknown."""
        low = likely = high = 0.0
        for one in self.stages:
            if one.cost_usd is None:
                return None
            low += one.calls.low * one.cost_usd
            likely += one.calls.likely * one.cost_usd
            high += one.calls.high * one.cost_usd
        return low, likely, high


@dataclass(frozen=True, slots=True)
class Estimate:
    """The next ``step``, a whole ``epoch``, and the ``rest`` of the run with its end.

    ``assumptions`` are sentences on what is not known yet.
    """

    step: Part
    epoch: Part
    rest: Part
    tariffs: Mapping[str, Tariff]
    assumptions: tuple[str, ...]


def estimate(session: Session, standing: Standing) -> Estimate:
    """Estimate what the run has still to do from ``standing``; no model is asked."""
    sized = _Sizes.of(session, standing)
    supposed = _assumed(session, standing)
    situation = _situation(session, supposed, sized)
    foreseen = _Foreseen.of(session, standing, situation, supposed)
    epoch, first = foreseen.epoch, foreseen.first
    begin = [] if standing.state else [_sure(start_calls(session.config, situation))]
    next_step = [*begin, foreseen.step(first)] if first in foreseen.plans else []
    of_epoch = [foreseen.step(n) for n, plan in foreseen.plans.items() if plan.epoch == epoch]
    steps = [foreseen.step(n) for n in foreseen.plans if n >= first]
    ends = [foreseen.boundary(number) for number in foreseen.epochs]
    rest = [*begin, *steps, *ends, _sure(finish_calls(session.config, situation))]
    return Estimate(
        sized.part("next step", next_step, situation),
        sized.part(f"epoch {epoch}", [*of_epoch, foreseen.boundary(epoch)], situation),
        sized.part("rest of the run", rest, situation),
        sized.tariffs,
        sized.assumptions(supposed),
    )


def _sure(calls: Calls) -> Work:
    return calls, {account: count.likely for account, count in calls.items()}


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """All steps and epochs of the run: what their rules allow, and what is likely."""

    config: Config
    situation: Situation
    plans: Mapping[int, StepPlan]
    epochs: tuple[int, ...]
    first: int
    epoch: int
    likely: Likely

    @classmethod
    def of(
        cls, session: Session, standing: Standing, situation: Situation, supposed: Assumed
    ) -> "_Foreseen":
        config, train = session.config, session.splits.train
        numbers = range(1, situation.total_steps + 1)
        plans = {n: plan_step(train, config.train, n, session.first_seed) for n in numbers}
        state = standing.state
        first = 1 if state is None else state.step + 1
        done = 0 if state is None else state.boundary
        epochs = tuple(range(done + 1, config.train.num_epochs + 1))
        made = 0 if state is None else len(attempts_so_far(session, standing))
        schedule = Schedule(tuple(plans[n] for n in numbers if n >= first), epochs, made)
        per_epoch = situation.total_steps // config.train.num_epochs
        return cls(
            config,
            situation,
            plans,
            epochs,
            first,
            min(config.train.num_epochs, (first - 1) // per_epoch + 1),
            rehearse(config, schedule, train, situation, supposed),
        )

    def step(self, number: int) -> Work:
        """A step; one that is done is taken to be as the next one."""
        bounds = step_calls(self.config, self.plans[number], self.situation)
        steps = self.likely.steps
        return bounds, steps.get(number) or steps.get(self.first) or {}

    def boundary(self, number: int) -> Work:
        """The end of an epoch."""
        bounds = boundary_calls(self.config, number, self.situation)
        return bounds, self.likely.epochs.get(number, {})


@dataclass(frozen=True, slots=True)
class _Sizes:
    measured: Mapping[Account, CallSize]
    by_texts: Mapping[Account, CallSize]
    tariffs: Mapping[str, Tariff]

    @classmethod
    def of(cls, session: Session, standing: Standing) -> "_Sizes":
        known = () if standing.state is None else standing.state.accounts
        tasks = (*session.splits.train, *session.selection)
        return cls(
            measured_sizes(accounts_of(known)),
            sizes_by_texts(session.config, session.prompts, standing.skill, tasks),
            tariffs(session.config.model),
        )

    def part(self, name: str, works: Sequence[Work], situation: Situation) -> Part:
        counts = Counter[Account]()
        for _, one in works:
            counts.update(one)
        bounds = joined(bounds for bounds, _ in works)
        calls = in_calls(likely(bounds, counts), situation)
        return Part(name, tuple(self._stage(*one) for one in calls.items()))

    def trajectory_chars(self) -> int:
        """About how long an attempt is in an analyst's prompt."""
        usage = self.measured.get(ROLLOUT, self.by_texts[ROLLOUT]).usage
        return usage.tokens * CHARACTERS_PER_TOKEN

    def _stage(self, account: Account, count: Spread) -> StageEstimate:
        size = self.measured.get(account, self.by_texts[account])
        cost = self.tariffs[account.role].cost_usd(_unpriced(size.usage))
        if cost is None and size.measured:
            cost = size.usage.cost_usd
        return StageEstimate(account, count, size, cost)

    def assumptions(self, supposed: Assumed) -> tuple[str, ...]:
        told = [
            "What is in the cache is not paid for again; the most has every question asked twice.",
            f"The target solves {supposed.solved:.0%} of the tasks, more with each step.",
            f"The gate accepts {supposed.accepted:.0%} of the candidates.",
        ]
        if supposed.calls[2] > 1:
            told.append(
                f"An attempt takes {supposed.calls[1]:.1f} answers of the target, at most "
                f"{supposed.calls[2]}."
            )
        if not self.measured:
            told.append(
                f"No call of this run is known yet: a token has {CHARACTERS_PER_TOKEN} characters, "
                f"an answer {ANSWER} tokens, a proposal {PROPOSAL}. Models that reason write more."
            )
        unknown = [name for name, tariff in self.tariffs.items() if not tariff.known]
        if unknown:
            told.append(f"No price is known for: {', '.join(unknown)}; set model.<role>.price.")
        return tuple(told)


def _assumed(session: Session, standing: Standing) -> Assumed:
    state = standing.state
    if state is None:
        return assumed(session.config, None, (), ())
    solved = state.current.measurement.hard
    return assumed(session.config, solved, standing.history, all_steps(session, standing))


def _situation(session: Session, supposed: Assumed, sized: _Sizes) -> Situation:
    train = session.splits.train
    return Situation(
        train=len(train),
        selection=len(session.selection),
        test=len(session.test),
        total_steps=total_steps(len(train), session.config.train),
        judged=_questions(session.config, session),
        calls=supposed.calls,
        trajectory_chars=sized.trajectory_chars(),
    )


def _questions(config: Config, session: Session) -> int:
    """Questions to the judge for an attempt: as many as the most judged task has."""
    tasks = (*session.splits.train, *session.selection)
    specs = (task.scorer or config.scorer for task in tasks)
    return max((_rubrics(spec) for spec in specs), default=0)


def _rubrics(spec: object) -> int:
    match spec:
        case RubricScorer():
            return 1
        case AllScorer() | AnyScorer() | WeightedScorer():
            return sum(map(_rubrics, spec.of))
        case _:
            return 0


def _unpriced(usage: Usage) -> Usage:
    return Usage(
        calls=1,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
