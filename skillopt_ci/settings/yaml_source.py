"""YAML text to a :class:`~skillopt_ci.settings.node.Node`: strict, with a line for every key.

Scalars are those of YAML 1.2 as people mean them (``2:1:7`` and ``2026-01-01`` are text, ``1e-9``
is a number), plus the ``yes``/``no`` of YAML 1.1. Only plain data is accepted, keys are text, and
a key that stands twice in a mapping is an error.
"""

import re
from collections.abc import Iterator
from typing import cast

import yaml

from skillopt_ci.settings.node import Mark, Node, Scalar
from skillopt_ci.settings.problem import InvalidConfigError, Problem

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null"))
_NUMBERS = {
    "int": r"[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without times, dates and numbers to the base of sixty."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the name and the shape are PyYAML's)
        first: [(tag, rule) for tag, rule in rules if tag in {_TAG + "bool", _TAG + "null"}]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


for _kind, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(
        _TAG + _kind, re.compile(rf"^(?:{_pattern})$"), list("-+.0123456789")
    )
_Loader.add_implicit_resolver(_TAG + "merge", re.compile(r"^<<$"), ["<"])


def parse_yaml(text: str, mark: Mark) -> Node:
    """Read one YAML document; an empty one is an empty mapping.

    Lines are those of ``mark.file``; where ``mark`` is an override, every node gets that very mark.
    Raises :class:`~skillopt_ci.errors.ConfigError`.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        return _Composer(loader, mark).node(root, mark) if root else Node({}, mark)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _invalid(mark, line, what) from error
    except (yaml.YAMLError, ValueError) as error:
        raise _invalid(mark, None, " ".join(str(error).split())) from error
    except RecursionError as error:
        raise _invalid(mark, None, "nested too deeply, or an alias that contains itself") from error


def _invalid(mark: Mark, line: int | None, what: str) -> InvalidConfigError:
    place = Mark(mark.file, line, mark.override)
    return InvalidConfigError([Problem(place, mark.override, f"not valid YAML: {what}")])


class _Composer:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, loader: _Loader, origin: Mark) -> None:
        self._loader = loader
        self._origin = origin
        self._flattened: set[int] = set()

    def node(self, raw: yaml.Node, mark: Mark) -> Node:
        if isinstance(raw, yaml.MappingNode) and raw.tag == _TAG + "map":
            return Node(dict(self._entries(raw)), mark)
        if isinstance(raw, yaml.SequenceNode) and raw.tag == _TAG + "seq":
            return Node(tuple(self.node(item, self._mark(item)) for item in raw.value), mark)
        if isinstance(raw, yaml.ScalarNode) and raw.tag in _SCALARS:
            return Node(cast("Scalar", self._loader.construct_object(raw)), mark)
        raise self._error(raw, f"the tag {raw.tag} is not allowed: only plain data is")

    def _entries(self, raw: yaml.MappingNode) -> Iterator[tuple[str, Node]]:
        if id(raw) not in self._flattened:
            self._flattened.add(id(raw))
            self._refuse_duplicates(raw)
            self._loader.flatten_mapping(raw)
        for key, value in raw.value:
            yield key.value, self.node(value, self._mark(key))

    def _refuse_duplicates(self, raw: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in raw.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a key must be text")
            if key.value in lines:
                first = lines[key.value]
                raise self._error(key, f"the key {key.value!r} stands already in line {first}")
            lines[key.value] = key.start_mark.line + 1

    def _mark(self, raw: yaml.Node) -> Mark:
        if self._origin.file is None:
            return self._origin
        return Mark(self._origin.file, raw.start_mark.line + 1)

    def _error(self, raw: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=raw.start_mark)
