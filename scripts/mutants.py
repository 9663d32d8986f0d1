"""Say how many small faults in the package the tests notice.

First, what every test runs and how long it takes, once for any number of samples::

    .venv/bin/python -m pytest -m "not cluster" --cov=skillopt_ci --cov-context=test \
        --cov-report= --junitxml=junit.xml
    .venv/bin/python scripts/mutants.py --count 200

Then each mutant, one changed expression in a copy of the checkout, is put before the quickest
tests that run its line (for what runs while a module is loaded, before those that run any of its
lines). It is *killed* if one fails, a *timeout* if they do not end, *survived* otherwise; *not
covered* is what no test runs in its own process. The same seed and sources give the same mutants.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "skillopt_ci"
MEMORY = 4 << 30  # a mutant that never ends must not take the machine along

PAIRS = [
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or)),
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
]
#: What an operator becomes.
SWAPS: dict[type[ast.AST], Any] = {
    **{one: other for pair in PAIRS for one, other in (pair, pair[::-1])},
    **dict.fromkeys((ast.FloorDiv, ast.Mod, ast.Pow), ast.Mult),
}


@dataclass(frozen=True)
class Mutant:
    """One expression (between byte offsets of a file) and what stands there instead."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  →  {self.after}"


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Find all mutants of a file."""
    content = file.read_bytes()
    offsets = [0]
    for line in content.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    name = file.relative_to(ROOT).as_posix()
    for node in _running(ast.parse(content)):
        for old, after in changed(node):
            start = offsets[old.lineno - 1] + old.col_offset
            end = offsets[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
            yield Mutant(name, old.lineno, start, end, content[start:end].decode(), after)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: no annotations; no f-strings, whose parts have no positions before 3.12."""
    for field, value in ast.iter_fields(node):
        if field not in {"annotation", "returns"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield child
                    yield from _running(child)


def changed(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Return which expression may be replaced, and by what."""
    match node:
        case ast.Constant(value=bool(flag)):
            yield node, str(not flag)
        case ast.Constant(value=int(number)):
            yield node, str(number + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield value, "None"
        case ast.BinOp(left=left, op=op, right=right):
            # that text cannot be subtracted every test would notice
            if type(op) in SWAPS and not (_is_text(left) or _is_text(right)):
                yield node, _unparse(ast.BinOp(left, SWAPS[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            yield node, _unparse(ast.BoolOp(SWAPS[type(op)](), values))
        case ast.Compare(left=left, ops=[op], comparators=others):
            yield node, _unparse(ast.Compare(left, [SWAPS[type(op)]()], others))


def _is_text(node: ast.expr) -> bool:
    value = getattr(node, "value", None)
    return isinstance(node, ast.JoinedStr) or isinstance(value, str | bytes)


def _unparse(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


class Tests:
    """Which tests run a line, the quickest first."""

    def __init__(self, coverage: Path, junit: Path) -> None:
        self.seconds = {key: seconds for key, seconds, _ in read_junit(junit)}
        data = CoverageData(str(coverage))
        data.read()
        self.lines: dict[str, dict[int, set[str]]] = {}
        for file in data.measured_files():
            name = PACKAGE + "/" + file.rpartition(f"/{PACKAGE}/")[2]
            self.lines[name] = {
                line: {context.rpartition("|")[0] for context in contexts} - {""}
                for line, contexts in data.contexts_by_lineno(file).items()
            }

    def of(self, mutant: Mutant, most: int) -> list[str]:
        """Return the tests that are to notice a mutant."""
        lines = self.lines.get(mutant.file, {})
        found = lines.get(mutant.line)
        if found is not None and not found:
            found = set().union(*lines.values())
        # how long a test takes that the report does not know is not to be tried
        known = [test for test in found or () if key_of(test) in self.seconds]
        return sorted(known, key=lambda test: (self.seconds[key_of(test)], test))[:most]


def read_junit(file: Path) -> Iterator[tuple[str, float, bool]]:
    """Return each test's key, its seconds and whether it passed."""
    for case in ET.parse(file).iter("testcase"):  # noqa: S314 - pytest wrote it for us
        outcome = {child.tag for child in case}
        key = f"{case.get('classname')}.{case.get('name')}"
        yield key, float(case.get("time", "0")), not outcome & {"failure", "error", "skipped"}


def key_of(test: str) -> str:
    """Return how the JUnit report calls a test."""
    address, bracket, parameters = test.partition("[")
    path, _, names = address.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    return f"{module}.{names.replace('::', '.')}{bracket}{parameters}"


def copy_checkout(folder: Path) -> Path:
    """Copy what git knows or would add; return the folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    if (ROOT / "node_modules").exists():
        (folder / "node_modules").symlink_to(ROOT / "node_modules")
    return folder


def run_tests(folder: Path, tests: list[str], seconds: float, *options: str) -> int | None:
    """Run tests in a copy; return pytest's exit code, nothing if the time was up."""
    listing = folder.with_suffix(".tests")
    listing.write_text("\n".join(tests), encoding="utf-8")
    # bytecode is told from its source by size and second, so two mutants might share it
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-pno:randomly", "-pno:cacheprovider"]
    with subprocess.Popen(
        [*command, *options, f"@{listing}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def passing(folder: Path, tests: list[str], seconds: float) -> set[str]:
    """Return those of the tests that pass in a copy without any fault."""
    report = folder.with_suffix(".xml")
    if run_tests(folder, tests, seconds, f"--junitxml={report}") is None:
        sys.exit(f"mutants: {len(tests)} tests of unchanged code did not end in {seconds:.0f} s")
    passed = {key for key, _, good in read_junit(report) if good}
    return {test for test in tests if key_of(test) in passed}


def judge(mutant: Mutant, folder: Path, tests: list[str], seconds: float) -> str:
    """Put a mutant into a copy and before the tests, and take it out again."""
    file, content = folder / mutant.file, (ROOT / mutant.file).read_bytes()
    changed_content = content[: mutant.start] + mutant.after.encode() + content[mutant.end :]
    try:
        file.write_bytes(changed_content)
        code = run_tests(folder, tests, seconds, "-x")
    finally:
        file.write_bytes(content)
    return "timeout" if code is None else "killed" if code else "survived"


def judge_all(
    sample: list[Mutant], tests: Tests, most: int, seconds: float, jobs: int
) -> Iterator[tuple[Mutant, str]]:
    """Judge all mutants, several at a time, each job in a copy of its own."""
    with TemporaryDirectory() as place, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_checkout(Path(place) / f"copy{number}"))
        chosen = {mutant: tests.of(mutant, most) for mutant in sample}
        folder = copies.get()
        wanted = sorted({test for found in chosen.values() for test in found})
        sound = passing(folder, wanted, seconds * len(sample)) if wanted else set()
        copies.put(folder)

        def one(mutant: Mutant) -> str:
            found = [test for test in chosen[mutant] if test in sound]
            if not found:
                return "not covered"
            folder = copies.get()
            try:
                return judge(mutant, folder, found, seconds)
            finally:
                copies.put(folder)

        yield from zip(sample, pool.map(one, sample), strict=True)


def main() -> None:
    """Judge a sample of mutants and print the counts and survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage")
    parser.add_argument("--junit", type=Path, default=ROOT / "junit.xml")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--under", default=PACKAGE, help="a file or folder of the package")
    parser.add_argument("--tests", type=int, default=20, help="most tests for a mutant")
    parser.add_argument("--seconds", type=float, default=60, help="most time for a mutant")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    under = ROOT / asked.under
    files = sorted(under.rglob("*.py")) if under.is_dir() else [under]
    if newer := [file for file in files if file.stat().st_mtime > asked.coverage.stat().st_mtime]:
        sys.exit(f"mutants: {newer[0]} is newer than {asked.coverage}: measure coverage again")
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    sample = random.Random(asked.seed).sample(mutants, min(asked.count, len(mutants)))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    counts, survivors = Counter[str](), list[Mutant]()
    tests = Tests(asked.coverage, asked.junit)
    for mutant, verdict in judge_all(sample, tests, asked.tests, asked.seconds, asked.jobs):
        counts[verdict] += 1
        print(f"{verdict:<12}{mutant}", file=sys.stderr, flush=True)
        if verdict == "survived":
            survivors.append(mutant)
    if asked.json:
        print(json.dumps({**counts, "survivors": [asdict(one) for one in survivors]}, indent=2))
        return
    for mutant in survivors:
        print(f"survived: {mutant}")
    verdicts = ("killed", "survived", "timeout", "not covered")
    print(f"{len(sample)} of {len(mutants)} mutants:", end=" ")
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in verdicts))


if __name__ == "__main__":
    main()
