"""What `init` offers of the places where models are served."""

from collections.abc import Mapping
from types import MappingProxyType

from skillopt_ci.config.providers import PROVIDERS, Preset, ProviderName

#: The providers that a configuration can be written for: all but the one that needs a command.
PRESETS: Mapping[ProviderName, Preset] = MappingProxyType(
    {name: preset for name, preset in PROVIDERS.items() if name != "command"}
)
_SMALL_SERVER = MappingProxyType({"max_concurrency": 2, "timeout": 900})
#: Further settings that suit a provider.
MORE: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {"ollama": _SMALL_SERVER, "llamacpp": _SMALL_SERVER}
)
