"""The estimate of a run: what is left of it, an epoch, a step, stage by stage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillopt_ci.estimate.calls import (
    Calls,
    Situation,
    boundary_calls,
    finish_calls,
    joined,
    start_calls,
    step_calls,
)
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
from skillopt_ci.model.prices import Tariff, tariffs
from skillopt_ci.model.usage import Account, Usage
from skillopt_ci.settings.config import Config
from skillopt_ci.settings.scorer import AllScorer, AnyScorer, RubricScorer, WeightedScorer
from skillopt_ci.training.plan import plan_step, total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Standing


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
    config, situation = session.config, _situation(session, standing)
    first = 1 if standing.state is None else standing.state.step + 1
    steps = {n: _step(session, n, situation) for n in range(1, situation.total_steps + 1)}
    per_epoch = situation.total_steps // config.train.num_epochs
    epoch = min(config.train.num_epochs, (first - 1) // per_epoch + 1)
    of_epoch = [steps[n] for n in range((epoch - 1) * per_epoch + 1, epoch * per_epoch + 1)]
    done = 0 if standing.state is None else standing.state.boundary
    ends = [
        boundary_calls(config, number, situation)
        for number in range(done + 1, config.train.num_epochs + 1)
    ]
    begin = [start_calls(situation)] if standing.state is None else []
    rest = [*begin, *(steps[n] for n in steps if n >= first), *ends]
    sized = _Sizes.of(session, standing)
    next_step = [*begin, steps[first]] if first in steps else []
    whole_epoch = [*of_epoch, boundary_calls(config, epoch, situation)]
    return Estimate(
        sized.part("next step", next_step),
        sized.part(f"epoch {epoch}", whole_epoch),
        sized.part("rest of the run", [*rest, finish_calls(config, situation)]),
        sized.tariffs,
        sized.assumptions(situation),
    )


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

    def part(self, name: str, parts: Iterable[Calls]) -> Part:
        return Part(name, tuple(self._stage(*one) for one in joined(parts).items()))

    def _stage(self, account: Account, count: Spread) -> StageEstimate:
        size = self.measured.get(account, self.by_texts[account])
        cost = self.tariffs[account.role].cost_usd(_unpriced(size.usage))
        if cost is None and size.measured:
            cost = size.usage.cost_usd
        return StageEstimate(account, count, size, cost)

    def assumptions(self, situation: Situation) -> tuple[str, ...]:
        told = [
            "What is in the cache is not paid for again; the most has every question asked twice.",
            f"The target fails {situation.failing:.0%} of the training tasks.",
        ]
        if not self.measured:
            told.append(
                f"No call of this run is known yet: a token has {CHARACTERS_PER_TOKEN} characters, "
                f"an answer {ANSWER} tokens, a proposal {PROPOSAL}. Models that reason write more."
            )
        unknown = [name for name, tariff in self.tariffs.items() if not tariff.known]
        if unknown:
            told.append(f"No price is known for: {', '.join(unknown)}; set model.<role>.price.")
        return tuple(told)


def _step(session: Session, number: int, situation: Situation) -> Calls:
    train = session.config.train
    plan = plan_step(session.splits.train, train, number, session.first_seed)
    return step_calls(session.config, plan, situation)


def _situation(session: Session, standing: Standing) -> Situation:
    state, train = standing.state, session.splits.train
    return Situation(
        train=len(train),
        selection=len(session.selection),
        test=len(session.test),
        total_steps=total_steps(len(train), session.config.train),
        failing=0.5 if state is None else 1 - state.current.measurement.hard,
        judged=_questions(session.config, session),
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
