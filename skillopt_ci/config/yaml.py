"""YAML text to a tree that remembers where every key was written, and what is wrong with it.

Scalars are those of YAML 1.2 as people mean them (``2:1:7`` and ``2026-01-01`` are text, ``1e-9``
is a number), plus the ``yes``/``no`` of YAML 1.1. Only plain data is accepted, keys are text, and
a key that stands twice in a mapping is an error.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import yaml

from skillopt_ci.errors import ConfigError

Scalar = None | bool | int | float | str

#: Each names another way to give tasks.
_TASK_KINDS = ("train", "path", "split_dir")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a key stands: a line (from 1) of a file, or an ``-o`` of the command line."""

    file: Path | None = None
    line: int | None = None
    override: str = ""

    def __str__(self) -> str:
        if self.file is None:
            return f"-o {self.override}"
        return f"{self.file}:{self.line}" if self.line else f"{self.file}"


@dataclass(frozen=True, slots=True)
class Node:
    """A value with the place of its key. Mappings keep the order of the file."""

    value: "Scalar | tuple[Node, ...] | Mapping[str, Node]"
    mark: Mark

    @property
    def entries(self) -> "Mapping[str, Node]":
        """The keys of a mapping; of anything else, none."""
        return self.value if isinstance(self.value, Mapping) else {}


def plain(node: Node) -> object:
    if isinstance(node.value, Mapping):
        return {key: plain(child) for key, child in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, tuple) else node.value


def without(node: Node, *keys: str) -> Node:
    return replace(node, value={k: v for k, v in node.entries.items() if k not in keys})


def nested(path: Sequence[str], leaf: Node) -> Node:
    for key in reversed(path):
        leaf = Node({key: leaf}, leaf.mark)
    return leaf


def lookup(node: Node, path: Sequence[str | int]) -> Node:
    """The node at ``path``, or the deepest one on the way that exists."""
    for step in path:
        if isinstance(step, str) and step in node.entries:
            node = node.entries[step]
        elif isinstance(step, int) and isinstance(node.value, tuple) and step < len(node.value):
            node = node.value[step]
        else:
            break
    return node


def merge(base: Node, child: Node) -> Node:
    """Lay ``child`` over ``base``: mappings key by key, anything else replaced whole.

    A mapping of another kind than its base (a scorer of another ``type``, another provider with a
    model of its own) replaces it: what it inherited could not fit.
    """
    mappings = isinstance(base.value, Mapping) and isinstance(child.value, Mapping)
    if not mappings or len({_kind(base), _kind(child)} - {None}) > 1:
        return child
    merged = dict(base.entries)
    for key, value in child.entries.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return Node(merged, child.mark)


def _kind(node: Node) -> str | None:
    if "type" in node.entries:
        return str(plain(node.entries["type"]))
    if "provider" in node.entries and "model" in node.entries:
        return str(plain(node.entries["provider"]))
    found = [key for key in _TASK_KINDS if key in node.entries]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. ``key`` is the dotted path, empty for the file as a whole."""

    mark: Mark
    key: str
    text: str

    def __str__(self) -> str:
        origin = f"-o {self.mark.override}: " if self.mark.override else ""
        name = f"{self.key}: " if self.key and self.key != self.mark.override else ""
        return f"{origin}{name}{self.text}"

    def with_place(self) -> str:
        return f"{self.mark}: {self}" if self.mark.file else str(self)


class InvalidConfigError(ConfigError):
    """A configuration with all its ``problems``: a line each in the message, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=reading_order))
        first, *others = self.problems
        lines = [str(first), *(other.with_place() for other in others)]
        super().__init__("\n".join(lines), file=first.mark.file, line=first.mark.line)


def reading_order(problem: Problem) -> tuple[bool, str, int]:
    """Sorts by file and line, the command line last."""
    mark = problem.mark
    return (bool(mark.override), str(mark.file or ""), mark.line or 0)


_TAG = "tag:yaml.org,2002:"
#: Values that may come from aliases, which can contain one another or themselves.
_MOST_REPEATED = 100_000
_SCALARS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null"))


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader, for text of others: aliases cannot make it grow without a limit."""

    def get_single_node(self) -> yaml.Node | None:
        """The document's root; raises ``ComposerError`` if aliases repeat too much."""
        root = super().get_single_node()
        repeated, seen, waiting = 0, set[int](), [root] if root else []
        while waiting:
            node = waiting.pop()
            repeated += id(node) in seen
            seen.add(id(node))
            if repeated > _MOST_REPEATED:
                most = f"aliases repeat more than {_MOST_REPEATED:,} values"
                raise yaml.composer.ComposerError(None, None, most, node.start_mark)
            if isinstance(node, yaml.MappingNode):
                waiting += chain.from_iterable(node.value)
            elif isinstance(node, yaml.SequenceNode):
                waiting += node.value
        return root


def load_yaml(text: str) -> Any:
    """The value of one plain YAML document. Raises ``yaml.YAMLError``."""
    return yaml.load(text, BoundedLoader)  # noqa: S506 - a safe loader


def loader_of(**rules: str) -> type[BoundedLoader]:
    """A safe loader in which only what fits a YAML tag's pattern is more than text."""
    kind: type[BoundedLoader] = type("Loader", (BoundedLoader,), {"yaml_implicit_resolvers": {}})
    for tag, pattern in {**rules, "merge": "<<"}.items():
        kind.add_implicit_resolver(_TAG + tag, re.compile(rf"^(?:{pattern})$", re.ASCII), None)
    return kind


#: Without times, dates and numbers to the base of sixty.
_Loader = loader_of(
    null="~|null|Null|NULL|",
    bool="yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
    int="[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F]+",
    float=r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
)


def parse_yaml(text: str, mark: Mark, loading: type[BoundedLoader] = _Loader) -> Node:
    """Read one YAML document; ``loading`` types its scalars.

    With an override for ``mark`` every node gets that very mark. Raises InvalidConfigError.
    """
    try:
        loader = loading(text)
        root = loader.get_single_node()
        tree = _Composer(loader, mark).node(root, root) if root else Node({}, mark)
        return replace(tree, mark=mark)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _invalid(mark, line, what) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _invalid(mark, line, error.reason) from error
    except (yaml.YAMLError, ValueError) as error:
        raise _invalid(mark, None, " ".join(str(error).split())) from error
    except RecursionError as error:
        raise _invalid(mark, None, "nested too deeply") from error


def _invalid(mark: Mark, line: int | None, what: str) -> InvalidConfigError:
    place = Mark(mark.file, line, mark.override)
    return InvalidConfigError([Problem(place, mark.override, f"not valid YAML: {what}")])


@dataclass(frozen=True, slots=True)
class _Composer:
    _loader: BoundedLoader
    _origin: Mark
    _flattened: set[int] = field(default_factory=set)

    def node(self, raw: yaml.Node, place: yaml.Node) -> Node:
        """The tree of ``raw``, which is marked with the line of ``place``, its key."""
        mark = self._origin
        if mark.file is not None:
            mark = Mark(mark.file, place.start_mark.line + 1)
        if isinstance(raw, yaml.ScalarNode) and raw.tag in _SCALARS:
            return Node(cast("Scalar", self._loader.construct_object(raw)), mark)
        if isinstance(raw, yaml.SequenceNode) and raw.tag == _TAG + "seq":
            return Node(tuple(self.node(item, item) for item in raw.value), mark)
        if not isinstance(raw, yaml.MappingNode) or raw.tag != _TAG + "map":
            raise self._error(raw, f"the tag {raw.tag} is not allowed: only plain data is")
        if id(raw) not in self._flattened:
            self._flattened.add(id(raw))
            lines: dict[str, int] = {}
            for key, _ in raw.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise self._error(key, "a key must be text")
                if key.value in lines:
                    first = lines[key.value]
                    raise self._error(key, f"the key {key.value!r} is repeated from line {first}")
                lines[key.value] = key.start_mark.line + 1
            self._loader.flatten_mapping(raw)
        return Node({key.value: self.node(value, key) for key, value in raw.value}, mark)

    def _error(self, raw: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=raw.start_mark)
