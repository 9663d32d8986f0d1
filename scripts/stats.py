"""Print how large the package is, and how far one has to walk in it: ``make stats``.

Everything is read from the syntax trees; nothing is imported or run.

- A *statement* is every ``ast.stmt`` of a module, at any depth: a ``def``, a docstring and each
  line of a body count one each, however many lines they take.
- A *function* is every ``def`` and ``async def``, methods and inner ones included; its length
  goes from the ``def`` (without decorators) to its last line.
- *Used once* is a function with one leading underscore whose name stands exactly once in its
  module, its definition aside.
- A *client layer* is a class of the package with ``async def complete`` that is no Protocol: it
  *passes on* if its ``complete`` awaits another one, and *answers* otherwise.
- *Imported by one* is a module that a single module imports, one of the same top-level folder.
- An import *points up* if its folder stands above in the table of ``docs/architecture.md``, or is
  called before another in the same row (``a/``, then ``b/``).
- *Circles* are modules that import each other, directly or around, imports inside functions
  included, those under ``if TYPE_CHECKING`` not; *at load* leaves out what functions import.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

PACKAGE = "skillopt_ci"

#: The page whose table of floors says which folders may import which.
FLOORS = Path("docs", "architecture.md")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class When(IntEnum):
    """When an import runs: as its module is loaded, in a function, or for type checkers only."""

    LOAD = 0
    CALL = 1
    TYPING = 2


@dataclass(frozen=True)
class Module:
    """A Python file: its dotted name below the folder that is counted, and its text."""

    name: str
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.name)

    @cached_property
    def lines(self) -> int:
        """Lines, empty ones and comments included."""
        return len(self.text.splitlines())

    @property
    def statements(self) -> int:
        """Statements at any depth."""
        return sum(isinstance(node, ast.stmt) for node in self.nodes)

    @property
    def functions(self) -> list[Function]:
        """Functions and methods at any depth."""
        return [node for node in self.nodes if isinstance(node, Function)]

    @property
    def import_lines(self) -> int:
        """Lines that import statements take."""
        found = [node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        return sum(length(node) for node in found)

    @cached_property
    def imports(self) -> list[tuple[str, When]]:
        """What is imported, ``package.name`` for ``from package import name``, and when."""
        return list(_imports(self.tree.body, When.LOAD))

    def private_uses(self) -> list[int]:
        """For each private function, how often its name stands in this module."""
        names = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in self.nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        return [
            names[function.name]
            for function in self.functions
            if function.name.startswith("_") and not function.name.startswith("__")
        ]

    def client_layers(self) -> Iterator[tuple[str, bool]]:
        """Classes that answer model calls, and whether they pass them on."""
        for node in self.nodes:
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                for part in node.body:
                    if isinstance(part, ast.AsyncFunctionDef) and part.name == "complete":
                        # a wrapper may do the passing on in a method of its own
                        yield f"{self.name}.{node.name}", ".complete(" in ast.unparse(node)


def length(node: ast.stmt) -> int:
    """Lines that a statement takes."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(nodes: Iterable[ast.AST], when: When) -> Iterator[tuple[str, When]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", when) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.body, When.TYPING)
            yield from _imports(node.orelse, when)
        elif not isinstance(node, ast.expr):
            later = isinstance(node, Function) and when is When.LOAD
            yield from _imports(ast.iter_child_nodes(node), When.CALL if later else when)


def read(folder: Path, prefix: str = "") -> dict[str, Module]:
    """Read all Python files below ``folder``."""
    modules = {}
    for file in sorted(folder.rglob("*.py")):
        parts = [*prefix.split(), *file.relative_to(folder).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, file.read_text(encoding="utf-8"))
    return modules


def import_graph(modules: dict[str, Module], latest: When) -> dict[str, set[str]]:
    """Return which modules each module imports, up to the ``latest`` occasion."""
    graph: dict[str, set[str]] = {}
    for name, module in modules.items():
        wanted = [target for target, when in module.imports if when <= latest]
        found = {one if one in modules else one.rpartition(".")[0] for one in wanted}
        graph[name] = {one for one in found if one in modules and one != name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that can all be reached from each other."""
    reached: dict[str, set[str]] = {}
    for start, targets in graph.items():
        seen, ahead = reached.setdefault(start, set()), [*targets]
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph[name]
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def within(name: str, folder: str) -> bool:
    """Say whether a module is in a folder of the package, or is that module."""
    return f"{name}.".startswith(f"{PACKAGE}.{folder}.")


def top(name: str) -> str:
    """Return the top-level folder of a module, nothing for those in the package itself."""
    return ".".join(name.split(".")[1:2])


def size(modules: Iterable[Module]) -> dict[str, Any]:
    """Files, lines, statements and the largest module."""
    found = list(modules)
    largest = max(found, key=lambda module: module.lines, default=Module("", ""))
    return {
        "files": len(found),
        "lines": sum(module.lines for module in found),
        "statements": sum(module.statements for module in found),
        "largest": [largest.name, largest.lines],
    }


def shape(modules: dict[str, Module]) -> dict[str, Any]:
    """Return how the package is cut up."""
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for name, targets in import_graph(modules, When.TYPING).items():
        for target in targets:
            importers[target].add(name)
    single = [name for name in modules if [top(one) for one in importers[name]] == [top(name)]]
    lines = [module.lines for module in modules.values()]
    lengths = [length(one) for module in modules.values() for one in module.functions]
    uses = [count for module in modules.values() for count in module.private_uses()]
    return {
        "median_file": median(lines),
        "functions": len(lengths),
        "mean_function": round(mean(lengths), 1),
        "import_share": round(sum(one.import_lines for one in modules.values()) / sum(lines), 3),
        "imported_by_one": len(single),
        "imported_by_one_lines": sum(modules[name].lines for name in single),
        "private_functions": len(uses),
        "private_functions_used_once": uses.count(1),
        "training_files": sum(within(name, "training") for name in modules),
    }


def floors(page: str) -> dict[str, tuple[int, int]]:
    """Return the place of each folder and module in the table of floors; imports may go to later.

    Those of one place may import each other: of one row, unless it says ``then``.
    """
    table = page.partition("| floor |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {
        name.removesuffix("/").removesuffix(".py"): (row, place)
        for row, cell in enumerate(cells)
        for place, names in enumerate(cell.split("then"))
        for name in re.findall("`(.+?)`", names)
    }


def upward(graph: dict[str, set[str]], page: str) -> list[str]:
    """Return the imports that point up, and what has no floor at all."""
    floor, found = floors(page), []
    for name in sorted(graph):
        here = top(name)
        if here in ("", "__main__"):  # the package itself, and `python -m`
            continue
        if here not in floor:
            found.append(f"{name} has no floor")
            continue
        over = (one for one in graph[name] if floor.get(top(one), floor[here]) < floor[here])
        found += [f"{name} imports {one}" for one in sorted(over)]
    return found


def bonds(modules: dict[str, Module], page: str) -> dict[str, Any]:
    """Return what hangs together: client layers, imports across floors, circles."""
    layers = [layer for module in modules.values() for layer in module.client_layers()]
    graph = import_graph(modules, When.TYPING)
    return {
        "layers_passing_on": [name for name, passes in layers if passes],
        "layers_answering": [name for name, passes in layers if not passes],
        "upward": upward(graph, page),
        "circles": circles(import_graph(modules, When.CALL)),
        "circles_at_load": circles(import_graph(modules, When.LOAD)),
    }


def package_data(folder: Path) -> dict[str, int]:
    """Lines of the package's other files, by what their names end with."""
    found = Counter[str]()
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix not in {".py", ".pyc", ".typed"}:
            found[file.suffix.removeprefix(".")] += len(file.read_bytes().splitlines())
    return dict(sorted(found.items()))


def measure(root: Path) -> dict[str, Any]:
    """Return all figures of the checkout in ``root``."""
    modules = read(root / PACKAGE, PACKAGE)
    folders: dict[str, list[Module]] = defaultdict(list)
    for name, module in modules.items():
        folder = top(name)
        folders[f"{folder}/" if (root / PACKAGE / folder).is_dir() and folder else "."] += [module]
    tests, support = read(root / "tests"), read(root / "tests" / "support")
    data = package_data(root / PACKAGE)
    return {
        "package": size(modules.values()) | shape(modules),
        "folders": {name: size(folders[name]) for name in sorted(folders)},
        **bonds(modules, (root / FLOORS).read_text(encoding="utf-8")),
        "package_data": {"lines": sum(data.values()), "by_kind": data},
        "beside": {
            "tests/support": size(support.values()),
            "other tests": size(
                module for name, module in tests.items() if not name.startswith("support.")
            ),
            **{name: size(read(root / name).values()) for name in ("scripts", "bench")},
        },
    }


def table(found: dict[str, Any]) -> str:
    """Return the figures as a person reads them."""
    package = found["package"]
    rows = [("", "files", "lines", "statements", "largest module")]
    sizes = {f"{PACKAGE}/": package, **{f"  {k}": v for k, v in found["folders"].items()}}
    for name, one in (sizes | found["beside"]).items():
        module, lines = one["largest"]
        counts = (f"{one[key]:,}" for key in ("files", "lines", "statements"))
        rows.append((name, *counts, f"{module} ({lines})"))
    text = [f"{a:<18}{b:>7}{c:>9}{d:>12}  {e}".rstrip() for a, b, c, d, e in rows]
    kinds = ", ".join(f"{name} {lines}" for name, lines in found["package_data"]["by_kind"].items())
    passing, answering = found["layers_passing_on"], found["layers_answering"]
    facts = [
        ("median file", f"{package['median_file']:g} lines"),
        ("functions", f"{package['functions']:,}, {package['mean_function']} lines on average"),
        ("private functions", f"{package['private_functions']:,}"),
        ("  used once", f"{package['private_functions_used_once']:,}"),
        ("imports", f"{package['import_share']:.1%} of all lines"),
        (
            "imported by one",
            f"{package['imported_by_one']} modules, {package['imported_by_one_lines']:,} lines",
        ),
        ("files in training/", str(package["training_files"])),
        ("client layers", f"{len(passing)} that pass calls on, and the one that answers"),
        *(("", name) for name in passing),
        ("  that answer", ", ".join(answering)),
        ("imports that point up", str(len(found["upward"]))),
        *(("", name) for name in found["upward"]),
        ("circles", f"{len(found['circles'])}, at load {len(found['circles_at_load'])}"),
        *(("", " ↔ ".join(circle)) for circle in found["circles"]),
        ("package data", f"{found['package_data']['lines']:,} lines: {kinds}"),
    ]
    return "\n".join([*text, "", *(f"{name:<25}{fact}" for name, fact in facts)])


def main() -> None:
    """Print the figures of this checkout, or of another one."""
    parser = argparse.ArgumentParser(description="Print how large the package is.")
    parser.add_argument("--json", action="store_true", help="as JSON, names in full")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    asked = parser.parse_args()
    gc.disable()  # syntax trees are no garbage, and going through them takes half the time
    found = measure(asked.root)
    print(json.dumps(found, indent=2) if asked.json else table(found))


if __name__ == "__main__":
    main()
