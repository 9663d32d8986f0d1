"""A hook of MkDocs: links to files of the repository outside `docs/` lead to the repository.

So the same link works on GitHub and on the site. A link to a file that is not there stays as it
is, for MkDocs to complain about.
"""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]*)(#[^)\s]*)?(?=\))")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of one page; the signature is MkDocs'."""
    docs = Path(config["docs_dir"])
    return outward(markdown, docs / page.file.src_uri, docs, config["extra"]["repository"])


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
