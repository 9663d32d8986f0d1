"""Keep our secrets from the programs that we start.

A model may control the programs that a scorer, an environment or an agent starts. They run in a
sandbox of Linux namespaces or, if bubblewrap is missing and we are root, as a separate user.
Otherwise they run as our user. Even then this process is closed: no other process can read its
memory, and its initial environment no longer holds secrets.
"""

import atexit
import contextlib
import ctypes
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from skillopt_ci.liveness import scratch_folder

#: Names of variables that hold secrets. Git's settings for one command may hold some, too.
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|^GIT_CONFIG_(COUNT|KEY_\d+|VALUE_\d+)$",
    re.IGNORECASE,
)
#: Names of variables with which the C library finds code to load.
_LINKING = re.compile(r"LD_|(GCONV_PATH|LOCPATH|NLSPATH)$")
_PR_SET_DUMPABLE = 4
#: Indices of the words in /proc/self/stat, after the program's name, that locate the environment.
_ENVIRON_START, _ENVIRON_END = 47, 48

#: User ids that no distribution assigns: above those of systemd's containers, below 2³¹.
FIRST_USER, USERS = 1_900_000_000, 200_000_000
#: Folders that are empty and writable in every sandbox.
_FRESH = ("/run", "/tmp", "/var/tmp")  # noqa: S108
#: Folders of this machine's programs. On most systems, all but the first link into the first.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
#: The parts of /etc that programs need. None of it is secret.
_SETTINGS = (
    *("alternatives", "ca-certificates", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "pki/ca-trust/extracted", "pki/tls/certs", "protocols", "services"),
    "ssl/certs",
)
#: Additional parts of /etc that our own programs need.
_OUR_SETTINGS = (
    *("fonts", "group", "hosts", "java", "nsswitch.conf", "passwd", "resolv.conf"),
    "ssl/openssl.cnf",
)
#: Places in a home where people and tools keep credentials.
_CREDENTIALS = (
    *(".aws", ".azure", ".config/gcloud", ".config/gh", ".config/git", ".config/skillopt-ci"),
    *(".cache/skillopt-ci", ".docker", ".git-credentials", ".gitconfig", ".gnupg", ".kube"),
    *(".local/share/keyrings", ".netrc", ".npmrc", ".password-store", ".pypirc", ".ssh"),
)
_SOCKETS = ("/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
_RUNNER_FILES = tuple(
    f"GITHUB_{name}" for name in ("ENV", "PATH", "OUTPUT", "STATE", "STEP_SUMMARY")
)
#: How deep below the workspace to look for checkouts.
_DEPTH = 3
#: bubblewrap reports a signal as an exit status: this number plus the signal's.
_KILLED, _SIGNALS = 128, 64

#: Prints each path that can be read or written although it should be hidden. The first argument is
#: the folder that programs start in, which must be readable.
_PROBE = """\
cd -- "$1" && ls > /dev/null || exit 1
shift
for path do
  if [ -S "$path" ]; then ! [ -w "$path" ]
  elif [ -d "$path" ]; then [ -z "$(ls -A -- "$path" 2>/dev/null)" ] && ! [ -w "$path" ]
  else [ -z "$(head -c 1 -- "$path" 2>/dev/null)" ]
  fi || printf '%s\\n' "$path"
done
"""

_withheld: dict[str, str] = {}
_closed = False


def close_process() -> None:
    """Stop other processes reading this one, and remove the secrets from its environment."""
    global _closed  # noqa: PLW0603 - there is one process
    _closed = True
    if sys.platform == "linux":
        # From here on, root owns its files in /proc; programs that it starts are not affected.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    withhold({name for name in os.environ if _SECRET_NAME.search(name)})


def withhold(names: Iterable[str]) -> None:
    """Remove variables from a closed process's environment, current and initial."""
    if not _closed:
        return
    gone = {name: os.environ.pop(name) for name in names if name in os.environ}
    _withheld.update(gone)
    if gone and sys.platform == "linux":
        # Overwrite them in the initial environment too, which /proc/PID/environ shows.
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(words[_ENVIRON_START]), int(words[_ENVIRON_END])
        place = start
        for entry in ctypes.string_at(start, end - start).split(b"\0"):
            name, equals, value = entry.partition(b"=")
            if equals and os.fsdecode(name) in gone:
                ctypes.memset(place + len(name) + 1, 0, len(value))
            place += len(entry) + 1


def keep_back(variables: Mapping[str, str]) -> None:
    """Add variables to the whole environment that only our own git may see."""
    _withheld.update(variables)


def whole_environment() -> dict[str, str]:
    """Our environment, including withheld variables."""
    return {**os.environ, **_withheld}


def public_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables neither withheld nor named like secrets; all if programs may see secrets."""
    if current().trusted:
        return dict(environ)
    secret = {name for name in environ if name in _withheld or _SECRET_NAME.search(name)}
    return {name: value for name, value in environ.items() if name not in secret}


def git_credentials(command: str) -> dict[str, str]:
    """Withheld variables that git needs for ``command``: all if it contacts a server."""
    asks = command in ("clone", "fetch", "ls-remote", "pull", "push")
    return {name: value for name, value in _withheld.items() if asks or name.startswith("GIT_")}


@dataclass(frozen=True, slots=True)
class Cell:
    """A place for one program or computer, which may write only to ``folder``."""

    confinement: "Confinement"
    folder: Path
    user: int | None = None

    def command(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        *,
        needs: Sequence[str] = (),
        keeps_home: bool = False,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command and environment that start ``arguments``.

        They are killed if this process, or the thread that starts them, ends. ``needs`` is a
        program (by default the first argument) and paths that must be readable; ``keeps_home``
        shows the user's home, for programs that keep their login there.
        """
        if self.confinement.kind == "none":
            return tuple(arguments), dict(environ)
        # a model's library must not be linked into the program that confines it
        linking = [f"{name}={environ[name]}" for name in environ if _LINKING.match(name)]
        # if the program cannot be started, `env` ends with 126 or 127, but bubblewrap with 1
        through_env = linking or "=" not in arguments[0]  # `env` would set that as a variable
        within = (*(["/usr/bin/env", *linking] if through_env else []), *arguments)
        environ = {name: environ[name] for name in environ if not _LINKING.match(name)}
        if self.user is not None:
            kept = Path(environ.get("HOME", "/")).is_relative_to(self.folder)
            home = {} if kept else {"HOME": str(self.folder)}
            who = (self.confinement.program, f"--reuid={self.user}", f"--regid={self.user}")
            rights = ("--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")
            return (*who, *rights, "--pdeathsig", "KILL", "--", *within), {**environ, **home}
        view = self.confinement.view(
            self.folder, environ, needs or arguments[:1], keeps_home=keeps_home
        )
        return (*view, "--chdir", str(cwd), "--", *within), environ

    def give(self, *paths: Path) -> None:
        if self.user is not None:
            for path in paths:
                os.chown(path, self.user, self.user, follow_symlinks=False)

    def signal(self, status: int) -> int:
        """The signal that killed a program, from the sandbox's exit status; 0 if none."""
        killed = self.confinement.kind == "sandbox" and 0 < status - _KILLED <= _SIGNALS
        return status - _KILLED if killed else 0


@dataclass(frozen=True, slots=True)
class Confinement:
    """How programs are kept from ``hidden``; ``reason`` says why they are not."""

    kind: Literal["sandbox", "user", "none"] = "none"
    reason: str = ""
    root: Path = Path("/")
    hidden: tuple[Path, ...] = ()
    home: Path = Path("/nonexistent")
    #: bubblewrap or setpriv, in full.
    program: str = ""
    search_path: str = os.defpath
    trusted: bool = False

    def cell(self, folder: Path) -> Cell:
        """A place for one program or computer, which gets ``folder`` and everything in it."""
        if self.kind != "user":
            return Cell(self, folder)
        cell = Cell(self, folder, FIRST_USER + secrets.randbelow(USERS))
        cell.give(folder, *folder.rglob("*"))
        return cell

    def hides(self, path: Path, within: Path = Path("/")) -> bool:
        """Whether a file is kept from programs, or leads out of the folder ``within``."""
        real = path.resolve()
        return any(real.is_relative_to(one) for one in self.hidden) or within not in real.parents

    def view(
        self, folder: Path, environ: Mapping[str, str], needs: Iterable[str], *, keeps_home: bool
    ) -> tuple[str, ...]:
        """The bubblewrap arguments for what a program may see, see bwrap(1)."""
        home = Path(environ.get("HOME", "/"))
        layers: dict[Path, tuple[str, ...]] = dict.fromkeys(map(Path, _FRESH), ("--tmpfs",))
        if home.is_absolute() and home != Path("/") and not home.is_relative_to(folder):
            kept = keeps_home and home not in self.hidden
            layers[home] = ("--bind", str(home)) if kept else ("--tmpfs",)
        # hidden paths stay hidden even if a command or a task's PATH names them
        named = (path for path in _installed(needs, environ, self.home) if not self.hides(path))
        own = (self.root, Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent)
        installed = (Path(entry) for entry in sys.path if entry.endswith("-packages"))
        programs = (
            path
            for entry in environ.get("PATH", os.defpath).split(os.pathsep)
            for path in _prefix(Path(entry), self.home)
            if entry in self.search_path.split(os.pathsep) or not self.hides(path)
        )
        for path in (*own, *filter(Path.is_dir, installed), *programs, *named):
            if path not in (Path("/"), self.home) or path == self.root:
                layers.setdefault(path, ("--ro-bind", str(path)))
        shown = [path for path, words in layers.items() if words[0] != "--tmpfs"]
        for path in self.hidden:
            if any(path.is_relative_to(one) for one in shown):
                nothing = ("--perms", "0000", "--tmpfs")
                layers[path] = nothing if path.is_dir() else ("--ro-bind", os.devnull)
        layers[folder] = ("--bind", str(folder))
        words = [*system_view(*_OUR_SETTINGS), "--proc", "/proc", "--dev", "/dev"]
        for path in sorted(layers, key=lambda one: len(one.parts)):
            words += [*layers[path], str(path)]
        user = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--uid", "1000", "--gid")
        return (self.program, "--die-with-parent", *user, "1000", "--cap-drop", "ALL", *words)


def confine(
    root: Path, environ: Mapping[str, str], *, hidden: Iterable[Path] = (), wanted: bool = True
) -> None:
    """Set the configuration for programs started from now on; the first start finds what works."""
    global _find, _found
    asked = partial(_search, root.resolve(), dict(environ), tuple(hidden), wanted)
    with _lock:
        if asked.args != _find.args:
            _find, _found = asked, None


def current() -> Confinement:
    """How this process's programs are kept from its secrets."""
    global _found  # noqa: PLW0603 - there is one process
    with _lock:
        if _found is None:
            _found = _find()
        return _found


_lock = threading.Lock()
_find = partial(Confinement, "none", "no configuration was read")
_found: Confinement | None = None


def _search(
    root: Path, environ: Mapping[str, str], own: tuple[Path, ...], wanted: bool
) -> Confinement:
    if not wanted:
        return Confinement(reason="`rollout.programs_can_read_secrets` is set", trusted=True)
    checkout = next((one for one in (root, *root.parents) if (one / ".git").exists()), root)
    home = Path(environ.get("HOME") or "/nonexistent")
    hidden = tuple(dict.fromkeys(_hidden(checkout, environ, home, own)))
    if sys.platform != "linux":
        return Confinement(reason="only Linux can confine them", root=checkout, hidden=hidden)
    path, reasons = environ.get("PATH", os.defpath), list[str]()
    for kind, program in (("sandbox", "bwrap"), ("user", "setpriv")):
        if (found := shutil.which(program, path=path)) is None:
            reasons.append(f"the program {program} is not installed")
        elif kind == "user" and os.geteuid() != 0:
            reasons.append("only root can give them another user")
        else:
            tried = Confinement(kind, "", checkout, hidden, home, found, path)  # type: ignore[arg-type]
            if not (reason := _fault(tried, root, environ)):
                return tried
            reasons.append(f"{program}: {reason}")
    return Confinement(reason="; ".join(reasons), root=checkout, hidden=hidden)


def _fault(tried: Confinement, root: Path, environ: Mapping[str, str]) -> str:
    """Run a program to test a confinement; return why it fails, or an empty text."""
    seen = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    # in a sandbox, an empty home replaces the real one
    targets = [str(path) for path in tried.hidden if tried.kind == "user" or path != tried.home]
    with scratch_folder("probe") as name, contextlib.ExitStack() as undo:
        if tried.kind == "user":
            undo.enter_context(_shut(tried.hidden))
            # in a sandbox, this number may be another process's
            targets.append(f"/proc/{os.getpid()}/environ")
        words = ("/bin/sh", "-c", _PROBE, "sh", str(root), *targets)
        arguments, variables = tried.cell(Path(name)).command(words, seen, root)
        try:
            done = subprocess.run(  # noqa: S603 - our own words
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env=variables,
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode or done.stderr:
            return (" ".join(done.stderr.split()) or f"it ended with {done.returncode}")[-300:]
        if done.stdout:
            return f"{', '.join(done.stdout.splitlines())} can be reached all the same"
        atexit.register(undo.pop_all().close)
    return ""


def _hidden(
    checkout: Path, environ: Mapping[str, str], home: Path, own: Iterable[Path]
) -> Iterator[Path]:
    needed = [checkout, *map(Path, (sys.prefix, sys.base_prefix))]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        needed += (path for path in _prefix(Path(entry), home) if path != home)
    workspace = Path(environ.get("GITHUB_WORKSPACE") or checkout)
    engine = urlsplit(environ.get("DOCKER_HOST", ""))
    places = [
        *(*own, *_git_folders(checkout), *_git_folders(workspace)),
        *(Path(environ[name]).parent for name in _RUNNER_FILES if environ.get(name)),
        *([Path(environ["RUNNER_TEMP"])] if environ.get("RUNNER_TEMP") else []),
        *(home / name for name in _CREDENTIALS),
        *([home] if environ.get("GITHUB_ACTIONS") else []),
        *map(Path, (*_SOCKETS, *([engine.path] if engine.scheme == "unix" else []))),
    ]
    for place in places:
        if os.access(place, os.F_OK):  # `exists` would fail where we may not look
            yield from _around(place.resolve(), needed)


def _around(place: Path, needed: Sequence[Path]) -> Iterator[Path]:
    if place in needed:
        return
    if any(one.is_relative_to(place) for one in needed):
        for inside in place.iterdir():
            yield from _around(inside, needed)
    else:
        yield place


def _git_folders(folder: Path, depth: int = 0) -> Iterator[Path]:
    try:
        inside = list(os.scandir(folder))
    except OSError:
        return
    for entry in inside:
        path = Path(entry.path)
        if entry.name == ".git":
            yield path
            if entry.is_file():
                real = folder / path.read_text("utf-8", "replace").strip().removeprefix("gitdir: ")
                yield real
                if (common := real / "commondir").is_file():
                    yield real / common.read_text(encoding="utf-8").strip()
        elif (
            depth < _DEPTH and entry.name != "node_modules" and entry.is_dir(follow_symlinks=False)
        ):
            yield from _git_folders(path, depth + 1)


@contextlib.contextmanager
def _shut(paths: Iterable[Path]) -> Iterator[None]:
    """Restrict paths, except sockets, to their owner until the end of the block."""
    taken = []
    for path in paths:
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077 and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            with contextlib.suppress(OSError):  # the probe reports what remains open
                path.chmod(mode & ~0o077)
                taken.append((path, mode))
    try:
        yield
    finally:
        for path, mode in taken:
            with contextlib.suppress(OSError):
                path.chmod(mode)


@cache
def system_view(*settings: str) -> tuple[str, ...]:
    """The bubblewrap arguments that show the system's programs and what they need of /etc."""
    words = list[str]()
    for folder in _PROGRAMS:
        if Path(folder).is_symlink():
            words += ("--symlink", os.fspath(Path(folder).readlink()), folder)
        elif Path(folder).is_dir():
            words += ("--ro-bind", folder, folder)
    for name in (*_SETTINGS, *settings):
        words += ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    return tuple(words)


def _installed(words: Iterable[str], environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    program, *files = words
    if (found := shutil.which(program, path=environ.get("PATH", os.defpath))) is not None:
        # a link itself cannot be bound, so bind its folder
        yield from _prefix(Path(found).absolute().parent, home)
        yield Path(found).resolve()
        yield from _prefix(Path(found).resolve().parent, home)
    yield from (Path(word) for word in files if word.startswith("/") and os.access(word, os.F_OK))


@cache
def _prefix(folder: Path, home: Path) -> tuple[Path, ...]:
    system = any(folder.is_relative_to(one) for one in _PROGRAMS)
    if not folder.is_absolute() or not os.access(f"{folder}/.", os.F_OK) or system:
        return ()
    beside = [folder.parent / name for name in ("lib", "lib64", "libexec", "pyvenv.cfg")]
    installed = folder.parent.name == "node_modules" or any(one.exists() for one in beside)
    if installed and folder.parent not in (Path("/"), home, home / ".local"):
        return (folder.parent,)
    return (folder, *(one for one in beside[:2] if one.is_dir()))
