"""The files through which a job hands outputs and its summary to the runner."""

from collections.abc import Callable, Mapping
from pathlib import Path

#: GitHub drops a step's summary that is longer than this many bytes.
SUMMARY_LIMIT = 1024 * 1024
_CUT = "\n\n*This summary was cut here: it is longer than GitHub shows.*\n"


def append_outputs(file: Path, outputs: Mapping[str, str], token: Callable[[], str]) -> None:
    """Set the step's outputs, each between delimiters that its value does not contain.

    Empty ones are left out: reading them gives the same. ``token`` makes words that nobody can
    guess, a new one for every call.
    """
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        for name, value in outputs.items():
            if not value:
                continue
            delimiter = _delimiter(value, token)
            stream.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def append_summary(file: Path, markdown: str) -> None:
    """Add to the step's summary what still fits, cut at the end of a line."""
    used = file.stat().st_size if file.exists() else 0
    room = max(0, SUMMARY_LIMIT - used - 1)
    with file.open("a", encoding="utf-8", newline="\n") as stream:
        stream.write(_fitting(markdown, room))


def _delimiter(value: str, token: Callable[[], str]) -> str:
    while True:
        delimiter = f"skillopt_{token()}"
        if delimiter not in value:
            return delimiter


def _fitting(markdown: str, room: int) -> str:
    data = (markdown.rstrip("\n") + "\n").encode("utf-8")
    if len(data) <= room:
        return data.decode("utf-8")
    kept = data[: max(0, room - len(_CUT))].rpartition(b"\n")[0]
    return (kept.decode("utf-8") + _CUT) if kept else ""
