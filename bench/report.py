"""How light the report is: the quickstart's, and that of a run of 200 steps, in a real browser.

``python -m bench.report [STEPS]`` trains the bundled example, makes a copy of its run that long,
writes both reports, opens them in headless Chromium, and prints each figure with its limit; it
exits with 1 if one is over it, if the browser complains, or if a page asks for anything.
"""

import argparse
import gzip
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bench.light import measure, prolong, train
from skillopt_ci.git.process import Git

STEPS = 200
REPEATS = 3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: A new browser must not look for its maker's servers.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_TIMES = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [page.domContentLoadedEventEnd, paint ? paint.startTime : 0];
}"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
_OPEN_ALL = """() => {
  const begun = performance.now();
  document.getElementById("fold").click();
  document.body.getBoundingClientRect();
  return performance.now() - begun;
}"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A page in the browser: milliseconds, mebibytes of the script's heap, elements."""

    ready: float
    painted: float
    all_open: float
    heap: float
    elements: int
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a page may take at most."""

    seconds: float
    kilobytes: float
    zipped: float
    ready: float
    heap: float
    elements: int


QUICKSTART = Limits(3, 400, 60, 1_000, 16, 10_000)
LONG = Limits(10, 2_500, 300, 3_000, 32, 60_000)


def program() -> str | None:
    """The system's Chromium; None without one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def load(browser: Browser, file: Path) -> Loaded:
    """Open ``file`` in a page of its own."""
    complaints: list[str] = []
    asked: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(file.as_uri())
    page.wait_for_function(_PAINTED)
    ready, painted = page.evaluate(_TIMES)
    heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")["usedSize"]
    elements = page.evaluate("document.querySelectorAll('*').length")
    all_open = page.evaluate(_OPEN_ALL)
    page.close()
    complaints += [f"asked for {url}" for url in asked if url not in (file.as_uri(), "data:,")]
    return Loaded(ready, painted, all_open, heap / 2**20, elements, tuple(complaints))


def fastest(browser: Browser, file: Path) -> Loaded:
    """The quickest of several, each figure by itself: a busy machine only ever adds."""
    pages = [load(browser, file) for _ in range(REPEATS)]

    def least(figure: Callable[[Loaded], float]) -> float:
        return min(map(figure, pages))

    return Loaded(
        least(lambda page: page.ready),
        least(lambda page: page.painted),
        least(lambda page: page.all_open),
        least(lambda page: page.heap),
        pages[0].elements,
        tuple(text for page in pages for text in page.complaints),
    )


def make_runs(folder: Path, steps: int) -> tuple[Path, Path]:
    """A trained example, and a copy of it whose run is as long as that."""
    short = train(folder / "example").folder
    long = shutil.copytree(short, folder / "long")
    prolong(Git(long), steps)
    return short, long


def write(repository: Path) -> tuple[Path, float]:
    """Write the report of a repository's run; return the file, and the seconds that it took."""
    seconds = measure(repository, "report", "--quiet").wall
    return repository / "skillopt-report.html", seconds


def rows(browser: Browser, repository: Path, limits: Limits) -> Iterator[tuple[str, float, float]]:
    """What is measured, its figure and its limit; limits of 0 are none."""
    file, seconds = write(repository)
    content = file.read_bytes()
    page = fastest(browser, file)
    yield "written in, s", seconds, limits.seconds
    yield "size, kB", len(content) / 1_000, limits.kilobytes
    yield "compressed, kB", len(gzip.compress(content)) / 1_000, limits.zipped
    yield "elements", page.elements, limits.elements
    yield "DOMContentLoaded, ms", page.ready, limits.ready
    yield "first contentful paint, ms", page.painted, limits.ready
    yield "all steps opened, ms", page.all_open, limits.ready
    yield "script heap, MiB", page.heap, limits.heap
    for text in page.complaints:
        yield f"complaint: {text}", 1, 0.5


def main() -> int:
    """Print both tables; 1 if anything is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", type=int, nargs="?", default=STEPS)
    steps = parser.parse_args().steps
    over = False
    with (
        tempfile.TemporaryDirectory(prefix="skillopt-ci-bench-") as folder,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program(), args=list(QUIET)) as browser,
    ):
        short, long = make_runs(Path(folder), steps)
        for name, repository, limits in (
            ("quickstart", short, QUICKSTART),
            (f"{steps} steps", long, LONG),
        ):
            print(f"{'report of ' + name:<30}{'figure':>10}{'limit':>10}")
            for what, figure, limit in rows(browser, repository, limits):
                verdict = "ok" if figure < limit else "OVER"
                print(f"{what:<30}{figure:>10,.1f}{limit:>10,.0f} {verdict}", flush=True)
                over |= figure >= limit
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
