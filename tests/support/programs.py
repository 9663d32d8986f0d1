"""Programs that tests write."""

from pathlib import Path


def write_program(file: Path, text: str) -> Path:
    """Write a program: a script of the shell unless it says otherwise in its first line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file
