"""The `environment` key: where tasks come from, where that is more than a task file."""

from pydantic import ConfigDict, Field

from skillopt_ci.settings.base import Section


class EnvironmentSettings(Section):
    """An environment with options of its own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(min_length=1)
    """Name of an entry point, `package.module:Class` or `path/to/file.py:Class`."""


EnvironmentSpec = str | EnvironmentSettings
