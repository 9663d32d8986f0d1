"""The configuration of a run, section by section, under SkillOpt's key names where it has them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from skillopt_ci.config.base import Argument, FileName, Section, choose_alternative
from skillopt_ci.config.models import Models
from skillopt_ci.config.rollout import RolloutConfig
from skillopt_ci.config.scorers import ScorerSpec


class GateConfig(Section):
    """The gate: how a candidate is compared with the current skill, and at what expense."""

    early_stop: bool = True
    """Stop measuring a candidate when its rejection is certain."""
    look_every: int = Field(default=16, gt=0)
    """Tasks evaluated between two looks at the results: fewer save calls, more save time."""
    max_type_loss: float | None = Field(default=None, ge=0, le=1)
    """Largest loss of the mean score that an accepted skill may bring to any type of task."""


class GitHub(Section):
    """How a run shows itself on GitHub, and how a person's change to the skill is judged."""

    comments: Literal["sticky", "per-step", "off"] = "sticky"
    """`sticky`: one comment that is kept current; `per-step`: one for each step; `off`: none."""
    draft: bool = True
    """Open the pull request as a draft until a step was merged."""
    labels: tuple[str, ...] = ("skillopt",)
    """Put on the pull request."""
    merge: Literal["manual", "auto"] = "manual"
    """`auto`: GitHub merges an improvement as soon as the protection of the base allows it."""
    merge_method: Literal["merge", "squash"] = "merge"
    """How `merge: auto` does it."""
    fail_on: Literal["regression", "never"] = "regression"
    """What makes the check of a person's change red."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """How sure one must be that it was not chance to call a change better or worse."""
    threshold: float = Field(default=0.0, ge=0, le=1)
    """Smallest change of the mean score that is called better or worse."""
    baseline: Literal["none"] | None = None
    """`none`: an evaluation also tries the tasks without a skill, and says what head's adds."""

    @field_validator("comments", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: object) -> object:
        """YAML of old reads a bare `off` as false."""
        return "off" if value is False else value


class EnvironmentConfig(Section):
    """An environment with options of its own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(min_length=1)
    """Name of an entry point, `package.module:Class` or `path/to/file.py:Class`."""


EnvironmentSpec = str | EnvironmentConfig


class GivenSplits(Section):
    """`tasks` as three files."""

    train: FileName
    """Task file that batches are drawn from."""
    selection: FileName
    """Task file that the gate judges candidates on."""
    test: FileName | None = None
    """Task file that is only ever measured, never trained on or selected by."""
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
    """`tasks` as a SkillOpt split folder: a JSON or CSV file each in `train/`, `val/`, `test/`."""

    split_dir: FileName
    """The folder."""
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""


TasksSpec = Annotated[
    Annotated[GivenSplits, Tag("GivenSplits")]
    | Annotated[RatioSplit, Tag("RatioSplit")]
    | Annotated[SplitDir, Tag("SplitDir")],
    Discriminator(lambda value: choose_alternative(value, (GivenSplits, RatioSplit, SplitDir))),
]


class Train(Section):
    """The training schedule."""

    num_epochs: int = Field(default=4, gt=0)
    """Passes over the training tasks. Left out in a new run, a budget of calls ends it instead."""
    train_size: int = Field(default=0, ge=0)
    """0: the number of training tasks; otherwise it must equal that number."""
    batch_size: int = Field(default=40, gt=0)
    """Training tasks rolled out per batch."""
    accumulation: int = Field(default=1, gt=0)
    """Batches per step."""
    seed: int = 42
    """Seed of the batches' order."""


class Gradient(Section):
    """How trajectories become proposed edits."""

    minibatch_size: int = Field(default=40, gt=0)
    """Most trajectories per analyst call."""
    max_minibatch_chars: int = Field(default=200_000, ge=500)
    """Fewer go into a call where they would be longer together."""
    evidence: int = Field(default=80, ge=0)
    """Most attempts a step learns from, earlier ones under the same skill included; 0: its own."""
    merge_batch_size: int = Field(default=8, ge=2)
    """Patches per merge call."""
    analyst_workers: int = Field(default=16, gt=0)
    """Analyst and merge calls under way at once."""
    failure_only: bool = True
    """Do not analyse successes."""
    max_trajectory_chars: int = Field(default=24_000, ge=500)
    """A longer trajectory keeps its head and tail in the analyst's prompt."""
    trace_to_optimizer: bool = True
    """Show the analysts the trace of a target that reports one (a command, an agent)."""


class Optimizer(Section):
    """How much of a proposal is applied."""

    learning_rate: int = Field(default=6, ge=0)
    """Most edits in one step (and in one analyst's proposal). Left out in a new run, a budget of
    calls with room for few steps makes them larger: up to 10 edits, falling to half of that."""
    min_learning_rate: int = Field(default=3, ge=0)
    """Where the schedule ends: most edits in the last step, never more than `learning_rate`."""
    lr_scheduler: Literal["constant", "linear", "cosine", "autonomous"] = "linear"
    """How the number of edits falls from `learning_rate` to `min_learning_rate` over the run;
    `autonomous` means the same as `lr_control_mode: autonomous`."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """Who sets the number of edits: the schedule, the optimizer model, or nobody (no limit)."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = (
        "patch"
    )
    """What analysts propose: edits, suggestions for a rewrite, or a whole new document each."""
    rewrite_max_completion_tokens: int = Field(default=64_000, gt=0)
    """Token limit of replies that hold a whole document."""
    use_slow_update: bool = True
    """Compare epochs at their ends, and write guidance into a protected block of the document."""
    slow_update_samples: int = Field(default=20, gt=0)
    """Training tasks on which the two skills are compared."""
    slow_update_gate_with_selection: bool = True
    """Let the gate decide on the guidance; otherwise it is taken over, and measured."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Which of the compared tasks are shown: all, those whose outcome changed, or the others."""
    use_meta_skill: bool = True
    """Keep a memory of which edits help in this environment, for the optimizer alone."""
    use_skill_aware_reflection: bool = False
    """Tell defects of the skill (edits) from lapses in following it (notes in an appendix)."""
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    """Whose notes are taken: those on failures and successes, or on failures only."""
    skill_aware_consolidate_threshold: int = Field(default=0, ge=0)
    """More notes than this are condensed by the optimizer; 0 means never."""
    skill_aware_appendix_gate: Literal["no_regression", "forced"] = "no_regression"
    """Keep notes whose edits were rejected if they do not lower the score, or in any case."""


class Evaluation(Section):
    """How a candidate is measured and judged."""

    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    """Score that the gate compares: solved or not, partial credit, or a mixture of both."""
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the soft score when `gate_metric: mixed`."""
    sel_env_num: int = Field(default=0, ge=0)
    """Selection tasks used: the first N; 0 means all. Left out in a new run, a budget of calls
    decides: one evaluation then takes about 7 % of it, on tasks of all types."""
    test_env_num: int = Field(default=0, ge=0)
    """Test tasks used: the first N; 0 means all."""
    use_gate: bool = True
    """Whether the gate decides; without it every candidate is measured and stays."""
    ties: Literal["reject", "prefer_shorter"] = "reject"
    """What becomes of a candidate that scores the same: out, or in if the document got shorter."""
    use_semantic_density: bool = False
    """Add a bonus for the share of leading words (MUST, NEVER, …) in the document."""
    semantic_density_weight: float = Field(default=0.05, ge=0)
    """Weight of that bonus."""
    leading_words: tuple[str, ...] = ()
    """The leading words; empty: the eleven that SkillOpt counts."""
    eval_test: bool = True
    """Validate the last skill and test the first, best and last one when the run ends."""
    max_error_rate: float = Field(default=0.2, ge=0, le=1)
    """Share of tasks that may end in infrastructure or grader errors before a step stops."""
    confirm: float = Field(default=0.1, ge=0, le=1)
    """Share of the run's attempts that may go into confirming merges with fresh attempts, when an
    epoch or the run ends; 0: none. Holds for runs that began with it."""
    gate: GateConfig = GateConfig()
    """How a candidate is compared with the current skill, and at what expense."""


class Guard(Section):
    """What may not be learned: an edit that carries it is refused, with the reason recorded."""

    reference_answers: bool = True
    """Refuse text that gives away a task's reference answer."""
    secrets: bool = True
    """Refuse text that looks like a key, a token or a password."""
    invisible_characters: bool = True
    """Refuse invisible and bidirectional characters."""
    new_urls: bool = True
    """Refuse web addresses that stood in no skill of this run before."""
    optimizer_instructions: bool = True
    """Refuse text that speaks to the optimizer instead of the target."""
    max_words: int = Field(default=0, ge=0)
    """Longest document, in words, that a candidate may become; 0 means no limit."""


class Schedule(Section):
    """Who does the work at an epoch's boundary, and what is begun before its turn."""

    slow_update: Literal["inline", "scheduled"] = "inline"
    """`step` and `run` do it when it is due, or leave it to `skillopt-ci slow-update`."""
    ahead: Literal["none", "sure"] = "sure"
    """Rollouts that `run` prefetches: none, or those sure to be needed. Nothing is prefetched with
    a budget of calls, tokens or dollars, without the cache, on Ray, or with people as solvers."""


class Limits(Section):
    """Limits of one scope; absent means none. Checked before each call."""

    calls: int | None = Field(default=None, ge=0)
    """Model calls that were really made (answers from the cache are free)."""
    tokens: int | None = Field(default=None, ge=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, ge=0)
    """US dollars; every model role needs a known price."""
    minutes: float | None = Field(default=None, ge=0)
    """Wall-clock minutes."""


class Budget(Section):
    """What a run and one step may consume."""

    run: Limits = Limits()
    """Over all steps of the run; minutes are those of one command."""
    step: Limits = Limits()
    """Over one step."""


class Cache(Section):
    """Where answered calls are kept."""

    enabled: bool = True
    """Whether an answered call is kept and used again."""
    path: FileName | None = None
    """An SQLite file; by default `skillopt-ci/calls.sqlite` inside the repository's `.git`."""


class Git(Section):
    """Where training is recorded."""

    base: Argument | None = None
    """The branch that people work on; by default the one that the remote (or HEAD) points at."""
    remote: Argument | None = "origin"
    """Where steps are pushed; `null`, or a remote that does not exist, keeps them local."""
    author_name: Argument | None = None
    """Name on the commits; by default git's own identity."""
    author_email: Argument | None = None
    """Address on the commits; by default git's own identity."""
    commits: Literal["git", "api"] = "git"
    """`api`: GitHub makes the commits, so that they are signed and count as verified."""


class Config(Section):
    """A run: one skill, its tasks, two models and how to train."""

    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=64)
    """Name of the run: letters, digits, `-` and `_`, dots only inside, at most 64 characters.
    The skills branch is `skillopt/<run>`."""
    skill: FileName
    """The document to train; it must be committed on the base branch."""
    environment: EnvironmentSpec | None = None
    """Where tasks come from that are no task files: a name, a class, or its type and options."""
    tasks: TasksSpec | None = Field(default=None, validate_default=True)
    """Three files, one file and its division, or a split folder; not with `environment`."""
    scorer: ScorerSpec | None = None
    """For tasks that bring none of their own."""
    model: Models
    """Who solves, who edits and who grades."""
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
