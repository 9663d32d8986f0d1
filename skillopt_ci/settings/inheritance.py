"""`_base_: other.yaml`: configuration files that build on each other."""

import os
from pathlib import Path

from skillopt_ci.settings.node import Mark, Node, without
from skillopt_ci.settings.problem import InvalidConfigError, Problem
from skillopt_ci.settings.yaml_source import parse_yaml

BASE = "_base_"


def read_layers(file: Path) -> tuple[Node, ...]:
    """The trees of a file's bases, the remotest first, and of the file itself.

    A base is found relative to the file that names it. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a file that cannot be read and for a cycle.
    """
    layers: list[Node] = []
    chain: list[Path] = []
    following: tuple[Path, Mark] | None = (file, Mark(file))
    while following:
        current, asked = following
        _refuse_cycle(chain, current, asked)
        chain.append(current)
        tree = _read(current, asked)
        layers.insert(0, without(tree, BASE))
        following = _base(tree, current)
    return tuple(layers)


def _base(tree: Node, file: Path) -> tuple[Path, Mark] | None:
    node = tree.entries.get(BASE)
    if node is None:
        return None
    if isinstance(node.value, tuple):
        raise _invalid(node.mark, "expected one file, found a list: let one base build on the next")
    if not isinstance(node.value, str) or not node.value:
        raise _invalid(node.mark, "expected the name of one file")
    return Path(os.path.normpath(file.parent / node.value)), node.mark


def _refuse_cycle(chain: list[Path], file: Path, asked: Mark) -> None:
    if file.resolve() in [seen.resolve() for seen in chain]:
        names = " → ".join(str(seen) for seen in [*chain, file])
        raise _invalid(asked, f"these files build on each other in a circle: {names}")


def _read(file: Path, asked: Mark) -> Node:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        name = f"{file} " if asked.line else ""
        raise _invalid(asked, f"{name}cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid(Mark(file), f"not UTF-8 text (byte {error.start})") from error
    tree = parse_yaml(text, Mark(file, 1))
    if not isinstance(tree.value, dict):
        raise _invalid(Mark(file, 1), "expected a mapping of sections, such as `run:` and `skill:`")
    return tree


def _invalid(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, BASE if mark.line else "", text)])
