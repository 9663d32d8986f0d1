"""How large calls are: as this run's own were, else by the texts that they will be made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.config.config import Config
from skillopt_ci.estimate import calls
from skillopt_ci.model.types import Account, Accounts, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.modes import update_mode

#: English text; code and other languages have fewer characters a token.
CHARACTERS_PER_TOKEN = 4
#: What is assumed of answers before there are any, in tokens.
ANSWER = 300
PROPOSAL = 800
CHOICE = 250
GUIDANCE = 600
VERDICT = 80
#: A rubric's frame around task and answer.
_RUBRIC = 350


@dataclass(frozen=True, slots=True)
class CallSize:
    """The mean call of a stage; ``measured`` says that this run made such calls before."""

    usage: Usage
    measured: bool = False


def measured_sizes(accounts: Accounts) -> dict[Account, CallSize]:
    """The means of what was consumed so far; the parts of the final test as one."""
    joined: dict[Account, Usage] = {}
    for account, usage in accounts.items():
        known = Account(account.role, account.stage.partition(" ")[0])
        joined[known] = joined.get(known, Usage()) + usage
    return {
        account: CallSize(_mean(usage), measured=True)
        for account, usage in joined.items()
        if usage.calls
    }


def sizes_by_texts(
    config: Config, prompts: Prompts, skill: str, tasks: Sequence[Task]
) -> Mapping[Account, CallSize]:
    """Sizes counted from prompts, skill and tasks, with answers of the assumed lengths."""
    document, suffix = tokens(skill), update_mode(config.optimizer).prompt_suffix
    task = _mean_of(_task_tokens(one) for one in tasks)
    attempt = tokens(prompts.target(skill)) + task
    shown = min(task + ANSWER, config.gradient.max_trajectory_chars // CHARACTERS_PER_TOKEN)
    whole = suffix == "_full_rewrite"
    proposal = document + GUIDANCE if whole else PROPOSAL
    ours = {name: tokens(text) for name, text in prompts.texts.items()}
    pool = proposal * 2
    optimizer = {
        calls.ANALYST: (
            ours[f"analyst_error{suffix}"] + document + _minibatch(config, task) * shown,
            proposal,
        ),
        calls.MERGE: (
            ours[f"merge_failure{suffix}"]
            + document
            + min(4, config.gradient.merge_batch_size) * proposal,
            proposal,
        ),
        calls.RANKING: (ours.get(f"ranking{suffix}", ours["ranking"]) + document + pool, CHOICE),
        calls.LEARNING_RATE: (ours["lr_autonomous"] + document + pool, CHOICE),
        calls.REWRITE: (ours["rewrite"] + document + pool, document + GUIDANCE),
        calls.CONSOLIDATE: (ours["appendix_consolidate"] + document, CHOICE),
        calls.SLOW_UPDATE: (ours["slow_update"] + _comparison(config, document, shown), GUIDANCE),
        calls.META_SKILL: (ours["meta_skill"] + _comparison(config, document, shown), GUIDANCE),
    }
    attempts = (calls.ROLLOUT, calls.SELECTION, calls.RACE, calls.SLOW_ROLLOUT, calls.TEST)
    found = {**optimizer, **dict.fromkeys(attempts, (attempt, ANSWER))}
    found[calls.JUDGE] = (_RUBRIC + task + ANSWER, VERDICT)
    return {account: CallSize(Usage(1, *size)) for account, size in found.items()}


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _minibatch(config: Config, task: int) -> int:
    """Trajectories that an analyst reads, as long as nothing else is known: half of the most."""
    own = config.train.batch_size * config.rollout.attempts
    there = max(own, config.gradient.evidence)
    fit = calls.fitting(config.gradient, (task + ANSWER) * CHARACTERS_PER_TOKEN).minibatch_size
    return max(1, min(fit, there // 2))


def _comparison(config: Config, document: int, shown: int) -> int:
    """Both epochs' skills and the sampled tasks under each."""
    return 2 * document + 2 * config.optimizer.slow_update_samples * shown


def _task_tokens(task: Task) -> int:
    said = sum(tokens(message.content) for message in task.messages)
    return said + sum(tokens(file.content) for file in task.files)


def _mean(usage: Usage) -> Usage:
    n = usage.calls
    return Usage(
        calls=1,
        prompt_tokens=round(usage.prompt_tokens / n),
        completion_tokens=round(usage.completion_tokens / n),
        cached_tokens=round(usage.cached_tokens / n),
        reasoning_tokens=round(usage.reasoning_tokens / n),
        cost_usd=None if usage.cost_usd is None else usage.cost_usd / n,
        cache_write_tokens=round(usage.cache_write_tokens / n),
    )


def _mean_of(numbers: Iterable[int]) -> int:
    found = list(numbers)
    return round(sum(found) / len(found)) if found else 0
