"""Run git: one process per call, deaf to the environment of whoever started us."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from skillopt_ci.errors import RepositoryError

#: What git hooks and aliases hand to their children; it would redirect us to their repository or
#: index. ``GIT_CONFIG_*`` stays: credentials travel in it.
_INHERITED = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)

_ENVIRONMENT = MappingProxyType(
    {
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
)

#: Settings of the user under which plumbing would write beside the private index, sign or encode
#: differently, guess an identity, or start housekeeping in the background.
_SETTINGS = (
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "maintenance.auto=false",
    "user.useConfigOnly=true",
)

_COMMAND = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def redact(text: str) -> str:
    """Take user names and tokens out of URLs, and bytes that are not text."""
    return _USERINFO.sub("***@", text.encode("utf-8", "replace").decode("utf-8"))


@dataclass(frozen=True, slots=True)
class Result:
    """What a git process said; ``stderr`` is redacted."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output; file names that are not UTF-8 survive as surrogates."""
        return self.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Git:
    """The git command, run in ``folder`` with ``env`` on top of the cleaned environment."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def with_env(self, **env: str) -> "Git":
        """Return the same command with more environment variables."""
        return replace(self, env={**self.env, **env})

    def attempt(self, *args: str, stdin: bytes = b"") -> Result:
        """Run ``git <args>`` and return what came of it, whatever the exit status.

        Raises RepositoryError if git is not installed.
        """
        # Here and not above: importing GitPython looks for git and costs a tenth of a second.
        try:
            import git  # noqa: PLC0415
        except ImportError as error:
            raise RepositoryError("git is not installed", hint=str(error).split("\n")[0]) from error
        with tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            status, stdout, stderr = git.Git().execute(
                [*self._clean(), *_COMMAND, "-C", str(self.folder), *args],
                istream=source,
                env={**_ENVIRONMENT, **self.env},
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        return Result(status, stdout, redact(stderr))

    def _clean(self) -> list[str]:
        """Word the removal of inherited variables, which GitPython itself can only set."""
        unwanted = (name for name in _INHERITED if name not in self.env)
        return ["env", *(word for name in unwanted for word in ("-u", name))]

    def run(self, *args: str, stdin: bytes = b"") -> Result:
        """Run ``git <args>``; raises RepositoryError with git's words unless it succeeds."""
        result = self.attempt(*args, stdin=stdin)
        if result.status != 0:
            words = result.stderr.strip() or f"exit status {result.status}"
            raise RepositoryError(f"git {args[0]} failed in {self.folder}: {words}")
        return result

    def text(self, *args: str, stdin: bytes = b"") -> str:
        """Return the standard output of a successful ``git <args>`` without its last newline."""
        return self.run(*args, stdin=stdin).text

    def records(self, *args: str) -> tuple[str, ...]:
        """Return the NUL-terminated records that a successful ``git <args>`` prints."""
        return tuple(self.text(*args).split("\0")[:-1])

    def succeeds(self, *args: str) -> bool:
        """Tell whether ``git <args>`` exits with 0; 1 means no, more is a RepositoryError."""
        result = self.attempt(*args)
        if result.status > 1:
            raise RepositoryError(f"git {args[0]} failed in {self.folder}: {result.stderr.strip()}")
        return result.status == 0
