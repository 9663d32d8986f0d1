"""Configure git in a job through environment variables, so no file or argument holds a token.

The runner mounts a checkout that belongs to another user, and a home without configuration.
"""

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skillopt_ci.errors import UsageError
from skillopt_ci.git.process import Git

#: The committer if none is configured.
BOT = [
    ("user.name", "github-actions[bot]"),
    ("user.email", "41898282+github-actions[bot]@users.noreply.github.com"),
]


def git_environment(
    workspace: Path, directory: str, token: str, environ: Mapping[str, str]
) -> dict[str, str]:
    if not (workspace / directory).is_dir():
        raise UsageError(f"input directory: the checkout has no folder {directory!r}")
    folders = repositories(workspace, workspace / directory)
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    settings = [
        *(("safe.directory", str(folder)) for folder in folders),  # even if another user owns them
        *authorize(server, token),
    ]
    trusted = as_environment(settings, environ)
    if not Git(folders[-1], trusted).attempt("config", "--get", "user.email").text:
        settings += BOT
    return as_environment(settings, environ)


def authorize(server_url: str, token: str) -> list[tuple[str, str]]:
    """Git settings that authorize at this server only; none without a token."""
    if not token:
        return []
    key = f"http.{server_url.rstrip('/')}/.extraheader"
    # The empty value drops the header that checkout may have set: GitHub rejects two of them.
    return [(key, ""), (key, f"Authorization: Basic {basic(token)}")]


def basic(token: str) -> str:
    """The token in the form that git sends, which is just as secret."""
    return base64.b64encode(f"x-access-token:{token}".encode()).decode("ascii")


def as_environment(
    settings: Sequence[tuple[str, str]], environ: Mapping[str, str]
) -> dict[str, str]:
    """Variables that add ``settings`` to the git settings that ``environ`` already has."""
    known = environ.get("GIT_CONFIG_COUNT", "")
    first = int(known) if known.isascii() and known.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def repositories(workspace: Path, folder: Path) -> list[Path]:
    """The workspace, then the folder's repository if it is another one."""
    inside = [place for place in (folder, *folder.parents) if place.is_relative_to(workspace)]
    nested = next((place for place in inside if (place / ".git").exists()), workspace)
    return list(dict.fromkeys([workspace, nested]))


@contextmanager
def owner_kept(workspace: Path, user: int) -> Iterator[None]:
    """Give files that ``user`` (ours) creates in the block to the owner of ``workspace``."""
    found = workspace.stat()
    if user != 0 or found.st_uid == user:
        yield
        return
    before = frozenset(_owned(workspace, user))
    try:
        yield
    finally:
        for path in set(_owned(workspace, user)) - before:
            # Some mounts refuse this; then the files stay ours, as with any other action.
            with suppress(OSError):
                os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)


def _owned(folder: Path, user: int) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)  # noqa: PTH118 - a workspace can hold many files
            # Other programs of the job may remove files meanwhile.
            with suppress(FileNotFoundError):
                if os.lstat(path).st_uid == user:
                    yield path
