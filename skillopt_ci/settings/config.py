"""The configuration of a run, section by section, under SkillOpt's key names where it has them."""

from typing import Literal

from pydantic import Field, model_validator

from skillopt_ci.settings.base import Section
from skillopt_ci.settings.scorer import ScorerSpec


class GivenSplits(Section):
    """`tasks` as three files."""

    train: str
    selection: str
    test: str | None = None
    limit: int = Field(default=0, ge=0)
    """Use only the first N tasks of each split; 0 means all."""


class RatioSplit(Section):
    """`tasks` as one file, divided by a seeded shuffle."""

    path: str
    split: str = Field(default="2:1:7", pattern=r"^[1-9]\d*:[1-9]\d*:[1-9]\d*$")
    """train:selection:test as positive whole numbers."""
    seed: int = 42
    limit: int = Field(default=0, ge=0)


class SplitDir(Section):
    """`tasks` as a SkillOpt split folder: `train/`, `val/`, `test/` with one JSON file each."""

    split_dir: str
    limit: int = Field(default=0, ge=0)


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)


class ModelRole(Section):
    """One model role: where it is called and with what."""

    provider: Literal["openai", "simulated"]
    model: str
    base_url: str | None = None
    """Root of an OpenAI-compatible API, up to and including `/v1`; the provider's own if absent."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key (never the key itself)."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Left out of the request if absent: many models accept only their own default."""
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Upper limit for every call of this role; stages may ask for less."""
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """How the server wants the limit called: older compatible servers say `max_tokens`."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    timeout: float = Field(default=300.0, gt=0)
    """Seconds for one try of one call."""
    retries: int = Field(default=6, ge=0)
    """Further tries after a failure that may pass."""
    max_concurrency: int = Field(default=16, gt=0)
    price: Price | None = None
    """Without one, cost is reported as unknown, never as zero."""
    seed: int = 0
    """Seed of the simulated provider."""
    extra_body: dict[str, object] = Field(default_factory=dict)
    """Further fields of the request body, for servers that want them."""


class Models(Section):
    """The model roles."""

    target: ModelRole
    """Reads the skill and solves the tasks; never changes."""
    optimizer: ModelRole
    """Reads trajectories and proposes edits."""
    judge: ModelRole | None = None
    """Grades rubrics; the optimizer's model if absent."""


class Train(Section):
    """The training schedule."""

    num_epochs: int = Field(default=4, gt=0)
    train_size: int = Field(default=0, ge=0)
    """0: the number of training tasks; otherwise it must equal that number."""
    batch_size: int = Field(default=40, gt=0)
    accumulation: int = Field(default=1, gt=0)
    """Batches per step."""
    seed: int = 42


class Gradient(Section):
    """How trajectories become proposed edits."""

    minibatch_size: int = Field(default=8, gt=0)
    """Trajectories per analyst call."""
    merge_batch_size: int = Field(default=8, ge=2)
    """Patches per merge call."""
    analyst_workers: int = Field(default=16, gt=0)
    """Analyst and merge calls under way at once."""
    failure_only: bool = False
    """Do not analyse successes."""
    max_trajectory_chars: int = Field(default=24_000, ge=500)
    """A longer trajectory keeps its head and tail in the analyst's prompt."""


class Optimizer(Section):
    """How much of a proposal is applied."""

    learning_rate: int = Field(default=4, ge=0)
    """Most edits in one step (and in one analyst's proposal)."""
    min_learning_rate: int = Field(default=2, ge=0)
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"

    @model_validator(mode="after")
    def _ordered(self) -> "Optimizer":
        if self.min_learning_rate > self.learning_rate and "min_learning_rate" in (
            self.model_fields_set
        ):
            raise ValueError("min_learning_rate must not exceed learning_rate")
        return self


class Evaluation(Section):
    """How a candidate is measured and judged."""

    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the soft score when `gate_metric: mixed`."""
    sel_env_num: int = Field(default=0, ge=0)
    """Selection tasks used: the first N; 0 means all."""
    test_env_num: int = Field(default=0, ge=0)
    max_error_rate: float = Field(default=0.2, ge=0, le=1)
    """Share of tasks that may end in infrastructure or grader errors before a step stops."""


class Limits(Section):
    """Limits of one scope; absent means none. Checked before each call."""

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    minutes: float | None = Field(default=None, ge=0)


class Budget(Section):
    """What a run and one step may consume."""

    run: Limits = Limits()
    """Over all steps of the run; minutes are those of one command."""
    step: Limits = Limits()


class Cache(Section):
    """Where answered calls are kept."""

    enabled: bool = True
    path: str | None = None
    """An SQLite file; by default `skillopt-ci/calls.sqlite` inside the repository's `.git`."""


class Git(Section):
    """Where training is recorded."""

    base: str | None = None
    """The branch that people work on; by default the one that the remote (or HEAD) points at."""
    remote: str | None = "origin"
    """Where steps are pushed; `null`, or a remote that does not exist, keeps them local."""
    author_name: str | None = None
    """By default git's own identity."""
    author_email: str | None = None


class Config(Section):
    """A run: one skill, its tasks, two models and how to train."""

    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=64)
    """Name of the run; the skills branch is `skillopt/<run>`."""
    skill: str
    """The document to train; it must be committed on the base branch."""
    tasks: GivenSplits | RatioSplit | SplitDir
    scorer: ScorerSpec | None = None
    """For tasks that bring none of their own."""
    model: Models
    prompts: str | None = None
    """A folder whose files replace the built-in prompts of the same name."""
    train: Train = Train()
    gradient: Gradient = Gradient()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()
    budget: Budget = Budget()
    cache: Cache = Cache()
    git: Git = Git()
