"""Files that build on each other (`_base_: other.yaml`), and several runs in one file (`runs:`)."""

import os
from pathlib import Path

from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    lookup,
    merge,
    nearest,
    parse_yaml,
    plain,
    without,
)

BASE = "_base_"
RUNS = "runs"


def read_layers(file: Path) -> tuple[Node, ...]:
    """The trees of a file's bases, the remotest first, and of the file itself.

    A base is found relative to the file that names it. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a file that cannot be read and for a cycle.
    """
    layers: list[Node] = []
    chain: list[Path] = []
    mark = Mark(file)
    while True:
        if file.resolve() in [seen.resolve() for seen in chain]:
            names = " → ".join(map(str, [*chain, file]))
            raise _invalid_base(mark, f"these files build on each other in a circle: {names}")
        chain.append(file)
        tree = _read(file, mark)
        layers.insert(0, without(tree, BASE))
        if BASE not in tree.entries:
            return tuple(layers)
        base = tree.entries[BASE]
        mark = base.mark
        if isinstance(base.value, tuple):
            text = "expected one file, found a list: let one base build on the next"
            raise _invalid_base(mark, text)
        if not isinstance(base.value, str) or not base.value:
            raise _invalid_base(mark, "expected the name of one file")
        file = Path(os.path.normpath(file.parent / base.value))


def _read(file: Path, asked: Mark) -> Node:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        name = f"{file} " if asked.line else ""
        raise _invalid_base(asked, f"{name}cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid_base(Mark(file), f"not UTF-8 text (byte {error.start})") from error
    tree = parse_yaml(text, Mark(file, 1))
    if not isinstance(tree.value, dict):
        text = "expected a mapping of sections, such as `run:` and `skill:`"
        raise _invalid_base(Mark(file, 1), text)
    return tree


def _invalid_base(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, BASE if mark.line else "", text)])


def runs_of(tree: Node) -> dict[str, Node]:
    """The runs that ``tree`` describes, by name; one without a list is its own only run.

    A name that is no text is left to validation, under the name it would print as. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a list that is none, is empty, or names a run
    twice or not at all.
    """
    listed = tree.entries.get(RUNS)
    if listed is None:
        return {_name(tree): tree}
    if not isinstance(listed.value, tuple) or not listed.value:
        text = "expected a list of runs, each with `run:` and its own settings"
        raise InvalidConfigError([Problem(listed.mark, RUNS, text)])
    problems, runs, common = list[Problem](), dict[str, Node](), without(tree, RUNS)
    for entry in listed.value:
        name = _name(entry)
        if not name:
            problems.append(Problem(entry.mark, RUNS, "each run of the list needs its `run:`"))
        elif name in runs:
            problems.append(Problem(entry.mark, RUNS, f"{name!r} stands here a second time"))
        runs[name] = merge(common, entry)
    if problems:
        raise InvalidConfigError(problems)
    return runs


def choose_run(tree: Node, name: str | None) -> Node:
    """The tree of the run called ``name``; without one, of the only run there is.

    Raises :class:`~skillopt_ci.errors.ConfigError` that lists the names if it cannot be told.
    """
    runs = runs_of(tree)
    if name is None and len(runs) == 1:
        return next(iter(runs.values()))
    if name in runs:
        return runs[name]
    mark, names = lookup(tree, [RUNS if RUNS in tree.entries else "run"]).mark, ", ".join(runs)
    if name is None:
        text = f"which run? Name one with --run: {names}"
        raise InvalidConfigError([Problem(mark, RUNS, text)])
    hint = nearest(name, list(runs)) or f"; its runs are {names}"
    raise InvalidConfigError([Problem(mark, "", f"there is no run {name!r} in this file{hint}")])


def _name(tree: Node) -> str:
    value = plain(tree.entries["run"]) if "run" in tree.entries else None
    return "" if value is None else str(value)
