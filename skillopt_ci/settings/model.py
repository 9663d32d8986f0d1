"""The `model` section: who solves, who edits, who grades, and how each is called."""

from typing import Literal

from pydantic import AnyUrl, Field, field_validator, model_validator

from skillopt_ci.settings.base import Section


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    """Prompt tokens."""
    output: float = Field(ge=0)
    """Completion tokens, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Prompt tokens that the server had cached; the price of `input` if absent."""


#: Settings of a model role that a program cannot be given.
_ONLY_OVER_HTTP = frozenset(
    {
        "base_url",
        "api_key_env",
        "temperature",
        "max_output_tokens",
        "token_limit_field",
        "reasoning_effort",
        "extra_body",
        "seed",
    }
)


class ModelRole(Section):
    """One model role: where it is called and with what."""

    provider: Literal["openai", "command", "simulated"]
    """`openai`: any server that speaks OpenAI's chat protocol; `command`: a program that reads the
    prompt and prints the answer, such as an agent; `simulated`: no model at all."""
    model: str = Field(min_length=1)
    """The model's name as its server knows it. For a command, a name for reports: answers are kept
    under it, so change it (a version will do) when the program changes."""
    command: tuple[str, ...] = ()
    """Program and arguments of `provider: command`; never a shell line. The prompt is on standard
    input, the answer on standard output; the end of standard error is the trace that analysts see.
    It runs in an empty folder of its own; `{root}` names the configuration's."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the command may see besides PATH, HOME and LANG."""
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

    @model_validator(mode="after")
    def _fits_the_provider(self) -> "ModelRole":
        if (self.provider == "command") != bool(self.command):
            raise ValueError("`provider: command` and `command` belong together: give both")
        if self.provider == "command":
            idle = self.model_fields_set & _ONLY_OVER_HTTP
            if idle:
                raise ValueError(f"a command has no {', '.join(sorted(idle))}")
        elif self.env:
            raise ValueError("`env` is for `provider: command`")
        return self

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
