"""Run git: a process per call or one that stays, deaf to what hooks say to their children."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import IO, Generic, TypeVar

from skillopt_ci.confinement import git_credentials
from skillopt_ci.errors import RepositoryError

# A git process that stays, and answers one request after the other.

Answer = TypeVar("Answer")


class Ended(Exception):
    """The process ended instead of answering; the message is what it wrote on standard error."""


@dataclass(frozen=True, slots=True)
class _Partner:
    """A running process; its complaints go to a file, which never fills up as a pipe does."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]
    complaints: IO[bytes]

    @classmethod
    def begin(cls, command: Sequence[str], environ: Mapping[str, str]) -> "_Partner":
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            process = subprocess.Popen(  # noqa: S603
                command,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
        except BaseException:
            complaints.close()
            raise
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        return cls(process, process.stdin, process.stdout, complaints)

    def exchange(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        """Raises Ended if the process is gone."""
        try:
            self.requests.write(request)
            self.requests.flush()
            return answer(self.answers)
        except (BrokenPipeError, EOFError):
            self.process.wait()
            self.complaints.seek(0)
            raise Ended(self.complaints.read().decode("utf-8", "replace").strip()) from None

    def end(self) -> None:
        self.process.terminate()
        with suppress(BrokenPipeError):
            self.requests.close()
        self.answers.close()
        self.complaints.close()
        self.process.wait()


class Conversation:
    """Requests to one process, which begins with the first of them.

    It ends when this object is let go of, and with us, however we end: its standard input ends
    then. One that ended by itself is begun again: Ctrl-C, for one, reaches the whole
    process group.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = command
        self._environ = environ
        self._partner: _Partner | None = None
        self._lock = Lock()

    def ask(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        """Send ``request`` and return what ``answer`` reads; that must be the whole answer.

        ``answer`` raises EOFError where the stream ends too early. A request may be sent twice.
        Raises Ended if the process cannot answer, OSError if it cannot be begun.
        """
        with self._lock:
            try:
                return self._exchange(request, answer)
            except Ended:
                return self._exchange(request, answer)

    def _exchange(self, request: bytes, answer: Callable[[IO[bytes]], Answer]) -> Answer:
        partner = self._partner or _Partner.begin(self._command, self._environ)
        # Until the answer is read to its end the process is not ours to ask again: after an
        # interrupt the rest of this answer would be taken for the next one.
        self._partner = None
        try:
            found = partner.exchange(request, answer)
        except BaseException:
            partner.end()
            raise
        self._partner = partner
        return found

    def __del__(self) -> None:
        if self._partner is not None:
            self._partner.end()


# What was read of late: one stage after the other asks for the same.

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Remembers values as long as there is ``room`` for their sizes: the oldest go first.

    It may be asked from several threads.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._known: dict[Key, tuple[Value, int]] = {}
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """The value of this key, if it is remembered."""
        found = self._known.get(key)
        return None if found is None else found[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Remember what ``key`` stands for; the first value of a key stays."""
        with self._lock:
            if key in self._known:
                return
            self._known[key] = value, size
            self._room -= size
            while self._room < 0:
                _, gone = self._known.pop(next(iter(self._known)))
                self._room += gone


# Objects of the repository that were read of late.

#: Names that mean the same object for ever, unlike those of refs.
_LASTING = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?(?:\^\{tree\})?")
#: So many bytes are kept at most.
_ROOM = 4_000_000


@dataclass(frozen=True, slots=True)
class Object:
    """What the database has under a name; ``kind`` is blob, tree, commit or tag."""

    oid: str
    kind: str
    content: bytes


class ObjectMemory:
    """Remembers objects by name, in ``room`` bytes; it may be asked from several threads."""

    def __init__(self, room: int = _ROOM) -> None:
        self._known = Recent[str, Object](room)

    def get(self, name: str) -> Object | None:
        """The object of this name, if it is remembered."""
        return self._known.get(name)

    def put(self, name: str, found: Object) -> None:
        """Remember an object; one whose name may come to mean another is not."""
        if _LASTING.fullmatch(name):
            self._known.put(name, found, len(found.content))


# A folder as git stores it: names, and the mode and object of each.

FOLDER = "040000"
SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree has at a path: mode as git writes it, and the object's name."""

    mode: str
    oid: str


def parse(content: bytes, oid: str) -> dict[str, Entry]:
    """Return the entries of the tree object ``oid``, whose name says how long names are."""
    return dict(_entries(content, len(oid) // 2))


def lines(entries: Mapping[str, Entry]) -> bytes:
    """Word the entries for ``git mktree -z``, which puts them in order."""
    found = (
        f"{entry.mode} {_kind(entry.mode)} {entry.oid}\t{name}\0" for name, entry in entries.items()
    )
    return "".join(found).encode("utf-8", "surrogateescape")


def _entries(content: bytes, width: int) -> Iterator[tuple[str, Entry]]:
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + width
        oid = content[end + 1 : start].hex()
        entry = Entry(mode.decode("ascii").zfill(6), oid)
        yield name.decode("utf-8", "surrogateescape"), entry


def _kind(mode: str) -> str:
    return {FOLDER: "tree", SUBMODULE: "commit"}.get(mode, "blob")


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
