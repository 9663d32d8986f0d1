"""Files that are written as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from skillopt_ci.errors import UsageError


def write_atomically(file: Path, text: str) -> None:
    """Write ``text`` to ``file``, as a whole or not at all.

    Raises :class:`UsageError` if that is not possible.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            Path(temporary).chmod(file.stat().st_mode if file.exists() else 0o644)
            Path(temporary).replace(file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
