"""What one command sees: the arguments of bubblewrap, see bwrap(1)."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from skillopt_ci.computer.computer import HOME, WORKDIR, ComputerSpec, Network
from skillopt_ci.computer.sandbox.holder import STAGE

#: Programs of the host. On most systems all but the first are links into the first.
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: What programs need of /etc: the linker's cache, which program a name stands for, the time zone,
#: and whom to trust. None of it is secret.
_SETTINGS = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
)
_OWN_SETTINGS = ("passwd", "group", "hosts", "nsswitch.conf")
_AGENT = "1000"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def bubblewrap_options(
    spec: ComputerSpec, environ: Mapping[str, str], *, filter_fd: int, sync_fd: int, status_fd: int
) -> bytes:
    """Return the options as `bwrap --args` reads them: so no variable is seen in a process list."""
    return b"".join(
        os.fsencode(word) + b"\0"
        for words in _options(spec, environ, filter_fd, sync_fd, status_fd)
        for word in words
    )


def _options(
    spec: ComputerSpec, environ: Mapping[str, str], filter_fd: int, sync_fd: int, status_fd: int
) -> Iterator[tuple[str, ...]]:
    yield "--unshare-all", "--unshare-user", "--disable-userns"
    if spec.network is Network.OPEN:
        yield ("--share-net",)
    yield "--uid", _AGENT, "--gid", _AGENT, "--hostname", "computer", "--cap-drop", "ALL"
    yield "--die-with-parent", "--new-session", "--clearenv"
    yield "--seccomp", str(filter_fd)
    yield "--sync-fd", str(sync_fd)
    yield "--json-status-fd", str(status_fd)
    yield from _files(spec)
    for name, value in environ.items():
        yield "--setenv", name, value
    yield "--chdir", "/"


def _files(spec: ComputerSpec) -> Iterator[tuple[str, ...]]:
    for folder in _PROGRAMS:
        if Path(folder).is_symlink():
            yield "--symlink", os.fspath(Path(folder).readlink()), folder
        elif Path(folder).is_dir():
            yield "--ro-bind", folder, folder
    yield "--dir", "/etc", "--dir", "/home"
    for name in _OWN_SETTINGS:
        yield "--ro-bind", f"{STAGE}/etc/{name}", f"/etc/{name}"
    for file in _SETTINGS:
        yield "--ro-bind-try", file, file
    if spec.network is Network.OPEN:
        yield "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"
    yield "--proc", "/proc"
    yield "--dev", "/dev"
    yield "--bind", f"{STAGE}/shm", "/dev/shm"  # noqa: S108
    yield "--bind", f"{STAGE}/tmp", "/tmp"  # noqa: S108
    yield "--bind", f"{STAGE}/home", HOME
    yield "--bind", f"{STAGE}/workspace", WORKDIR
    for number, path in enumerate(spec.readable):
        yield "--ro-bind", f"{STAGE}/readable/{number}", str(path)
    # Without this both would be file systems in memory to write to, of no limited size.
    yield "--remount-ro", "/dev"
    yield "--remount-ro", "/"


def inner_environment(spec: ComputerSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables that a command sees."""
    basic = {"PATH": _PATH, "HOME": HOME, "USER": "agent", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
    return {**basic, **spec.environ, **environ}
