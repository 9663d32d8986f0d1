import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from shutil import copytree

import pytest
from http_server import http_server
from script_module import script

ROOT = Path(__file__).parents[2]
#: Attributes and rules by which a page makes a browser fetch something.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=[\"']?(https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*?"
    r"\shref=[\"']?(https?:)?//"
    r"|@import\s+[\"']?(?:url\()?[\"']?(https?:)?//|url\([\"']?(https?:)?//"
)


def mkdocs(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = mkdocs(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.integration
def test_nothing_is_fetched_from_another_server(site):
    texts = [file for kind in ("html", "css") for file in site.rglob(f"*.{kind}")]
    found = {
        str(file.relative_to(site)): match[0]
        for file in texts
        if (match := _FETCHED.search(file.read_text(encoding="utf-8")))
    }
    assert texts
    assert found == {}


@pytest.mark.integration
def test_the_demo_is_the_report_of_a_run_made_now(site):
    report = (site / "demo" / "report.html").read_text(encoding="utf-8")
    assert "0.100" in report
    assert "0.950" in report
    assert 'src="report.html"' in (site / "demo" / "index.html").read_text(encoding="utf-8")


@pytest.mark.integration
def test_every_page_is_there_also_as_markdown_and_in_the_list_for_programs(site):
    pages = [file.relative_to(ROOT / "docs") for file in (ROOT / "docs").rglob("*.md")]
    built = [
        site / page.parent / ("" if page.stem == "index" else page.stem) / "index.html"
        for page in pages
    ]
    assert [file for file in built if not file.exists()] == []
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([^)]*)\): \w", listed)) == {page.as_posix() for page in pages}
    texts = [(site / name).read_text(encoding="utf-8") for name in pages]
    assert all(texts)
    assert any("skillopt-ci/blob/main/" in text for text in texts)


@pytest.mark.integration
def test_broken_links_stop_the_build(tmp_path):
    """In a documentation of two pages, under the real settings but for the list of pages."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        settings[: settings.index("\nnav:")] + "\nnav: [index.md, other.md]\n", encoding="utf-8"
    )
    copytree(ROOT / "scripts", tmp_path / "scripts", ignore=lambda *_: ["__pycache__"])
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Other\n\n## Part\n", encoding="utf-8")
    links = ("missing.md", "other.md#nowhere", "../scripts/missing.py")
    home = "".join(f"[there]({link})\n" for link in links)
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{home}", encoding="utf-8")
    done = mkdocs(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert all(link.rpartition("#")[2] in done.stderr for link in links)


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with http_server(partial(_Quiet, directory=str(site))) as url:
        yield url


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


#: Words of tables that stand on two lines, how far the page is wider than the screen, pictures
#: that are missing, links in texts that only their colour shows, and how many tables that may
#: scroll cannot be reached by keyboard.
_LOOK = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll("article td, article th")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      for (const word of node.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) broken.push(word[0]);
      }
    }
  }
  const drawn = [...document.querySelectorAll("article img")];
  const cut = drawn.filter((one) => getComputedStyle(one).display !== "none" && !one.naturalWidth);
  const links = [...document.querySelectorAll("article :is(p, li, td) > a:not(.md-button)")];
  const plain = links.filter((one) => getComputedStyle(one).textDecorationLine === "none");
  const wider = document.documentElement.scrollWidth - innerWidth;
  const scrolling = [...document.querySelectorAll(".md-typeset__scrollwrap")];
  const stuck = scrolling.filter((one) => !one.querySelector("[tabindex='0']")).length;
  return [broken, wider, cut.map((one) => one.src), plain.map((one) => one.href), stuck];
}"""


@pytest.mark.end_to_end
def test_no_word_of_a_table_is_broken_and_nothing_is_cut_off(browser, address):
    wide = ("parity/", "reference/configuration/")
    for width, names in (
        (400, ("", "architecture/", "agents/", "providers/", *wide)),
        (1280, wide),
    ):
        page = browser.new_page(viewport={"width": width, "height": 900})
        for name in names:
            page.goto(f"{address}/{name}")
            assert page.evaluate(_LOOK) == [[], 0, [], [], 0], (width, name)
        page.close()


@pytest.mark.end_to_end
def test_search_finds_a_key_and_asks_nobody_else(browser, address):
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    # typed, not filled in: the page listens to keys
    page.get_by_role("textbox", name="Search").first.press_sequentially("max_error_rate")
    found = page.locator('.md-search-result a[href*="/reference/configuration/"]').first
    found.wait_for(state="attached")
    page.close()
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.end_to_end
def test_a_picture_of_a_comment_looks_as_on_github_and_is_the_same_again(browser):
    pictures = script("pictures")
    text = "> [!WARNING]\n> Not **real**.\n\n| a | b |\n| :-- | --: |\n| 1 | 2 |\n"
    page = pictures.github_page("commented", text, "A <title>")
    assert "Not <strong>real</strong>." in page
    assert "A &lt;title&gt;" in page
    one, other = (pictures.shoot(browser, page, "dark") for _ in range(2))
    assert one == other
    assert (one[:4], one[8:12]) == (b"RIFF", b"WEBP")
    assert one != pictures.shoot(browser, page, "light")
