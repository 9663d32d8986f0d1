"""A configuration tree that remembers where every key was written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

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
        return self.value if isinstance(self.value, Mapping) else MappingProxyType({})


def plain(node: Node) -> object:
    """The bare value, as JSON would hold it."""
    if isinstance(node.value, Mapping):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value


def without(node: Node, *keys: str) -> Node:
    """A mapping less some of its keys."""
    return replace(node, value={k: v for k, v in node.entries.items() if k not in keys})


def nested(path: Sequence[str], leaf: Node) -> Node:
    """The tree that holds nothing but ``leaf`` at ``path``."""
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

    A mapping that is of another kind than its base (a scorer of another ``type``, tasks given
    another way, another provider with a model of its) replaces it, for what it inherited could not
    fit.
    """
    if not _mergeable(base, child):
        return child
    merged = dict(base.entries)
    for key, value in child.entries.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return Node(merged, child.mark)


def _mergeable(base: Node, child: Node) -> bool:
    if not (isinstance(base.value, Mapping) and isinstance(child.value, Mapping)):
        return False
    kinds = {_kind(base), _kind(child)} - {None}
    return len(kinds) <= 1


def _kind(node: Node) -> str | None:
    if "type" in node.entries:
        return str(plain(node.entries["type"]))
    if "provider" in node.entries and "model" in node.entries:
        return str(plain(node.entries["provider"]))
    found = [key for key in _TASK_KINDS if key in node.entries]
    return found[0] if len(found) == 1 else None
