"""Records of a YAML file, with their lines."""

import re
from collections.abc import Hashable, Iterator
from functools import partial

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from skillopt_ci.tasks.problems import Problem
from skillopt_ci.tasks.source import Record, SourceText


class TaskLoader(yaml.SafeLoader):
    """Safe YAML in which only what JSON also has is more than text.

    Dates, ``yes``, ``12:30`` and ``007`` stay the text that stands there: they are answers far
    more often than they are dates, truth values or octal numbers. A repeated key is an error.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """Build the mapping; raises ``ConstructorError`` at a key that stands twice."""
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, ScalarNode)):
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(0|[1-9]\d*)", list("-+0123456789")),
    ("float", r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", list("-+0123456789")),
    ("merge", r"<<", ["<"]),
):
    TaskLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$", re.ASCII), _first
    )


def read_yaml(source: SourceText) -> Iterator[Record | Problem]:
    """Records of a YAML list."""
    try:
        loader = TaskLoader(source.text)
        root = loader.get_single_node()
        if root is None:
            return
        if not isinstance(root, SequenceNode):
            yield Problem(source.file, _line(root), "expected a list of tasks")
            return
        for node in root.value:
            yield _record(source, loader, node)
    except RecursionError:
        yield Problem(source.file, None, "invalid YAML: nested too deeply")
    except yaml.YAMLError as error:
        yield _problem(source, error)


def _record(source: SourceText, loader: TaskLoader, node: Node) -> Record | Problem:
    if not isinstance(node, MappingNode):
        return Problem(source.file, _line(node), "expected a mapping for each task")
    lines = {str(key.value): _line(key) for key, _ in node.value}
    value = loader.construct_document(node)
    if odd := [key for key in value if not isinstance(key, str)]:
        return Problem(source.file, _line(node), f"key {odd[0]!r} is not text; write it in quotes")
    return Record(value, source.file, _line(node), partial(_key_line, lines, _line(node)))


def _key_line(lines: dict[str, int], default: int, key: str) -> int:
    return lines.get(key, default)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _problem(source: SourceText, error: yaml.YAMLError) -> Problem:
    if isinstance(error, ReaderError):
        return Problem(source.file, source.line_at(error.position), f"invalid YAML: {error.reason}")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(source.file, None, f"invalid YAML: {error}")
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    return Problem(source.file, line, f"invalid YAML: {error.problem or error.context}")
