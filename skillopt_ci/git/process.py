"""Run git: one process per command, or one that keeps running and answers many requests.

GitPython only finds the repository (:func:`skillopt_ci.git.refs.find`). It never removes variables
that hooks set, and its object database does not support SHA-256 or sync its writes to disk.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar

from skillopt_ci.confinement import git_credentials
from skillopt_ci.errors import RepositoryError

Answer = TypeVar("Answer")

#: Variables that git hooks and aliases pass to their children. They would redirect us to another
#: repository or index. ``GIT_CONFIG_*`` stays: it carries credentials.
_INHERITED = re.compile(
    "GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR"
    "|NAMESPACE|SHALLOW_FILE|GRAFT_FILE|NO_REPLACE_OBJECTS|REPLACE_REF_BASE|IMPLICIT_WORK_TREE"
    "|INTERNAL_SUPER_PREFIX|QUARANTINE_PATH|(GLOB|NOGLOB|ICASE)_PATHSPECS)"
)

_ENVIRONMENT = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # we parse git's messages, so they must be in English
    "LANGUAGE": "C",
    "LC_ALL": "C",
}

#: Overrides user settings that would make plumbing write outside the private index, sign or encode
#: differently, guess an identity, or start background housekeeping.
_SETTINGS = (
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "http.lowSpeedLimit=1",  # give up a remote that sends nothing for ten minutes
    "http.lowSpeedTime=600",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "maintenance.auto=false",
    # without this, a file renamed on one side makes git compare it with all others
    "merge.renames=false",
    "user.useConfigOnly=true",
)
_COMMAND = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))

#: A user and a password, which may hold a slash or an @ by mistake; `host:80/a@b` has neither.
_USERINFO = re.compile(r"(?<=://)(?:[^/@\s:[]*:(?!\d+/)[^\s'\"]{1,500}|[^/@\s]+)@")


class BatchProcess:
    """A process for many requests, started by the first one.

    It ends when its standard input closes: when this object is dropped or we end, in whatever way.
    If it died it is restarted: Ctrl-C, for example, reaches the whole process group.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command, self._environ = command, environ
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        # a file, since an unread pipe would fill up
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object

    def ask(self, request: bytes, read: Callable[[IO[bytes]], Answer]) -> Answer:
        """Send ``request`` and return the answer, all of which ``read`` must consume.

        ``read`` raises EOFError if the stream ends early; the first time, the request is repeated.
        """
        with self._lock:
            repeated = False
            while True:
                if self.process is None:
                    self._errors.seek(0)
                    self._errors.truncate()
                    self.process = subprocess.Popen(  # noqa: S603
                        self._command,
                        env=self._environ,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=self._errors,
                    )
                process = self.process
                assert process.stdin and process.stdout  # noqa: S101, PT018
                try:
                    process.stdin.write(request)
                    process.stdin.flush()
                    return read(process.stdout)
                except (BrokenPipeError, EOFError):
                    process.wait()
                    self._errors.seek(0)
                    message = self._errors.read().decode("utf-8", "replace").strip()
                    self._end()
                    if repeated:
                        raise EOFError(message) from None
                    repeated = True
                except BaseException:
                    # the rest of this answer would be read as the next one
                    self._end()
                    raise

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            for stream in filter(None, (process.stdin, process.stdout)):
                with suppress(BrokenPipeError):
                    stream.close()
            process.wait()

    def __del__(self) -> None:
        self._end()
        if hasattr(self, "_errors"):  # missing if the disk was full
            self._errors.close()


def redact(text: str) -> str:
    """Remove user names and tokens from URLs, and bytes that are not text."""
    return _USERINFO.sub("***@", text.encode("utf-8", "replace").decode("utf-8"))


@dataclass(frozen=True, slots=True)
class Exited:
    """A git process's exit status and output; ``stderr`` is redacted."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output; bytes that are not UTF-8 become surrogates."""
        return self.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Git:
    """The git command, run in ``folder`` with ``env`` added to the cleaned environment."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    batches: dict[tuple[str, ...], BatchProcess] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    #: Parsed trees by name, kept by :func:`skillopt_ci.git.objects.read_tree`.
    trees: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _remembered: dict[tuple[str, ...], Exited] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def attempt(self, *args: str, stdin: bytes = b"", seconds: float | None = None) -> Exited:
        """Run ``git <args>``, whatever its exit status; RepositoryError if git is missing.

        git is terminated after ``seconds``: use this only for commands that take no locks.
        """
        command, environ = self._invocation(args)
        pipe = subprocess.PIPE
        try:
            # On Ctrl-C, `subprocess.run` would kill git before it can remove its locks, and `with`
            # alone would leave it at work.
            with subprocess.Popen(  # noqa: S603
                command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe
            ) as process:
                try:
                    stdout, stderr = process.communicate(stdin, timeout=seconds)
                except subprocess.TimeoutExpired:
                    return Exited(-signal.SIGTERM, b"", f"timed out after {seconds:g} seconds")
                finally:  # without effect on a git that has ended
                    process.terminate()
                    process.wait()
        except OSError as error:
            raise _cannot_start(error) from error
        # These end all processes of a terminal or job; asyncio tells us of our own only later.
        if -process.returncode in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            raise KeyboardInterrupt
        if (number := -process.returncode) > 0:
            stderr += f"\ngit was ended by signal {number} ({signal.strsignal(number)})".encode()
        return Exited(process.returncode, stdout, redact(stderr.decode("utf-8", "surrogateescape")))

    def remember(self, *args: str) -> Exited:
        """Like :meth:`attempt`, but run only once: for settings."""
        if args not in self._remembered:
            self._remembered[args] = self.attempt(*args)
        return self._remembered[args]

    def ask(self, *args: str, request: bytes, read: Callable[[IO[bytes]], Answer]) -> Answer:
        """Send ``request`` to the lasting process ``git <args>``; RepositoryError if it ends."""
        if args not in self.batches:
            self.batches[args] = BatchProcess(*self._invocation(args))
        try:
            return self.batches[args].ask(request, read)
        except EOFError as ended:
            raise self._failed(args, redact(str(ended)) or "it ended") from ended
        except OSError as error:
            raise _cannot_start(error) from error

    def run(self, *args: str, stdin: bytes = b"", most: int = 0) -> Exited:
        """Run ``git <args>``; RepositoryError with git's message if its status exceeds ``most``."""
        result = self.attempt(*args, stdin=stdin)
        if not 0 <= result.status <= most:
            raise self._failed(args, result.stderr.strip() or f"exit status {result.status}")
        return result

    def succeeds(self, *args: str) -> bool:
        """Whether ``git <args>``, asked once, exits with 0 and not 1; else RepositoryError."""
        if args not in self._remembered:
            self._remembered[args] = self.run(*args, most=1)
        return self._remembered[args].status == 0

    def _invocation(self, args: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
        cleaned = {k: value for k, value in os.environ.items() if not _INHERITED.fullmatch(k)}
        environ = {**cleaned, **git_credentials(args[0]), **_ENVIRONMENT, **self.env}
        return (*_COMMAND, "-C", str(self.folder), *args), environ

    def _failed(self, args: tuple[str, ...], message: str) -> RepositoryError:
        command = args[2 if args[0] == "-c" else 0]
        return RepositoryError(f"git {command} failed in {self.folder}: {message}")


def _cannot_start(error: OSError) -> RepositoryError:
    missing = isinstance(error, FileNotFoundError)
    return RepositoryError("git is not installed" if missing else f"git cannot be run: {error}")
