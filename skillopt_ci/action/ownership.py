"""Leave the files of a mounted workspace to the user who owns them.

A container action runs as root: what it creates would be in the way of the job's next steps.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def owner_kept(workspace: Path, user: int) -> Iterator[None]:
    """Give what ``user`` (ours) creates below ``workspace`` inside the block to its owner.

    Does nothing where we own the workspace ourselves or may not give files away.
    """
    found = workspace.stat()
    if user != 0 or found.st_uid == user:
        yield
        return
    before = frozenset(_owned(workspace, user))
    try:
        yield
    finally:
        for path in set(_owned(workspace, user)) - before:
            # some mounts refuse it: then the files stay ours, as with any other action
            with suppress(OSError):
                os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)


def _owned(folder: Path, user: int) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)  # noqa: PTH118 - a workspace can hold many files
            if os.lstat(path).st_uid == user:
                yield path
