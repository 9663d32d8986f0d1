"""`runs:` several runs in one file, each laid over what stands around the list."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.settings.node import Mark, Node, lookup, merge, plain, without
from skillopt_ci.settings.problem import InvalidConfigError, Problem, nearest

RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Named:
    """One run of a configuration file: its name, and the tree that describes it."""

    name: str
    tree: Node


def runs_of(tree: Node) -> tuple[Named, ...]:
    """The runs that ``tree`` describes; one without a list is its own only run.

    What is no text as a name is left to validation, under the name it would print as. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a list that is none, is empty, or names a run
    twice or not at all.
    """
    listed = tree.entries.get(RUNS)
    if listed is None:
        return (Named(_name(tree), tree),)
    if not isinstance(listed.value, tuple) or not listed.value:
        raise _invalid(listed.mark, "expected a list of runs, each with `run:` and what is its own")
    _refuse_bad_names(listed.value)
    common = without(tree, RUNS)
    return tuple(Named(_name(entry), merge(common, entry)) for entry in listed.value)


def choose_run(tree: Node, name: str | None) -> Node:
    """The tree of the run called ``name``; without one, of the only run there is.

    Raises :class:`~skillopt_ci.errors.ConfigError` that lists the names if it cannot be told.
    """
    runs = runs_of(tree)
    names = [run.name for run in runs]
    if name is None and len(runs) == 1:
        return runs[0].tree
    if name in names:
        return runs[names.index(name)].tree
    mark = lookup(tree, [RUNS if RUNS in tree.entries else "run"]).mark
    if name is None:
        raise InvalidConfigError(
            [Problem(mark, RUNS, f"which run? Name one with --run: {', '.join(names)}")]
        )
    hint = nearest(name, names) or f"; its runs are {', '.join(names)}"
    raise InvalidConfigError([Problem(mark, "", f"there is no run {name!r} in this file{hint}")])


def _refuse_bad_names(entries: Sequence[Node]) -> None:
    problems, seen = [], dict[str, Mark]()
    for entry in entries:
        name = _name(entry)
        if not name:
            problems.append(Problem(entry.mark, RUNS, "each run of the list needs its `run:`"))
        elif name in seen:
            problems.append(Problem(entry.mark, RUNS, f"{name!r} stands here a second time"))
        seen[name] = entry.mark
    if problems:
        raise InvalidConfigError(problems)


def _name(tree: Node) -> str:
    value = plain(tree.entries["run"]) if "run" in tree.entries else None
    return "" if value is None else str(value)


def _invalid(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, RUNS, text)])
