"""Programs that tests write, and how they start others."""

import os
from pathlib import Path

#: Starts a program as somebody ordinary: root may look and write everywhere otherwise.
ORDINARY = "" if os.getuid() else "setpriv --bounding-set=-dac_override,-dac_read_search"


def write_program(file: Path, text: str) -> Path:
    """Write a program: a script of the shell unless it says otherwise in its first line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file
