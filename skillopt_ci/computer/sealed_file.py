"""Files that are nowhere: content in memory, to be handed to a program as a descriptor."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


@contextmanager
def sealed_file(content: bytes) -> Iterator[int]:
    """Yield a descriptor to read ``content`` from, which nobody can change."""
    descriptor = os.memfd_create("skillopt-ci", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor
    finally:
        os.close(descriptor)
