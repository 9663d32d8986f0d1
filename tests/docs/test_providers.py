from collections.abc import Iterator
from pathlib import Path

import pytest

from skillopt_ci.config.models import PROVIDERS, ModelRole, Preset
from skillopt_ci.model.budget import tariff_of

DOCUMENT = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")

_STRUCTURED = {"json_schema": "schema", "json_object": "JSON only", "none": "—"}
_CACHING = {
    "marked": "marked by us",
    "automatic": "automatic",
    "server": "in the server",
    "unknown": "unknown",
}
_PROTOCOLS = {
    "chat": "`test_providers.py`: chat",
    "messages": "`test_providers.py`: messages",
    "command": "`test_command_client.py`",
    "simulated": "`tests/demo/`",
}


def _yes(value: object) -> str:
    return "yes" if value else "—"


def _thinking(preset: Preset) -> str:
    switch = "switch" if len(preset.thinking) == 2 else "off switch" if preset.thinking else ""
    is_server = preset.protocol not in ("command", "simulated")
    effort = "effort" if is_server else ""
    return ", ".join(filter(None, (effort, switch))) or "—"


def reached() -> Iterator[str]:
    yield "| provider | address | key | token limit |"
    yield "| --- | --- | --- | --- |"
    for name, preset in PROVIDERS.items():
        if preset.protocol not in ("command", "simulated"):
            url = f"`{preset.base_url}`" if preset.base_url else "`base_url`"
            key = f"`{preset.key}`" if preset.key else "`api_key_env`"
            optional = " (optional)" if preset.key_optional or not preset.key else ""
            yield f"| `{name}` | {url} | {key}{optional} | `{preset.limit_field}` |"


def features() -> Iterator[str]:
    yield (
        "| provider | tools | structured output | images | reasoning | prompt cache | usage | "
        "tested by |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, preset in PROVIDERS.items():
        is_server = preset.protocol not in ("command", "simulated")
        images = "as files" if preset.images and not is_server else _yes(preset.images)
        cells = (
            f"`{name}`",
            _yes(preset.tools),
            _STRUCTURED[preset.structured],
            images,
            _thinking(preset),
            _CACHING[preset.caching] if is_server else "—",
            "reported" if is_server else "estimated",
            _PROTOCOLS[preset.protocol],
        )
        yield f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("table", [reached, features], ids=["reached", "features"])
def test_the_table_is_what_the_presets_say(table):
    expected = "\n".join(table())
    assert expected in DOCUMENT, f"the table of docs/providers.md should read:\n\n{expected}\n"


def test_regions_stand_in_the_document():
    for preset in PROVIDERS.values():
        for region, url in preset.regions.items():
            assert f"| `{region}` | `{url}` |" in DOCUMENT


@pytest.mark.parametrize(
    "name", ["anthropic", "deepseek", "gemini", "groq", "minimax", "mistral", "openai", "together"]
)
def test_the_example_models_are_ones_that_the_price_table_knows(name):
    """A retired or misspelt name is not, or is priced as another; some providers have no prices."""
    for model in (PROVIDERS[name].target, PROVIDERS[name].optimizer):
        told = tariff_of(ModelRole(provider=name, model=model)).text
        assert f"/{model} in ".lower() in told.lower()
