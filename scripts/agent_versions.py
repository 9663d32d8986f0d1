"""The versions of the agents' programs that docs/agents.md says were checked.

``agent_versions.py packages`` prints what npm is to install; ``agent_versions.py keep FOLDER``
writes the versions that stand in FOLDER's node_modules into the table.
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "agents.md"

#: In the order of the table's columns; Cursor's program is not on npm.
PACKAGES = (
    "@anthropic-ai/claude-code",
    "@openai/codex",
    "@github/copilot",
    None,
    "@google/gemini-cli",
)
_ROW = re.compile(r"^\| checked with \|(.*)\|$", re.MULTILINE)


def checked(page: str) -> dict[str, str]:
    """Return the version of each package that ``page`` names; raises ValueError without a row."""
    row = _ROW.search(page)
    if row is None:
        raise ValueError(f"{PAGE}: there is no row `checked with`")
    cells = [cell.strip() for cell in row[1].split("|")]
    return {name: cell for name, cell in zip(PACKAGES, cells, strict=True) if name}


def with_versions(page: str, versions: dict[str, str]) -> str:
    """Return ``page`` with ``versions`` in the row."""
    cells = [versions[name] if name else "not checked" for name in PACKAGES]
    return _ROW.sub(f"| checked with | {' | '.join(cells)} |", page)


def installed(folder: Path) -> dict[str, str]:
    """Return the versions of the packages in ``folder``."""
    names = filter(None, PACKAGES)
    files = {name: folder / "node_modules" / name / "package.json" for name in names}
    return {name: json.loads(file.read_text())["version"] for name, file in files.items()}


def main(arguments: list[str]) -> int:
    """Do what ``arguments`` say; return the exit code."""
    page = PAGE.read_text(encoding="utf-8")
    match arguments:
        case ["packages"]:
            print("\n".join(f"{name}@{version}" for name, version in checked(page).items()))
        case ["keep", folder]:
            PAGE.write_text(with_versions(page, installed(Path(folder))), encoding="utf-8")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
