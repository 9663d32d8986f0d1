"""What calls cost: by the configuration's own price, else by a maintained table, else unknown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.config.models import ModelRole, Models, Price
from skillopt_ci.model.types import Usage

Source = Literal["configuration", "table", "simulated", "unknown"]

#: Providers that the table knows, by our names; Gemini is Google's there.
_IN_TABLE = (
    *("anthropic", "azure", "deepseek", "gemini", "groq", "minimax", "mistral", "openai"),
    *("openrouter", "together"),
)
#: The protocol of this one is spoken by others: at another address it says nothing of the price.
_COMPATIBLE = "openai"


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a role's calls cost; ``text`` says it for people, ``source`` who said so."""

    source: Source
    text: str
    cost_usd: Callable[[Usage], float | None]
    """US dollars for the usage of one call; None if that is not known."""

    @property
    def known(self) -> bool:
        """Whether every call's cost is known."""
        return self.source != "unknown"

    def priced(self, usage: Usage) -> float | None:
        """The cost of one call: the provider's own figure, if it gave one, goes first."""
        return usage.cost_usd or self.cost_usd(usage)


def tariff_of(config: ModelRole) -> Tariff:
    """The tariff of a role."""
    if config.provider == "simulated":
        return Tariff("simulated", "simulated, costs nothing", lambda _: 0.0)
    price = config.price
    if price is not None:
        return Tariff("configuration", _words(price), lambda usage: cost_usd(usage, price))
    return _from_table(config) or Tariff("unknown", "no price known", lambda _: None)


def tariffs(models: Models) -> dict[str, Tariff]:
    """The tariff of every role; the judge is the optimizer's model if it has none of its own."""
    judge = models.judge or models.optimizer
    roles = {"target": models.target, "optimizer": models.optimizer, "judge": judge}
    return {name: tariff_of(config) for name, config in roles.items()}


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """What ``usage`` costs in US dollars at ``price``; None without one."""
    if price is None:
        return None
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    written = min(usage.cache_write_tokens, usage.prompt_tokens - cached)
    parts = (
        (usage.prompt_tokens - cached - written, price.input),
        (cached, price.input if price.cached_input is None else price.cached_input),
        (written, price.input if price.cache_write is None else price.cache_write),
        (usage.completion_tokens, price.output),
    )
    return sum(tokens * dollars for tokens, dollars in parts) / 1e6


def _words(price: Price) -> str:
    return f"${price.input:g} in, ${price.output:g} out per million tokens (configured)"


def _from_table(config: ModelRole) -> Tariff | None:
    # Imported late: offline commands do without the table.
    from genai_prices import __version__  # noqa: PLC0415
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    for name, address in _places(config):
        try:
            provider, model = get_snapshot().find_provider_model(config.model, None, name, address)
        except LookupError:
            continue
        cost = _priced_by(provider.id, model.id)
        probe = cost(Usage(calls=1, prompt_tokens=1, completion_tokens=1))
        if probe is not None:
            told = f"{provider.id}/{model.id} in genai-prices {__version__}"
            return Tariff("table", told, cost)
    return None


def _places(config: ModelRole) -> list[tuple[str | None, str | None]]:
    """Where the table may know the model: at the address, then under the provider's name."""
    places: list[tuple[str | None, str | None]] = []
    if config.base_url:
        places.append((None, config.base_url))
    if config.provider in _IN_TABLE and not (config.base_url and config.provider == _COMPATIBLE):
        places.append(("google" if config.provider == "gemini" else config.provider, None))
    return places


def _priced_by(provider: str, model: str) -> Callable[[Usage], float | None]:
    from genai_prices import Usage as Counted  # noqa: PLC0415
    from genai_prices import calc_price  # noqa: PLC0415

    def cost(usage: Usage) -> float | None:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        counted = Counted(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.cache_write_tokens, usage.prompt_tokens - cached),
            output_tokens=usage.completion_tokens,
        )
        try:
            return float(calc_price(counted, model, provider_id=provider).total_price)
        except (LookupError, ValueError):
            return None

    return cost
