"""The `model` section: who solves, who edits, who grades, and how each is called."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Annotated, Literal

from pydantic import AnyUrl, Field, TypeAdapter, field_validator, model_validator

from skillopt_ci.config.base import Argument, FileName, Section
from skillopt_ci.config.yaml import Node
from skillopt_ci.util import did_you_mean

# The providers: where each is reached, what its key is called and what it understands. A preset
# (they stand in `providers.toml`) says what can be said of a provider as a whole. What differs from
# model to model (a temperature that is refused, a schema that is not understood) shows in calling.

ProviderName = Literal[
    "openai", "azure", "anthropic", "gemini", "qwen", "minimax",
    "openrouter", "groq", "deepseek", "mistral", "together",
    "ollama", "vllm", "llamacpp", "litellm", "compatible",
    "copilot", "claude-code", "codex", "cursor", "command", "simulated",
]  # fmt: skip
#: `chat` is OpenAI's chat completions, `messages` Anthropic's API.
Protocol = Literal["chat", "messages", "command", "simulated"]
LimitField = Literal["max_completion_tokens", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider.

    ``key`` names the variable of its key, which may be unset if ``key_optional``. ``structured`` is
    how a reply can be held to a schema, ``thinking`` has the fields of a request that turn thinking
    on and off, ``thinking_hint`` what to do without such a switch, ``body`` those of every request.
    ``carried`` names fields of an answer that must come back with its tool calls. ``caching`` says
    who has the beginning of a prompt read only once. ``program`` and ``variables`` are an agent's
    command and what it may see of the environment, ``same_key`` variables that are filled from
    another where they are not set, ``target`` and ``optimizer`` examples of models.
    """

    title: str
    protocol: Protocol = "chat"
    base_url: str = ""
    key: str = ""
    key_optional: bool = False
    limit_field: LimitField = "max_tokens"
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    tools: bool = True
    images: bool = True
    caching: Literal["marked", "automatic", "server", "unknown"] = "unknown"
    regions: Mapping[str, str] = field(default_factory=dict)
    thinking: Mapping[bool, Mapping[str, object]] = field(default_factory=dict)
    thinking_hint: str = ""
    body: Mapping[str, object] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    target: str = ""
    optimizer: str = ""
    program: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    same_key: Mapping[str, str] = field(default_factory=dict)

    def with_keys(self, environ: Mapping[str, str]) -> dict[str, str]:
        """``environ`` with the variables that ``same_key`` fills."""
        return {
            **{name: environ[other] for name, other in self.same_key.items() if other in environ},
            **environ,
        }


PROVIDERS: Mapping[ProviderName, Preset] = TypeAdapter(dict[ProviderName, Preset]).validate_python(
    tomllib.loads(resources.files(__package__).joinpath("providers.toml").read_text("utf-8"))
)


class Price(Section):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    """Prompt tokens."""
    output: float = Field(ge=0)
    """Completion tokens, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Prompt tokens read from the server's cache; null: the price of `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """Prompt tokens written to the server's cache; null: the price of `input`."""


class Azure(Section):
    """Settings of Azure OpenAI besides the address."""

    auth: Literal["key", "azure_cli", "managed_identity"] = "key"
    """Authenticate with a key, the account of `az login`, or the machine's managed identity."""
    api_version: str | None = Field(default=None, min_length=1)
    """For resources without the v1 address: the dated version of their older interface."""
    client_id: str | None = Field(default=None, min_length=1)
    """The managed identity to use, if the machine has several."""
    scope: str = "https://cognitiveservices.azure.com/.default"
    """Scope of the requested token."""


#: Settings of a model role that only a server can be given.
_ONLY_OVER_HTTP = {
    *("base_url", "api_key_env", "api_key_file", "region", "azure", "api", "temperature"),
    *("thinking", "max_output_tokens", "token_limit_field", "reasoning_effort"),
    *("structured_output", "extra_body", "headers", "seed"),
}
#: A variable in a header's value.
PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderText = Annotated[str, Field(pattern=r"^[ -~]*$")]


class ModelRole(Section):
    """One model role: which model, where and how to call it."""

    provider: ProviderName
    """Who serves the model; this sets address, key and protocol. `compatible`, or `openai` with a
    `base_url`: any server that speaks OpenAI's chat protocol; `copilot`, `claude-code`, `codex` and
    `cursor`: an agent on the command line; `command`: a program that reads the prompt and prints
    the answer; `simulated`: no model at all."""
    model: str = Field(min_length=1)
    """The model's name, as its server knows it. A command's answers are cached under this name:
    change it when the program changes."""
    command: tuple[Argument, ...] = ()
    """Program and arguments for `provider: command`, run without a shell in an empty folder. The
    prompt is on standard input, the answer on standard output; analysts see the end of standard
    error as the trace. `{root}` is the configuration's folder, `{model}` the model."""
    env: tuple[str, ...] = ()
    """Environment variables the command may see besides PATH, HOME and LANG."""
    base_url: str | None = None
    """Root of the API, for OpenAI's protocol including `/v1`; null: the provider's own. For Azure,
    the resource's address."""
    region: str | None = None
    """If the provider has several: `intl`, `cn` or `us`."""
    azure: Azure | None = None
    """Further settings for `provider: azure`."""
    api: Literal["chat", "responses"] | None = None
    """OpenAI's interface; null: `responses` for models that have no other."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable that holds the key, never the key itself."""
    api_key_file: FileName | None = None
    """A file that contains only the key, instead of a variable; `~` is the home folder."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; null: not sent, because many models accept only their default."""
    max_output_tokens: int | None = Field(default=None, gt=0)
    """Maximum tokens of every answer in this role; stages may ask for less."""
    token_limit_field: LimitField | None = None
    """The server's name for that limit; older compatible servers expect `max_tokens`."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    """How long a reasoning model thinks; null: not sent."""
    thinking: bool | None = None
    """The provider's switch for thinking, if it has one; null: the model decides."""
    # YAML reads a bare `off` as false.
    structured_output: Literal["auto", "off", False] = "auto"
    """Ask the server to enforce the JSON Schema of replies, if it can."""
    timeout: float = Field(default=300.0, gt=0)
    """Seconds for one try of a call."""
    retries: int = Field(default=6, ge=0)
    """Retries after a temporary failure: 6 outlast an outage of 0.5 minutes, 10 one of 2.5."""
    max_concurrency: int = Field(default=16, gt=0)
    """Maximum concurrent calls."""
    price: Price | None = None
    """Overrides the price table (genai-prices). If neither knows the model, its cost is unknown,
    never zero."""
    seed: int = 0
    """Seed of the simulated provider."""
    extra_body: dict[str, object] = Field(default_factory=dict)
    """Further fields of the request body."""
    headers: dict[HeaderName, HeaderText] = Field(default_factory=dict)
    """Further headers of each request, for gateways: `x-api-key: ${GATEWAY_KEY}`. `${NAME}` is
    replaced with that environment variable, so that no secret is in the file."""

    @property
    def preset(self) -> Preset:
        return PROVIDERS[self.provider]

    @property
    def key_variable(self) -> str | None:
        """The variable that holds the key; None where none is sent.

        A provider's usual key is never sent to another server unless `api_key_env` says so.
        """
        if self.api_key_env or self.preset.protocol in ("command", "simulated"):
            return self.api_key_env
        if self.azure is not None and self.azure.auth != "key":
            return None
        own = (None, self.preset.base_url, *self.preset.regions.values())
        trusted = self.provider == "azure" or self.preset.key_optional
        is_own = trusted or (self.base_url and self.base_url.rstrip("/")) in own
        return self.preset.key or None if is_own else None

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """Names of the variables whose values only the server may see."""
        named = PLACEHOLDER.findall(" ".join(self.headers.values()))
        return tuple(filter(None, [self.key_variable, *named]))

    @property
    def program(self) -> tuple[str, ...]:
        """Of a command or an agent; empty for a server."""
        return self.command or self.preset.program

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the environment variables that the program may see."""
        return tuple(dict.fromkeys((*self.preset.variables, *self.env)))

    @model_validator(mode="after")
    def _fits_the_provider(self) -> "ModelRole":
        if self.api_key_env and self.api_key_file:
            raise ValueError("`api_key_env` and `api_key_file` conflict: give one of them")
        runs_program = self.preset.protocol == "command"
        if runs_program != bool(self.program):
            raise ValueError("`provider: command` and `command` belong together: give both")
        if not runs_program:
            self._fits_the_server()
        else:
            fields = type(self).model_fields
            idle = sorted(
                name
                for name in self.model_fields_set & _ONLY_OVER_HTTP
                if getattr(self, name) != fields[name].get_default(call_default_factory=True)
            )
            if idle:
                raise ValueError(f"a command has no {', '.join(idle)}")
        return self

    def _fits_the_server(self) -> None:
        preset, provider = self.preset, self.provider
        no_address = provider in ("azure", "compatible") and self.base_url is None
        seed, stream = self.seed and provider != "simulated", self.extra_body.get("stream")
        for wrong, text in (
            (self.env, "`env` is for `provider: command`"),
            (no_address, f"`provider: {provider}` needs a base_url"),
            (seed, "`seed` is for `provider: simulated`; write it into `extra_body`"),
            (stream, "answers are not streamed: choose a model that needs no `stream`"),
            (self.azure and provider != "azure", "`azure` is for `provider: azure`"),
        ):
            if wrong:
                raise ValueError(text)
        if self.region is not None and self.region not in preset.regions:
            known = ", ".join(preset.regions) or "none"
            hint = did_you_mean(self.region, tuple(preset.regions))
            raise ValueError(f"{preset.title} has no region {self.region!r}{hint}; known: {known}")
        if self.thinking is not None and self.thinking not in preset.thinking:
            why = preset.thinking_hint or "see reasoning_effort and extra_body"
            wish = str(self.thinking).lower()
            raise ValueError(f"{preset.title} has no switch for `thinking: {wish}`; {why}")
        if self.api == "responses" and preset.protocol != "chat":
            raise ValueError(f"{preset.title} has no interface called responses")

    @field_validator("base_url")
    @classmethod
    def _plain_web_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not (value.startswith(("http://", "https://")) and value.isprintable()) or " " in value:
            raise ValueError(
                "expected an address that begins with https:// or http://, without spaces"
            )
        url = AnyUrl(value)
        if url.username or url.password or "?" in value or "#" in value:
            raise ValueError(
                "a key does not belong in the address, nor anything from `?` or `#` on: name the "
                "key with api_key_env, an older Azure API's version with azure.api_version"
            )
        return value


class Models(Section):
    """The model roles."""

    target: ModelRole
    """Reads the skill and solves the tasks; never changes."""
    optimizer: ModelRole
    """Reads trajectories and proposes edits."""
    judge: ModelRole | None = None
    """Grades rubrics; null: the optimizer's model."""

    @property
    def roles(self) -> dict[str, ModelRole]:
        return {name: role for name, role in self if role is not None}


def with_long_roles(layer: Node) -> Node:
    """Every `provider/model` as a mapping; text of another form stays for validation."""
    model, roles = layer.entries.get("model"), {}
    for role in Models.model_fields:
        node = model.entries.get(role) if model else None
        if node and isinstance(node.value, str):
            provider, _, name = node.value.partition("/")
            if provider and name:
                entries = {"provider": Node(provider, node.mark), "model": Node(name, node.mark)}
                roles[role] = replace(node, value=entries)
    if model is None or not roles:
        return layer
    section = replace(model, value={**model.entries, **roles})
    return replace(layer, value={**layer.entries, "model": section})
