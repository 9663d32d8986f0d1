"""Hooks of MkDocs: what the site has besides the pages of docs/.

Links to files of the repository outside `docs/` lead to the repository, so that one link works on
GitHub and on the site; one to a file that is not there stays, for MkDocs to complain about.
Each page is there as Markdown, too, and `llms.txt` lists them. The page `demo.md` gets the
quickstart's report, of a run made now.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]*)(#[^)\s]*)?(?=\))")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
#: The report on the page `demo.md`, of which GitHub shows a picture only.
_PICTURED = re.compile(r"<!-- the report: .*?<!-- end of the report -->", re.DOTALL)
_REPORT = """\
[Open the report on its own](demo/report.html){ .md-button }

<iframe class="report" src="report.html" title="The report of the quickstart's run" loading="lazy"></iframe>
"""  # noqa: E501
#: Where a name may break that is too long for its cell: never inside of a word.
_JOINT = re.compile(r"(?<=[\w*}\]])([/.:,=|]+)(?=\w)|(?<=\w)(_+)(?=\w{3})")
_LONG = 16
#: Each page's Markdown as the site has it, by its path in docs/, with the first words of its text.
_pages: dict[str, tuple[str, str]] = {}


def on_files(files: Any, config: Any) -> Any:
    """Add the report to the demo."""
    _pages.clear()
    if files.get_file_from_path("demo.md") is None:
        return files
    script = Path(config["config_file_path"]).parent / "scripts" / "pictures.py"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        subprocess.run([sys.executable, script, "--report", report], check=True)
        text = report.read_text(encoding="utf-8")
    files.append(File.generated(config, "demo/report.html", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of one page; the signature is MkDocs'."""
    docs = Path(config["docs_dir"])
    text = _PICTURED.sub(_REPORT, markdown) if page.file.src_uri == "demo.md" else markdown
    text = outward(text, docs / page.file.src_uri, docs, config["extra"]["repository"])
    _pages[page.file.src_uri] = page.title, text
    return text


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break where their words meet; take the mark off an escaped bar.

    Tables can be reached by keyboard, for those that scroll.
    """

    def told(code: re.Match[str]) -> str:
        return jointed(code[0].replace("\\|", "|"))

    joined = _TABLE.sub(lambda table: _CODE.sub(told, table[0]), html)
    return joined.replace("<table>", '<table tabindex="0">')


def on_post_build(config: Any) -> None:
    """Write the pages as Markdown, and the list of them."""
    site = Path(config["site_dir"])
    for name, (_, text) in _pages.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    described = config["site_name"], config["site_description"]
    (site / "llms.txt").write_text(listed(*described, _pages), encoding="utf-8")


def outward(markdown: str, file: Path, docs: Path, repository: str) -> str:
    """The text of `file` with web addresses for what lies outside the folder `docs`."""

    def rewritten(link: re.Match[str]) -> str:
        target = (file.parent / link[1]).resolve()
        if target.is_relative_to(docs) or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        path = target.relative_to(docs.parent).as_posix()
        return f"{repository}/{kind}/main/{path}{link[2] or ''}"

    return _LINK.sub(rewritten, markdown)


def jointed(name: str) -> str:
    """A long `name` with places where it may break."""
    return _JOINT.sub(r"\g<0><wbr>", name) if len(name) > _LONG else name


def listed(name: str, description: str, pages: dict[str, tuple[str, str]]) -> str:
    """`llms.txt`: every page with its first sentence, by folder."""
    sections: dict[str, list[str]] = {}
    for path, (title, text) in pages.items():
        folder = os.path.dirname(path) or "pages"  # noqa: PTH120 (an address, not a file's path)
        sections.setdefault(folder, []).append(f"- [{title}]({path}): {first_words(text)}\n")
    parts = (f"## {folder.title()}\n\n{''.join(lines)}" for folder, lines in sections.items())
    return f"# {name}\n\n> {description}\n\n" + "\n".join(parts)


def first_words(text: str) -> str:
    """The first sentence of a page, in plain words."""
    parts = re.sub(r"(?ms)<!--.*?-->|^#.*?$", "", text).split("\n\n")
    prose = (" ".join(part.strip().removeprefix("- ").split()) for part in parts)
    # no picture, table or date
    first = next((one for one in prose if re.match(r"(?!\d)[\w*`\[].*[.:]", one)), "")
    plain = re.sub(r"[*`]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first))
    return re.split(r"(?<=[^.][\w)]\.)\s", plain)[0].rstrip(":")
