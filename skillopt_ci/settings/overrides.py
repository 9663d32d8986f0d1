"""`-o section.key=value`: one key of the configuration, set on the command line."""

from skillopt_ci.errors import ConfigError
from skillopt_ci.settings.node import Mark, Node, nested
from skillopt_ci.settings.yaml_source import parse_yaml


def parse_override(text: str) -> Node:
    """The tree that sets one key; the value is YAML, so that `[a, b]`, `null` and `4` are typed.

    Raises :class:`~skillopt_ci.errors.ConfigError` when there is no `=`, no key or no valid value.
    """
    dotted, equals, value = text.partition("=")
    path = [step.strip() for step in dotted.split(".")]
    if not equals or not all(path):
        # What follows may hold a secret that was typed into the wrong place: only the key is shown.
        raise ConfigError(
            f"-o {dotted.strip()}: expected section.key=value",
            hint="for example -o train.num_epochs=2",
        )
    mark = Mark(override=".".join(path))
    leaf = parse_yaml(value, mark) if value.strip() else Node(None, mark)
    return nested(path, leaf)
