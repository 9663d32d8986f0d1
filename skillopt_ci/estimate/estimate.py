"""Estimates calls, tokens and dollars of the next step, its epoch, and the rest of the run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from skillopt_ci.config.config import Config
from skillopt_ci.estimate import calls as counts
from skillopt_ci.estimate.calls import Calls, Range
from skillopt_ci.model.budget import Tariff, tariffs
from skillopt_ci.model.types import CHARACTERS_PER_TOKEN, Account, Usage, summed, token_count, total
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.text import cost_text, percent, plural
from skillopt_ci.training import plan
from skillopt_ci.training.baseline import as_scored, unscored_texts
from skillopt_ci.training.confirm import attempts_made, due_test, fewest_pairs
from skillopt_ci.training.final_evaluation import earlier_tests
from skillopt_ci.training.memory import step_records
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Candidate, Checkout, finished
from skillopt_ci.training.update import update_mode

#: Assumed tokens of answers before any are measured.
ANSWER, PROPOSAL, CHOICE, GUIDANCE, VERDICT = 300, 800, 250, 600, 80
#: Tokens of a rubric prompt besides task and answer.
_RUBRIC = 350
#: Roughly how many attempts a run with several analysts makes for each of their questions, and the
#: most that a question may cost, in attempts, if several analysts are to answer it.
_ATTEMPTS_PER_QUESTION, _COSTLY = 20, 20


@dataclass(frozen=True, slots=True)
class CallSize:
    """The mean size of a stage's calls, ``measured`` in this run or assumed."""

    usage: Usage
    measured: bool = False


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The calls of one role in one stage; ``cost_usd`` is per call, None if unknown."""

    account: Account
    calls: Range
    size: CallSize
    cost_usd: float | None

    def tokens(self) -> Range:
        return self.calls * self.size.usage.tokens


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    stages: tuple[StageEstimate, ...]

    def calls(self) -> Range:
        return sum((one.calls for one in self.stages), Range())

    def tokens(self) -> Range:
        return sum((one.tokens() for one in self.stages), Range())

    def cost_usd(self) -> Range | None:
        priced = [one.calls * one.cost_usd for one in self.stages if one.cost_usd is not None]
        return sum(priced, Range()) if len(priced) == len(self.stages) else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The next ``step``, or what is left without one; its ``epoch``; the ``rest`` of the run."""

    step: Part
    epoch: Part
    rest: Part
    tariffs: Mapping[str, Tariff]
    assumptions: tuple[str, ...]


def estimate(run: Run, checkout: Checkout, candidate: Candidate | None = None) -> Estimate:
    """Estimate what is left to do; of a ``candidate`` in flight, only its evaluation."""
    config, state, train = run.config, checkout.state, run.splits.train
    texts, tasks = unscored_texts(run, checkout), plan.sizes_now(run, checkout)
    solved = None if state is None else state.current.measurement.hard
    supposed = counts.assumed(
        config, solved, checkout.history, step_records(run, checkout), tasks.answers
    )
    first, due = 1, None
    if state is not None:
        first, due = state.step + 1, plan.completed_epoch(config, tasks, state)
    # what the budget of a new run leaves is not known from calls yet
    planned = config if state else budgeted(config, run.splits, run.prompts, checkout.skill)
    sizes = _sizes(run, checkout, supposed.calls.likely)
    total_steps = max(
        0 if candidate is None else candidate.record.step,  # which is decided in any case
        plan.last_step(planned, tasks, state, checkout.history, reopened=bool(texts)),
    )
    chars = sizes[counts.ROLLOUT].usage.tokens * CHARACTERS_PER_TOKEN
    forecast = counts.Forecast(
        config, tasks, total_steps, supposed, chars, len(attempts_so_far(run, checkout))
    )
    epoch = min(config.train.num_epochs, plan.plan_step(train, config.train, first, state).epoch)
    begin = [forecast.start(len(texts), anew=state is not None)] if texts else []
    # the end that is due, then the steps and later ends, each with the number of its epoch
    ends = [] if due is None else [(due, forecast.epoch_end(due))]
    steps = list[tuple[int, Calls]]()
    for number in range(first, total_steps + 1):
        step = plan.plan_step(train, config.train, number, state)
        steps.append((step.epoch, forecast.step(step)))
        if step.is_last_of_epoch:
            steps.append((step.epoch, forecast.epoch_end(step.epoch)))
    # an end that is due waits for its own schedule, or for a step in flight
    waits = config.schedule.slow_update == "scheduled"
    if candidate is not None:
        waits = candidate.record.step == first
        if flight := (ends if ends and not waits else steps):
            its_epoch, calls = flight[0]
            flight[0] = (its_epoch, {counts.SELECTION: calls.get(counts.SELECTION, Range())})
    works = [*begin, *(calls for _, calls in (*ends, *steps))]
    of_epoch = [*begin, *(calls for its, calls in (*ends, *steps) if its == epoch)]
    # the confirmation after the end that is due or, if none is, after the last one
    ended = state and state.model_copy(update={"boundary": due or state.boundary})
    tested = replace(checkout, state=ended)
    tests = [] if texts or candidate else [_confirmation(run, tested, (), over=False)]
    before = [*begin, *([] if waits else (calls for _, calls in ends)), *tests]
    upcoming = [*before, steps[0][1]] if steps else []
    prices = tariffs(config.model.roles)
    # a run that has nothing to learn ends without its tests
    if total_steps and (works or not finished(checkout.history)):
        again = earlier_tests(run, checkout.commit) is not None
        works += [_confirmation(run, checkout, works), forecast.finish(again=again)]

    def part(name: str, works: Iterable[Calls]) -> Part:
        questions = plan.judged(config, (*train, *run.selection))
        calls = counts.in_calls(counts.joined(works), supposed.calls, questions)
        return _part(name, calls, sizes, prices)

    # `step` leaves a scheduled end, and so the tests, to `slow-update`, unless it is in flight
    last = [*begin, _confirmation(run, checkout, ())] if waits and due is not None else works
    return Estimate(
        part("next step", upcoming or last),
        part(f"epoch {epoch}", of_epoch),
        part(f"rest of the run, up to step {total_steps}", works),
        prices,
        tuple(_assumptions(supposed, sizes)),
    )


def _assumptions(assumed: counts.Assumed, sizes: Mapping[Account, CallSize]) -> Iterator[str]:
    yield "Cached answers cost nothing. The most assumes that every question is asked twice."
    yield "With a budget, each step plans the number of steps again, by what calls cost so far."
    yield f"Assumed: the target solves {percent(assumed.solved)} of the tasks, more with each step."
    yield f"Assumed: the gate accepts {percent(assumed.accepted)} of the candidates."
    if (most := assumed.calls.high) > 1:
        yield f"An attempt takes {assumed.calls.likely:.1f} answers of the target, at most {most}."
    if not any(one.measured for one in sizes.values()):
        yield (
            f"Assumed, before any call of this run: {CHARACTERS_PER_TOKEN} characters per token, "
            "and answers as short as the table says. Reasoning models write more."
        )


def _confirmation(
    run: Run, checkout: Checkout, works: Sequence[Calls], *, over: bool = True
) -> Calls:
    share, state, made = run.config.evaluation.confirm, checkout.state, counts.joined(works)
    if state is not None and not works:
        due = due_test(run, as_scored(checkout, state), over=over)
        return {counts.CONFIRMATION: Range(0, 2 * due.draws, 2 * due.most)} if due else {}
    if not share or (state is not None and state.confirmed is None):
        return {}
    attempts = made.get(counts.ROLLOUT, Range()) + made.get(counts.SELECTION, Range())
    drawn = 2 * state.confirmed.draws if state and state.confirmed else 0
    before = share * attempts_made(run, checkout) - drawn
    least = 2 * fewest_pairs(run.config.train.num_epochs + 1)
    most = least + max(0, round(share * attempts.high + before))
    return {counts.CONFIRMATION: counts.between(0, share * attempts.likely + before, most)}


def estimate_measuring(run: Run, checkout: Checkout, rounds: int) -> str:
    """A text: the most that ``rounds`` of attempts at the selection tasks may consume."""
    made = rounds * len(run.selection) * run.config.rollout.attempts
    calls = counts.in_calls(
        {counts.SELECTION: Range(made, made, made)},
        counts.assumed(run.config, None, (), (), plan.sizes_now(run, checkout).answers).calls,
        plan.judged(run.config, run.selection),
    )
    part = _part("calibration", calls, _sizes(run, checkout), tariffs(run.config.model.roles))
    cost = cost_text(dollars.likely if (dollars := part.cost_usd()) else None)
    said = f"about {plural(round(part.calls().likely), 'call')}, {part.tokens().likely:,.0f} tokens"
    return f"{said}, cost {cost}; those that are cached cost nothing."


def _sizes(run: Run, checkout: Checkout, turns: float = 1) -> dict[Account, CallSize]:
    accounts = {} if checkout.state is None else checkout.state.accounts
    # The parts of the final test count as one stage.
    used = summed(
        (Account(one.role, one.stage.partition(" ")[0]), used) for one, used in accounts.items()
    )
    measured = {account: _mean_call(usage) for account, usage in used.items() if usage.calls}
    reply, made = None, total(used.get(stage, Usage()) for stage in counts.ATTEMPTS)
    if made.calls:  # a stage without attempts yet is sized by those of the others
        measured = dict.fromkeys(counts.ATTEMPTS, _mean_call(made)) | measured
        # the mean number of turns is below 1 if the cache had most attempts
        reply = round(max(1, turns) * (made.completion_tokens - made.reasoning_tokens) / made.calls)
    tasks = (*run.splits.train, *run.selection)
    return _assumed_sizes(run.config, tasks, run.prompts, checkout.skill, reply) | measured


def _assumed_sizes(
    config: Config, tasks: Sequence[Task], prompts: Prompts, skill: str, reply: int | None = None
) -> dict[Account, CallSize]:
    gradient, optimizer, target = config.gradient, config.optimizer, config.model.target
    answer = min(ANSWER, target.max_output_tokens or ANSWER) if reply is None else reply
    document, suffix = token_count(skill), update_mode(optimizer).prompt_suffix
    contents = [one.content for each in tasks for one in each.messages]
    contents += [one.content for each in tasks for one in each.files]
    task = round(sum(map(token_count, contents)) / len(tasks)) if tasks else 0
    shown = min(task + answer, gradient.max_trajectory_chars // CHARACTERS_PER_TOKEN)
    # Without other evidence, assume that half of the attempts fail.
    there = max(config.train.batch_size * config.rollout.attempts, gradient.evidence)
    fit = counts.fitting(gradient, (task + answer) * CHARACTERS_PER_TOKEN).minibatch_size
    minibatch = max(1, min(fit, there // 2)) * shown
    comparison = 2 * document + 2 * optimizer.slow_update_samples * shown
    proposal = document + GUIDANCE if suffix == "_full_rewrite" else PROPOSAL
    patches = min(4, gradient.merge_batch_size) * proposal
    ours = {name: token_count(text) for name, text in prompts.texts.items()}
    ranking = ours.get(f"ranking{suffix}", ours["ranking"])
    attempt = (token_count(prompts.with_skill("target", skill)) + task, answer)
    found = {
        **dict.fromkeys(counts.ATTEMPTS, attempt),
        counts.JUDGE: (_RUBRIC + task + answer, VERDICT),
        counts.ANALYST: (ours[f"analyst_error{suffix}"] + document + minibatch, proposal),
        counts.MERGE: (ours[f"merge_failure{suffix}"] + document + patches, proposal),
        counts.RANKING: (ranking + document + 2 * proposal, CHOICE),
        counts.LEARNING_RATE: (ours["lr_autonomous"] + document + 2 * proposal, CHOICE),
        counts.REWRITE: (ours["rewrite"] + document + 2 * proposal, document + GUIDANCE),
        counts.CONSOLIDATE: (ours["appendix_consolidate"] + document, CHOICE),
        counts.SLOW_UPDATE: (ours["slow_update"] + comparison, GUIDANCE),
        counts.META_SKILL: (ours["meta_skill"] + comparison, GUIDANCE),
    }
    return {account: CallSize(Usage(1, *size)) for account, size in found.items()}


def budgeted(config: Config, splits: Splits, prompts: Prompts, skill: str) -> Config:
    """``config`` of a new run, with the calls that a budget in dollars or tokens will likely buy.

    If optimizer questions are too costly, there is one analyst. Too uncertain to enforce: only for
    planning. Unchanged without such a limit, or if calls cannot be priced or counted (an agent's).
    """
    limits, tasks = config.budget.run, (*splits.train, *splits.selection)
    chats = config.rollout.solver.type == "chat" and config.environment is None
    if not chats or not tasks or (limits.tokens is None and limits.cost_usd is None):
        return config
    sizes, prices = _assumed_sizes(config, tasks, prompts, skill), tariffs(config.model.roles)
    once = Range(1, 1, 1)
    calls_of = {counts.ROLLOUT: once, counts.JUDGE: once * plan.judged(config, tasks)}
    attempt = _part("attempt", counts.joined([calls_of]), sizes, prices)
    question = _part("question", {counts.ANALYST: once}, sizes, prices)
    tests = plan.final_test_calls(config, plan.sizes_of(config, splits))
    bought = [] if limits.calls is None else [(limits.calls, False)]
    for limit, of_attempt, of_question in (
        (limits.tokens, attempt.tokens(), question.tokens()),
        (limits.cost_usd, attempt.cost_usd(), question.cost_usd()),
    ):
        if limit is not None and of_attempt and of_question and of_attempt.likely:
            costly = of_question.likely > _COSTLY * of_attempt.likely
            made = _ATTEMPTS_PER_QUESTION * (plan.ANALYSTS if costly else 1)
            calls = made * attempt.calls().likely + 1
            price = made * of_attempt.likely + of_question.likely
            each = of_attempt.likely / attempt.calls().likely
            kept = tests if tests * each < limit else 0  # which ask the optimizer nothing
            bought.append((int(kept + (limit - kept * each) / price * calls), costly))
    most, costly = min(bought, default=(None, False))
    run = limits.model_copy(update={"calls": most})
    changes: dict[str, object] = {"budget": config.budget.model_copy(update={"run": run})}
    if costly and "analysts" not in config.gradient.model_fields_set:
        changes["gradient"] = config.gradient.model_copy(update={"analysts": 1})
    return config.model_copy(update=changes)


def _part(
    name: str,
    calls: Mapping[Account, Range],
    sizes: Mapping[Account, CallSize],
    prices: Mapping[str, Tariff],
) -> Part:
    stages = []
    for account, count in calls.items():
        size = sizes[account]
        cost = prices[account.role].cost_usd(replace(size.usage, reasoning_tokens=0, cost_usd=0.0))
        if cost is None and size.measured:
            cost = size.usage.cost_usd or None  # simulated calls do not tell what real ones cost
        stages.append(StageEstimate(account, count, size, cost))
    return Part(name, tuple(stages))


def _mean_call(usage: Usage) -> CallSize:
    tokens = {key: round(n / usage.calls) for key, n in asdict(usage).items() if "_tokens" in key}
    cost = None if usage.cost_usd is None else usage.cost_usd / usage.calls
    return CallSize(Usage(calls=1, cost_usd=cost, **tokens), measured=True)
