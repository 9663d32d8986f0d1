"""The files of a rollout that reflection reads: packed in one process, laid out in another."""

from collections.abc import Mapping
from pathlib import Path

#: A larger file is left behind: no analyst reads it.
MOST_BYTES = 2_000_000


def files_below(folder: Path) -> dict[str, str]:
    """The text files below ``folder``, by their paths in it; no links, nothing large."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        try:
            found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a workbook, a picture: analysts read text
    return found


def lay_out(files: Mapping[str, str], folder: Path) -> None:
    """Write ``files`` below ``folder``; raises ValueError for a path that leads out of it."""
    for name, text in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{name!r} leads out of the folder of predictions")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
