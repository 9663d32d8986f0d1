"""The estimate of a run: calls, tokens and dollars of a step, an epoch, and all that is left."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Config
from skillopt_ci.config.scorers import AllScorer, AnyScorer, RubricScorer, WeightedScorer
from skillopt_ci.estimate.calls import (
    ANALYST,
    CONSOLIDATE,
    JUDGE,
    LEARNING_RATE,
    MERGE,
    META_SKILL,
    RACE,
    RANKING,
    REWRITE,
    ROLLOUT,
    SELECTION,
    SLOW_ROLLOUT,
    SLOW_UPDATE,
    TEST,
    Assumed,
    Calls,
    Forecast,
    Range,
    Situation,
    assumed,
    fitting,
    in_calls,
    joined,
)
from skillopt_ci.model.budget import Tariff, tariffs
from skillopt_ci.model.types import Account, Accounts, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.plan import plan_step, total_steps
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Standing
from skillopt_ci.training.update import update_mode

#: English text; code and other languages have fewer characters a token.
CHARACTERS_PER_TOKEN = 4
#: Tokens that are assumed of answers before there are any.
ANSWER, PROPOSAL, CHOICE, GUIDANCE, VERDICT = 300, 800, 250, 600, 80
#: Tokens of a rubric's frame around task and answer.
_RUBRIC = 350


@dataclass(frozen=True, slots=True)
class CallSize:
    """The mean call of a stage; ``measured`` says that this run made such calls before."""

    usage: Usage
    measured: bool = False


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The calls of one role in one stage; ``cost_usd`` is for a call, None if unknown."""

    account: Account
    calls: Range
    size: CallSize
    cost_usd: float | None

    def tokens(self) -> Range:
        """Prompt and completion tokens of all calls."""
        return self.calls * self.size.usage.tokens


@dataclass(frozen=True, slots=True)
class Part:
    """An estimate for a stretch of work, with a ``name`` for people."""

    name: str
    stages: tuple[StageEstimate, ...]

    def calls(self) -> Range:
        """All calls."""
        return sum((one.calls for one in self.stages), Range())

    def tokens(self) -> Range:
        """All tokens."""
        return sum((one.tokens() for one in self.stages), Range())

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


def estimate(run: Run, standing: Standing) -> Estimate:
    """Estimate what the run has still to do from ``standing``; no model is asked."""
    config, state, train = run.config, standing.state, run.splits.train
    tasks = (*train, *run.selection)
    measured = measured_sizes({} if state is None else state.accounts)
    sizes = {**sizes_by_texts(config, run.prompts, standing.skill, tasks), **measured}
    if state is None:
        supposed, made, first, done = assumed(config, None, (), ()), 0, 1, 0
    else:
        solved, records = state.current.measurement.hard, all_steps(run, standing)
        supposed = assumed(config, solved, standing.history, records)
        made, first, done = len(attempts_so_far(run, standing)), state.step + 1, state.boundary
    situation = Situation(
        train=len(train),
        selection=len(run.selection),
        test=len(run.test),
        total_steps=total_steps(len(train), config.train),
        judged=max((_rubrics(task.scorer or config.scorer) for task in tasks), default=0),
        trajectory_chars=sizes[ROLLOUT].usage.tokens * CHARACTERS_PER_TOKEN,
    )

    forecast = Forecast(config, situation, supposed, made)
    # What is done already is taken to be as if it came now.
    as_now = Forecast(config, situation, supposed, made)
    numbers = range(1, situation.total_steps + 1)
    plans = [plan_step(train, config.train, number, run.first_seed) for number in numbers]
    epochs = config.train.num_epochs
    epoch = min(epochs, (first - 1) // (situation.total_steps // epochs) + 1)
    begin = [] if state else [forecast.start()]
    steps, of_epoch, ends = list[Calls](), list[Calls](), list[Calls]()
    for plan in plans:
        if plan.step >= first:
            steps.append(forecast.step(plan))
        if plan.epoch == epoch:
            of_epoch.append(steps[-1] if plan.step >= first else as_now.step(plan))
        if plan.is_last_of_epoch:
            end = (forecast if plan.epoch > done else as_now).epoch_end(plan.epoch)
            ends += [end] if plan.epoch > done else []
            of_epoch += [end] if plan.epoch == epoch else []

    prices = tariffs(config.model)

    def part(name: str, works: Iterable[Calls]) -> Part:
        calls = in_calls(joined(works), supposed.calls, situation.judged)
        stages = (_stage(account, count, sizes, prices) for account, count in calls.items())
        return Part(name, tuple(stages))

    return Estimate(
        part("next step", [*begin, *steps[:1]] if steps else []),
        part(f"epoch {epoch}", of_epoch),
        part("rest of the run", [*begin, *steps, *ends, forecast.finish()]),
        prices,
        _assumptions(supposed, prices, anything_measured=bool(measured)),
    )


def _stage(
    account: Account,
    count: Range,
    sizes: Mapping[Account, CallSize],
    prices: Mapping[str, Tariff],
) -> StageEstimate:
    size = sizes[account]
    usage = Usage(
        calls=1,
        prompt_tokens=size.usage.prompt_tokens,
        completion_tokens=size.usage.completion_tokens,
        cached_tokens=size.usage.cached_tokens,
        cache_write_tokens=size.usage.cache_write_tokens,
    )
    cost = prices[account.role].cost_usd(usage)
    if cost is None and size.measured:
        cost = size.usage.cost_usd
    return StageEstimate(account, count, size, cost)


def _rubrics(spec: object) -> int:
    """Questions to the judge that a scorer asks for an attempt."""
    match spec:
        case RubricScorer():
            return 1
        case AllScorer() | AnyScorer() | WeightedScorer():
            return sum(map(_rubrics, spec.of))
        case _:
            return 0


def measured_sizes(accounts: Accounts) -> dict[Account, CallSize]:
    """The means of what was consumed so far; the parts of the final test as one."""
    total: dict[Account, Usage] = {}
    for account, usage in accounts.items():
        known = Account(account.role, account.stage.partition(" ")[0])
        total[known] = total.get(known, Usage()) + usage
    return {
        account: CallSize(
            Usage(
                calls=1,
                prompt_tokens=round(usage.prompt_tokens / usage.calls),
                completion_tokens=round(usage.completion_tokens / usage.calls),
                cached_tokens=round(usage.cached_tokens / usage.calls),
                reasoning_tokens=round(usage.reasoning_tokens / usage.calls),
                cost_usd=None if usage.cost_usd is None else usage.cost_usd / usage.calls,
                cache_write_tokens=round(usage.cache_write_tokens / usage.calls),
            ),
            measured=True,
        )
        for account, usage in total.items()
        if usage.calls
    }


def sizes_by_texts(
    config: Config, prompts: Prompts, skill: str, tasks: Sequence[Task]
) -> dict[Account, CallSize]:
    """Sizes counted from prompts, skill and tasks, with answers of the assumed lengths."""
    gradient, optimizer = config.gradient, config.optimizer
    document, suffix = _tokens(skill), update_mode(optimizer).prompt_suffix
    contents = [one.content for each in tasks for one in each.messages]
    contents += [one.content for each in tasks for one in each.files]
    task = round(sum(map(_tokens, contents)) / len(tasks)) if tasks else 0
    shown = min(task + ANSWER, gradient.max_trajectory_chars // CHARACTERS_PER_TOKEN)
    # as long as nothing else is known, half of the attempts failed
    there = max(config.train.batch_size * config.rollout.attempts, gradient.evidence)
    fit = fitting(gradient, (task + ANSWER) * CHARACTERS_PER_TOKEN).minibatch_size
    minibatch = max(1, min(fit, there // 2)) * shown
    comparison = 2 * document + 2 * optimizer.slow_update_samples * shown
    proposal = document + GUIDANCE if suffix == "_full_rewrite" else PROPOSAL
    patches = min(4, gradient.merge_batch_size) * proposal
    ours = {name: _tokens(text) for name, text in prompts.texts.items()}
    ranking = ours.get(f"ranking{suffix}", ours["ranking"])
    attempt = (_tokens(prompts.target(skill)) + task, ANSWER)
    found = {
        **dict.fromkeys((ROLLOUT, SELECTION, RACE, SLOW_ROLLOUT, TEST), attempt),
        JUDGE: (_RUBRIC + task + ANSWER, VERDICT),
        ANALYST: (ours[f"analyst_error{suffix}"] + document + minibatch, proposal),
        MERGE: (ours[f"merge_failure{suffix}"] + document + patches, proposal),
        RANKING: (ranking + document + 2 * proposal, CHOICE),
        LEARNING_RATE: (ours["lr_autonomous"] + document + 2 * proposal, CHOICE),
        REWRITE: (ours["rewrite"] + document + 2 * proposal, document + GUIDANCE),
        CONSOLIDATE: (ours["appendix_consolidate"] + document, CHOICE),
        SLOW_UPDATE: (ours["slow_update"] + comparison, GUIDANCE),
        META_SKILL: (ours["meta_skill"] + comparison, GUIDANCE),
    }
    return {account: CallSize(Usage(1, *size)) for account, size in found.items()}


def _tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _assumptions(
    supposed: Assumed, prices: Mapping[str, Tariff], *, anything_measured: bool
) -> tuple[str, ...]:
    told = [
        "What is in the cache is not paid for again; the most has every question asked twice.",
        f"The target solves {supposed.solved:.0%} of the tasks, more with each step.",
        f"The gate accepts {supposed.accepted:.0%} of the candidates.",
    ]
    _, usual, most = supposed.calls
    if most > 1:
        told.append(f"An attempt takes {usual:.1f} answers of the target, at most {most}.")
    if not anything_measured:
        told.append(
            f"No call of this run is known yet: a token has {CHARACTERS_PER_TOKEN} characters, "
            f"an answer {ANSWER} tokens, a proposal {PROPOSAL}. Models that reason write more."
        )
    unknown = [name for name, tariff in prices.items() if not tariff.known]
    if unknown:
        told.append(f"No price is known for: {', '.join(unknown)}; set model.<role>.price.")
    return tuple(told)
