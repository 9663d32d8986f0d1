"""The configuration of a run, section by section, under SkillOpt's key names where it has them."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from skillopt_ci.config.base import Argument, FileName, Section
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.config.rollout import ExternalConfig, RolloutConfig
from skillopt_ci.config.scorers import ScorerSpec


class GateConfig(Section):
    """The gate: how a candidate is compared with the current skill."""

    early_stop: bool = True
    """Stop evaluating a candidate as soon as its rejection is certain."""
    look_every: int = Field(default=16, gt=0)
    """Tasks evaluated per batch. Small batches save calls, large ones save time. If you leave it
    out, a run without a budget of calls, tokens or dollars takes as many as fill
    `model.target.max_concurrency` if that is more."""
    max_type_loss: float | None = Field(default=None, ge=0, le=1)
    """Reject a candidate if the mean score of any `task_type` falls by more than this."""


class GitHub(Section):
    """What a run publishes on GitHub, and how other people's changes to the skill are evaluated."""

    comments: Literal["sticky", "per-step", "off"] = "sticky"
    """`sticky`: one comment, kept up to date; `per-step`: one comment per step; `off`: none."""
    draft: bool = True
    """Keep the pull request a draft until a step has been merged."""
    labels: tuple[str, ...] = ()
    """Labels of the pull request, which must exist: a job's own token cannot create them."""
    merge: Literal["manual", "auto"] = "manual"
    """`auto`: GitHub merges a confirmed improvement as soon as branch protection allows it."""
    merge_method: Literal["merge", "squash"] = "merge"
    """How `merge: auto` and `/skillopt apply` merge."""
    fail_on: Literal["regression", "never"] = "regression"
    """When the check of a pull request that changes the skill turns red."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence required to call a change better or worse."""
    threshold: float = Field(default=0.0, ge=0, le=1)
    """Minimum change of the mean score to be called better or worse."""
    baseline: Literal["none"] | None = None
    """`none`: also evaluate without any skill, and report what head's skill adds to that."""

    @field_validator("comments", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        """YAML of old reads a bare `off` as false."""
        return "off" if value is False else value


class EnvironmentConfig(Section, extra="allow"):
    """An environment and its options."""

    type: str = Field(min_length=1)
    """Name of an entry point, `package.module:Class` or `path/to/file.py:Class`."""


EnvironmentSpec = str | EnvironmentConfig


class GivenSplits(Section):
    """`tasks` as separate files."""

    train: FileName
    """Task file to draw training batches from."""
    selection: FileName
    """Task file on which the gate compares candidates."""
    test: FileName | None = None
    """Task file for the final score; no training decision uses it."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""


class RatioSplit(Section):
    """`tasks` as one file, divided by a seeded shuffle."""

    path: FileName
    """Task file to divide."""
    split: str = Field(default="2:1:7", pattern=r"^[1-9]\d*:[1-9]\d*:[1-9]\d*$")
    """Shares train:selection:test as positive whole numbers, such as 2:1:7."""
    seed: int = 42
    """Seed of the shuffle."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""


class SplitDir(Section):
    """`tasks` as a SkillOpt split folder: a JSON or CSV file in each of `train`, `val`, `test`."""

    split_dir: FileName
    """The folder."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""


def choose_shape_of_tasks(value: object) -> str | None:
    """Name the shape whose keys are closest to those of ``value``, misspelt ones included.

    Among equals the first wins; None if ``value`` is neither a mapping nor one of the shapes.
    """
    if isinstance(value, Section):
        return type(value).__name__
    if not isinstance(value, Mapping):
        return None
    resemblance = {
        shape.__name__: sum(
            max(SequenceMatcher(None, key, field).ratio() for field in shape.model_fields)
            for key in value
        )
        for shape in (GivenSplits, RatioSplit, SplitDir)
    }
    return max(resemblance, key=resemblance.__getitem__)


TasksSpec = Annotated[
    Annotated[GivenSplits, Tag("GivenSplits")]
    | Annotated[RatioSplit, Tag("RatioSplit")]
    | Annotated[SplitDir, Tag("SplitDir")],
    Discriminator(choose_shape_of_tasks),
]


class Train(Section):
    """The training schedule."""

    num_epochs: int = Field(default=4, gt=0)
    """Passes over the training tasks. If you leave it out, `budget.run` sets it."""
    train_size: int = Field(default=0, ge=0)
    """Expected number of training tasks; 0 accepts any number."""
    batch_size: int = Field(default=40, gt=0)
    """Training tasks per batch."""
    accumulation: int = Field(default=1, gt=0)
    """Batches per step."""
    seed: int = 42
    """Seed for the order of the training tasks."""


class Gradient(Section):
    """How trajectories become proposed edits."""

    minibatch_size: int = Field(default=40, gt=0)
    """Maximum trajectories per analyst call."""
    analysts: int = Field(default=1, gt=0)
    """Analysts that read each minibatch, independently of each other. Their edits are merged, those
    that most of them propose first, and not ranked again; edits that were rejected within noise
    may be proposed again. If you leave it out, `budget.run` sets it to 3 in the update mode
    `patch`, unless the optimizer's temperature is 0."""
    max_minibatch_chars: int = Field(default=200_000, ge=500)
    """Maximum characters of trajectories per analyst call; fewer trajectories fit if long."""
    evidence: int = Field(default=80, ge=0)
    """Maximum attempts a step learns from, with earlier ones under the same skill; 0: its own."""
    merge_batch_size: int = Field(default=8, ge=2)
    """Patches per merge call."""
    analyst_workers: int = Field(default=16, gt=0)
    """Maximum concurrent calls to the optimizer."""
    failure_only: bool = True
    """Analyse failed attempts only."""
    max_trajectory_chars: int = Field(default=24_000, ge=500)
    """A longer trajectory keeps its head and tail in the analyst's prompt."""
    trace_to_optimizer: bool = True
    """Show analysts the trace, if the target reports one (a command or an agent)."""


class Optimizer(Section):
    """How proposals become a candidate."""

    learning_rate: int = Field(default=6, ge=0)
    """Maximum edits per step, and per analyst's proposal. If you leave both rates out
    and `budget.run` has room for only a few steps, up to 10, falling to half of that."""
    min_learning_rate: int = Field(default=3, ge=0)
    """Maximum edits in the last step, where the schedule ends; at most `learning_rate`."""
    lr_scheduler: Literal["constant", "linear", "cosine", "autonomous"] = "linear"
    """How the number of edits falls from `learning_rate` to `min_learning_rate` over the run;
    `autonomous` means the same as `lr_control_mode: autonomous`."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """What limits the number of edits: the schedule, the optimizer model, or nothing."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = (
        "patch"
    )
    """What analysts propose: edits, suggestions for a rewrite, or whole documents."""
    rewrite_max_completion_tokens: int = Field(default=64_000, gt=0)
    """Token limit for replies that contain a whole document."""
    use_slow_update: bool = True
    """At each epoch's end, compare it with the last and write guidance into a protected block."""
    slow_update_samples: int = Field(default=20, gt=0)
    """Training tasks on which the two skills are compared."""
    slow_update_gate_with_selection: bool = True
    """Let the gate decide on the guidance. `false`: always keep it, and score the skill again."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Compared tasks to show the optimizer: all, or those whose outcome changed, or did not."""
    use_meta_skill: bool = True
    """Let the optimizer keep a memory of which edits help; only the optimizer reads it."""
    use_skill_aware_reflection: bool = False
    """Distinguish defects of the skill (edits) from lapses in following it (notes)."""
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    """Take notes from failed and successful attempts, or from failed ones only."""
    skill_aware_consolidate_threshold: int = Field(default=0, ge=0)
    """Let the optimizer condense the notes when there are more than this; 0: never."""
    skill_aware_appendix_gate: Literal["no_regression", "forced"] = "no_regression"
    """Keep the notes of rejected edits if they do not lower the score, or always."""


class Evaluation(Section):
    """How a candidate is evaluated."""

    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    """Score that the gate compares: solved or not, partial credit, or a mix of both."""
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the soft score when `gate_metric: mixed`."""
    sel_env_num: int = Field(default=0, ge=0)
    """Use only the first N selection tasks; 0: all. If you leave it out, `budget.run` sets it:
    one evaluation takes about 7 % of the budget, on tasks of all types."""
    test_env_num: int = Field(default=0, ge=0)
    """Use only the first N test tasks; 0: all."""
    use_gate: bool = True
    """Let the gate decide. `false`: evaluate every candidate, and merge it whatever it scores."""
    ties: Literal["reject", "prefer_shorter"] = "reject"
    """A candidate with the same score: reject it, or accept it if the skill gets shorter."""
    use_semantic_density: bool = False
    """Add a bonus for the share of leading words (MUST, NEVER, …) in the document."""
    semantic_density_weight: float = Field(default=0.05, ge=0)
    """Weight of that bonus."""
    leading_words: tuple[str, ...] = ()
    """The leading words; empty: the eleven that SkillOpt counts."""
    eval_test: bool = True
    """At the end of the run, validate the last skill and test the first, best and last one."""
    max_error_rate: float = Field(default=0.2, ge=0, le=1)
    """Stop a step if a larger share of its attempts ends in infrastructure or grader errors."""
    confirm: float = Field(default=0.1, ge=0, le=1)
    """Share of the run's attempts to spend on confirming merges with fresh attempts, at the end of
    the run and of longer epochs; 0: none. A run that began without it stays without it."""
    gate: GateConfig = GateConfig()
    """How a candidate is compared with the current skill."""


class Guard(Section):
    """What the skill must not contain. An edit that would add it is refused, with a reason."""

    reference_answers: bool = True
    """Refuse text that reveals a task's reference answer."""
    secrets: bool = True
    """Refuse text that looks like a key, a token or a password."""
    invisible_characters: bool = True
    """Refuse invisible and bidirectional characters."""
    new_urls: bool = True
    """Refuse web addresses that no earlier skill of this run contained."""
    optimizer_instructions: bool = True
    """Refuse text that addresses the optimizer instead of the target."""
    max_words: int = Field(default=0, ge=0)
    """Maximum words of the skill; 0: no limit."""


class Schedule(Section):
    """When slow updates run, and what is prefetched."""

    slow_update: Literal["inline", "scheduled"] = "inline"
    """`inline`: `step` and `run` do it when it is due; `scheduled`: only `slow-update` does."""
    ahead: Literal["none", "sure"] = "sure"
    """What `run` prefetches: nothing, or rollouts that are sure to be needed. Budgets of calls,
    tokens or dollars, `cache.enabled: false`, Ray and human solvers turn prefetching off."""


class Limits(Section):
    """Limits, checked before each call; null: no limit."""

    calls: int | None = Field(default=None, ge=0)
    """Model calls; cached answers do not count."""
    tokens: int | None = Field(default=None, ge=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, ge=0)
    """US dollars; every model role needs a known price."""
    minutes: float | None = Field(default=None, ge=0)
    """Wall-clock minutes."""


class Budget(Section):
    """What the run and each step may consume."""

    run: Limits = Limits()
    """For the whole run; `minutes` counts one command."""
    step: Limits = Limits()
    """For each step."""


class Cache(Section):
    """Where answers are cached."""

    enabled: bool = True
    """Cache answers, so that no call is paid for twice."""
    path: FileName | None = None
    """An SQLite file; by default `skillopt-ci/calls.sqlite` inside the repository's `.git`; `~` is
    the home folder. Clones that train at the same time need one each, or costs are booked to the
    wrong run."""


class Git(Section):
    """Where training is recorded."""

    base: Argument | None = None
    """The branch that people work on; null: the remote's default branch, or else HEAD."""
    remote: Argument | None = "origin"
    """Remote to push steps to; if null or missing, steps stay local."""
    author_name: Argument | None = None
    """Author of the commits; null: git's own identity."""
    author_email: Argument | None = None
    """Author's e-mail address; null: git's own identity."""
    commits: Literal["git", "api"] = "git"
    """`api`: GitHub creates the commits, so they are signed and verified."""


class Config(Section):
    """A run: one skill, its tasks, two models and how to train."""

    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=64)
    """Name of the run: letters, digits, `-`, `_` and inner dots, at most 64 characters. The skills
    branch is `skillopt/<run>`."""
    skill: FileName
    """The document to train; it must be committed on the base branch."""
    environment: EnvironmentSpec | None = None
    """Takes the place of `tasks`: the name of an environment, a class, or type and options."""
    tasks: TasksSpec | None = Field(default=None, validate_default=True)
    """Separate files, one file to divide, or a split folder; not with `environment`."""
    scorer: ScorerSpec | None = None
    """Scorer for tasks without their own."""
    model: Models
    """The models that solve, edit and grade."""
    prompts: FileName | None = None
    """A folder whose files replace the built-in prompts of the same name."""
    rollout: RolloutConfig = RolloutConfig()
    train: Train = Train()
    gradient: Gradient = Gradient()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()
    guard: Guard = Guard()
    schedule: Schedule = Schedule()
    budget: Budget = Budget()
    cache: Cache = Cache()
    git: Git = Git()
    github: GitHub = GitHub()

    @field_validator("tasks")
    @classmethod
    def _tasks_come_from_one_place(
        cls, value: TasksSpec | None, info: ValidationInfo
    ) -> TasksSpec | None:
        environment = info.data.get("environment")
        if value is None and environment is None:
            raise PydanticKnownError("missing")
        if value is not None and environment is not None:
            raise ValueError("the tasks come from `environment` already")
        return value

    @property
    def asked_roles(self) -> dict[str, ModelRole]:
        """The roles that are called: without a target if a program, a script or a person works."""
        works = self.environment is not None or self.rollout.solver.type in ("chat", "agent")
        return {name: role for name, role in self.model.roles.items() if works or name != "target"}

    @field_validator("budget")
    @classmethod
    def _an_agents_cost_is_known(cls, value: Budget, info: ValidationInfo) -> Budget:
        solver = getattr(info.data.get("rollout"), "solver", None)
        if isinstance(solver, ExternalConfig) and solver.price is None:
            tells = "claude-code" in (solver.agent, solver.output)
            if not tells and (value.run.cost_usd, value.step.cost_usd) != (None, None):
                raise ValueError("a limit on cost needs `rollout.solver.price` for this agent")
        return value
