"""Run git: a process per call or one that stays, deaf to what hooks say to their children."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO

from skillopt_ci.confinement import git_credentials
from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.conversation import Answer, Conversation, Ended
from skillopt_ci.ledger.object_memory import ObjectMemory
from skillopt_ci.ledger.recent import Recent
from skillopt_ci.ledger.tree import Entry

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
        # git's words are read by us: they must be English
        "LANGUAGE": "C",
        "LC_ALL": "C",
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

#: So many entries of folders are remembered.
_ENTRIES = 20_000

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
    """The git command, run in ``folder`` with ``env`` on top of the cleaned environment.

    Processes that stay (see :meth:`ask`) end when the last user lets go of this object.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    _conversations: dict[tuple[str, ...], Conversation] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _remembered: dict[tuple[str, ...], Result] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    objects: ObjectMemory = field(
        default_factory=ObjectMemory, init=False, repr=False, compare=False
    )
    """Objects that were read of late."""
    trees: Recent[str, Mapping[str, Entry]] = field(
        default_factory=partial(Recent, _ENTRIES), init=False, repr=False, compare=False
    )
    """Those of them that are folders, as their entries."""

    def with_env(self, **env: str) -> "Git":
        """Return the same command with more environment variables."""
        return Git(self.folder, {**self.env, **env})

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
                [*self._clean(), *self._command(args)],
                istream=source,
                env={**git_credentials(args[0]), **_ENVIRONMENT, **self.env},
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
            )
        return Result(status, stdout, redact(stderr))

    def _clean(self) -> list[str]:
        """Word the removal of inherited variables, which GitPython itself can only set."""
        unwanted = [name for name in _INHERITED if name in os.environ and name not in self.env]
        # only where there are any: it is one more program to begin, each time
        return ["env", *(word for name in unwanted for word in ("-u", name))] if unwanted else []

    def remember(self, *args: str) -> Result:
        """Like :meth:`attempt`, but run once only: for settings, which stay while we run."""
        if args not in self._remembered:
            self._remembered[args] = self.attempt(*args)
        return self._remembered[args]

    def ask(self, *args: str, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        """Ask ``git <args>``, a process that stays and reads requests, and return its answer.

        ``answer`` reads the whole of it, and raises EOFError where it breaks off; the request may
        be sent twice. Raises RepositoryError with git's words if git ends instead.
        """
        if args not in self._conversations:
            self._conversations[args] = Conversation(self._command(args), self._environ(args[0]))
        try:
            return self._conversations[args].ask(request, answer)
        except Ended as ended:
            raise self._failed(args, redact(str(ended)) or "it ended") from ended
        except OSError as error:
            raise _cannot_begin(error) from error

    def _command(self, args: tuple[str, ...]) -> tuple[str, ...]:
        return (*_COMMAND, "-C", str(self.folder), *args)

    def _environ(self, command: str) -> dict[str, str]:
        """What git is handed: our own environment, in which credentials may travel, cleaned."""
        inherited = {name: value for name, value in os.environ.items() if name not in _INHERITED}
        return {**inherited, **git_credentials(command), **_ENVIRONMENT, **self.env}

    def _failed(self, args: tuple[str, ...], words: str) -> RepositoryError:
        return RepositoryError(f"git {args[0]} failed in {self.folder}: {words}")

    def run(self, *args: str, stdin: bytes = b"") -> Result:
        """Run ``git <args>``; raises RepositoryError with git's words unless it succeeds."""
        result = self.attempt(*args, stdin=stdin)
        if result.status != 0:
            raise self._failed(args, result.stderr.strip() or f"exit status {result.status}")
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
            raise self._failed(args, result.stderr.strip())
        return result.status == 0


def _cannot_begin(error: OSError) -> RepositoryError:
    if isinstance(error, FileNotFoundError):
        return RepositoryError("git is not installed", hint=str(error))
    return RepositoryError(f"git cannot be run: {error}")
