"""The pictures of README and documentation, from the quickstart's run: never older than the code.

``python scripts/pictures.py`` writes them to docs/pictures/: run it when what people see has
changed. What differs from one run to the next (hashes, seconds) is replaced, so that a picture
changes only if its subject does. ``--report FILE`` writes nothing but the run's report.
"""

import argparse
import base64
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Playwright, sync_playwright
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
#: Reports and pull requests are as high as each other, to stand side by side.
WIDTH, _HEIGHT = 1280, 1180
#: Every commit of the run is of this moment.
_DAY = "2026-01-31T12:00:00Z"
_LINES = 26
#: Emoji that few machines can draw, in signs that all can.
_MARKS = {
    "✅": "<b class=good>✔</b>",
    "❌": "<b class=bad>✖</b>",
    "↩️": "<b class=bad>↩</b>",
    "➖": "–",
    "🔁": "↻",
    "⏳": "…",
    "▫️": "▫",
}


def command(folder: Path, *words: str | Path) -> str:
    """What a command of ours prints, standard error included; 3 is that nothing was left to do."""
    dates = {"GIT_AUTHOR_DATE": _DAY, "GIT_COMMITTER_DATE": _DAY}
    done = subprocess.run(
        [sys.executable, "-m", "skillopt_ci", *words],
        cwd=folder,
        env={**os.environ, **dates, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def train(folder: Path) -> str:
    """Make a run with its test result in the new ``folder``; return what the quickstart printed."""
    said = command(folder.parent, "quickstart", folder, "--no-progress")
    command(folder, "finish", "--quiet", "--no-progress")
    return re.sub(r"(?m)^.*export PATH.*\n", "", said.replace(str(folder), folder.name))


def report(folder: Path) -> str:
    """The report of the run in ``folder``."""
    command(folder, "report", "--quiet")
    return (folder / "skillopt-report.html").read_text(encoding="utf-8")


def steady(text: str) -> str:
    """``text`` without what differs from run to run: hashes of commits, and seconds."""
    hashes: dict[str, str] = {}

    def another(found: re.Match[str]) -> str:
        new = hashlib.sha1(str(len(hashes)).encode(), usedforsecurity=False).hexdigest()
        return hashes.setdefault(found[0], new[: len(found[0])])

    text = re.sub(
        r"(?<=<code>)[0-9a-f]{7,12}(?=</code>)|^[0-9a-f]{7}(?= )", another, text, flags=re.MULTILINE
    )
    return re.sub(r"\b\d+\.\d s\b", "1.0 s", text)


def github_page(said: str, text: str, title: str = "") -> str:
    """A box of a pull request as GitHub shows it, near enough for a picture."""
    head = (
        f"<h1>{escape(title)} <span class=sub>#7</span></h1><p class=sub><span class=state>Open"
        "</span> skillopt-ci wants to merge the skills branch into <code>main</code></p>"
    )
    return (
        "<!doctype html><meta charset=utf-8><title>Pull request</title>"
        f"<style>{(ROOT / 'scripts' / 'github.css').read_text(encoding='utf-8')}</style>"
        f"<main>{head if title else ''}<div class=box>"
        f"<header><b>skillopt-ci</b> bot {said}</header><div>{markdown(text)}</div></div></main>"
    )


def markdown(text: str) -> str:
    """GitHub's Markdown as HTML, with its alerts."""
    for mark, plain in _MARKS.items():
        text = text.replace(mark, plain)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    alert = r"<blockquote>\s*<p>\[!(\w+)\]\s*(.*?)</blockquote>"
    return re.sub(
        alert,
        lambda found: f"<div class=alert><p><b>{found[1].title()}</b></p><p>{found[2]}</div>",
        html,
        flags=re.DOTALL,
    )


def terminal(said: str, dark: bool) -> str:
    """The end of what a command printed, as an SVG that fetches nothing."""
    lines = said.rstrip().split("\n")
    cut = ["…", *lines[-_LINES:]] if len(lines) > _LINES else lines
    shown = steady("\n".join(["$ skillopt-ci quickstart", *cut]))
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown))
    theme = DIMMED_MONOKAI if dark else DEFAULT_TERMINAL_THEME
    svg = console.export_svg(title="", theme=theme, unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def launch(playwright: Playwright) -> Browser:
    """The machine's own Chromium, if it has one."""
    browsers = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, browsers)), None)
    return playwright.chromium.launch(
        executable_path=program, args=["--no-sandbox", "--disable-gpu"]
    )


def shoot(
    browser: Browser, html: str, scheme: Scheme, height: int | None = None, width: int = WIDTH
) -> bytes:
    """A page as WebP, twice as fine as its pixels: the first ``height`` of them, or all."""
    page = browser.new_page(
        viewport={"width": width, "height": height or 800},
        color_scheme=scheme,
        device_scale_factor=2,
    )
    page.set_content(html)
    full = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height or full, "scale": 1}
    wanted = {"format": "webp", "quality": 80, "clip": clip, "captureBeyondViewport": True}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", wanted)
    page.close()
    return base64.b64decode(taken["data"])


def pictures(browser: Browser, folder: Path, said: str) -> Iterator[tuple[str, bytes]]:
    """Every picture of the run in ``folder``, by its file's name."""
    page = steady(report(folder))
    told = json.loads(command(folder, "comment", "--json"))
    body, comment = steady(told["body"]), steady(told["comment"])
    review = github_page("opened this pull request", body, told["title"])
    pinned = github_page("commented", comment)
    for scheme in SCHEMES:
        yield f"report-{scheme}.webp", shoot(browser, page, scheme, _HEIGHT)
        yield f"pull-request-{scheme}.webp", shoot(browser, review, scheme, _HEIGHT)
        yield f"comment-{scheme}.webp", shoot(browser, pinned, scheme)
        yield f"quickstart-{scheme}.svg", terminal(said, scheme == "dark").encode()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write only the report")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-pictures-") as place:
        folder = Path(place) / "quickstart"
        said = train(folder)
        if chosen.report:
            chosen.report.write_text(report(folder), encoding="utf-8")
            return
        with sync_playwright() as playwright:
            browser = launch(playwright)
            PICTURES.mkdir(exist_ok=True)
            for name, data in pictures(browser, folder, said):
                file = PICTURES / name
                same = file.exists() and file.read_bytes() == data
                print(f"{name}: {len(data) / 1000:,.0f} kB, {'as it was' if same else 'new'}")
                file.write_bytes(data)
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
