"""The configuration of a run, section by section, under SkillOpt's key names where it has them."""

from typing import Annotated, Literal

from pydantic import AnyUrl, Discriminator, Field, Tag, field_validator

from skillopt_ci.settings.alternatives import choose_alternative
from skillopt_ci.settings.base import Section
from skillopt_ci.settings.scorer import ScorerSpec

FileName = Annotated[str, Field(min_length=1)]


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
    """`tasks` as a SkillOpt split folder: `train/`, `val/`, `test/` with one JSON file each."""

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


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    """Prompt tokens."""
    output: float = Field(ge=0)
    """Completion tokens, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Prompt tokens that the server had cached; the price of `input` if absent."""


class ModelRole(Section):
    """One model role: where it is called and with what."""

    provider: Literal["openai", "simulated"]
    """`openai`: any server that speaks OpenAI's chat protocol; `simulated`: no model at all."""
    model: str = Field(min_length=1)
    """The model's name as its server knows it."""
    base_url: str | None = None
    """Root of an OpenAI-compatible API, up to and including `/v1`; OpenAI's own if absent."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the key (never the key itself)."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Left out of the request if absent: many models accept only their own default."""
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Upper limit for every call of this role; stages may ask for less."""
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"  # noqa: S105 (a name)
    """How the server wants the limit called: older compatible servers say `max_tokens`."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    """How long a reasoning model thinks; left out of the request if absent."""
    timeout: float = Field(default=300.0, gt=0)
    """Seconds for one try of one call."""
    retries: int = Field(default=6, ge=0)
    """Further tries after a failure that may pass."""
    max_concurrency: int = Field(default=16, gt=0)
    """Calls under way at once."""
    price: Price | None = None
    """Without one, cost is reported as unknown, never as zero."""
    seed: int = 0
    """Seed of the simulated provider."""
    extra_body: dict[str, object] = Field(default_factory=dict)
    """Further fields of the request body, for servers that want them."""

    @field_validator("base_url")
    @classmethod
    def _plain_web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("expected an address that begins with https:// or http://")
        if AnyUrl(value).password is not None:
            raise ValueError("a key does not belong in the address; name it with api_key_env")
        return value


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
    """Passes over the training tasks."""
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
    """Where the schedule ends: most edits in the last step, never more than `learning_rate`."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    """How the number of edits falls from `learning_rate` to `min_learning_rate` over the run."""


class Evaluation(Section):
    """How a candidate is measured and judged."""

    gate_metric: Literal["hard", "soft", "mixed"] = "hard"
    """Score that the gate compares: solved or not, partial credit, or a mixture of both."""
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of the soft score when `gate_metric: mixed`."""
    sel_env_num: int = Field(default=0, ge=0)
    """Selection tasks used: the first N; 0 means all."""
    test_env_num: int = Field(default=0, ge=0)
    """Test tasks used: the first N; 0 means all."""
    max_error_rate: float = Field(default=0.2, ge=0, le=1)
    """Share of tasks that may end in infrastructure or grader errors before a step stops."""


class Limits(Section):
    """Limits of one scope; absent means none. Checked before each call."""

    calls: int | None = Field(default=None, ge=0)
    """Model calls that were really made (answers from the cache are free)."""
    tokens: int | None = Field(default=None, ge=0)
    """Prompt and completion tokens together."""
    cost_usd: float | None = Field(default=None, ge=0)
    """US dollars; needs the `price` of every model role."""
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

    base: str | None = None
    """The branch that people work on; by default the one that the remote (or HEAD) points at."""
    remote: str | None = "origin"
    """Where steps are pushed; `null`, or a remote that does not exist, keeps them local."""
    author_name: str | None = None
    """Name on the commits; by default git's own identity."""
    author_email: str | None = None
    """Address on the commits; by default git's own identity."""


class Config(Section):
    """A run: one skill, its tasks, two models and how to train."""

    run: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$", max_length=64)
    """Name of the run: letters, digits, `-` and `_`, dots only inside, at most 64 characters.
    The skills branch is `skillopt/<run>`."""
    skill: FileName
    """The document to train; it must be committed on the base branch."""
    tasks: TasksSpec
    """Where the tasks come from: three files, one file and its division, or a split folder."""
    scorer: ScorerSpec | None = None
    """For tasks that bring none of their own."""
    model: Models
    """Who solves, who edits and who grades."""
    prompts: FileName | None = None
    """A folder whose files replace the built-in prompts of the same name."""
    train: Train = Train()
    gradient: Gradient = Gradient()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()
    budget: Budget = Budget()
    cache: Cache = Cache()
    git: Git = Git()
