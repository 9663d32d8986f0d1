"""Attempts to get out. Each is shown to be one: where nothing confines, it succeeds."""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from computer_kinds import desk

from skillopt_ci import confinement
from skillopt_ci.errors import ComputerFailure, FileRefused

pytestmark = pytest.mark.integration

ROOT = os.geteuid() == 0

#: Prints this when it worked; an attempt that fails raises.
OUT = "ESCAPED"
BY_TCP = f"""\
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
print({OUT!r})
"""
BY_UDP = """\
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(5)
asking.sendto(b"name?", (sys.argv[1], int(sys.argv[2])))
print(asking.recv(100).decode())
"""
BY_NAME = f"""\
import socket, sys
socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])
print({OUT!r})
"""
SYSTEM_CALL = """\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
"""


def host_address() -> str:
    """Return an address of this machine that others would use; no packet is sent to learn it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but the loopback's")
        return str(asking.getsockname()[0])


@pytest.fixture(scope="module")
def listener() -> Iterator[int]:
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def name_server() -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", 0))

        def answer() -> None:
            while (packet := server.recvfrom(100))[0] != b"end":
                server.sendto(OUT.encode(), packet[1])

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"end", ("127.0.0.1", server.getsockname()[1]))
        thread.join()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine, with a secret in its environment."""
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.defpath, "SECRET": "s3cr3t"}) as made:
        yield made
        made.kill()


@contextlib.contextmanager
def secret_file(folder: Path) -> Iterator[Path]:
    """A file that every user of this machine may read and change."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="skillopt-ci-secret-") as file:
        file.write(b"s3cr3t")
        file.flush()
        Path(file.name).chmod(0o666)
        yield Path(file.name)


@pytest.mark.parametrize("place", ["loopback", "address"])
def test_tcp(cell, trusted, listener, place):
    address = "127.0.0.1" if place == "loopback" else host_address()
    assert trusted.python(BY_TCP, address, listener).stdout == f"{OUT}\n"
    done = cell.python(BY_TCP, address, listener)
    assert (done.exit_code, done.stdout) == (1, "")


def test_udp_as_for_names(cell, trusted, name_server):
    address = host_address()
    assert trusted.python(BY_UDP, address, name_server).stdout == f"{OUT}\n"
    assert cell.python(BY_UDP, address, name_server).stdout == ""


def test_sockets_without_a_file(cell, trusted):
    name = uuid.uuid4().hex
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        assert trusted.python(BY_NAME, name).stdout == f"{OUT}\n"
        assert cell.python(BY_NAME, name).exit_code == 1


@pytest.mark.parametrize("kind", ["sandbox", "uncounted", "docker"])
def test_an_open_network_is_one(kind, listener):
    with desk(kind, network="open") as opened:
        assert opened.python(BY_TCP, host_address(), listener).stdout == f"{OUT}\n"


@pytest.mark.parametrize("folder", [Path("/tmp"), Path("/var/tmp"), Path.home()], ids=str)
def test_files_outside(cell, trusted, folder):
    with secret_file(folder) as file:
        assert trusted.run("cat", str(file)).stdout == "s3cr3t"
        assert cell.run("cat", str(file)).exit_code == 1
        with pytest.raises(FileRefused):
            cell.read(str(file))
        with contextlib.suppress(FileRefused):  # a folder of that name is its own
            cell.write(str(file), b"changed")
        cell.run("sh", "-c", f"echo changed > {file}")
        assert file.read_bytes() == b"s3cr3t"
        trusted.run("sh", "-c", f"echo changed > {file}")
        assert file.read_bytes() == b"changed\n"
    cell.sh("rm -rf /tmp/skillopt-ci-secret-*")


def test_files_mounted_by_a_variable():
    mounts = {"GIVEN": "1\0--ro-bind\0/\0/home/agent"}
    with (
        pytest.raises(ComputerFailure, match="zero byte"),
        desk("uncounted", environ=mounts) as own,
    ):
        own.sh("ls /home/agent/etc")


def test_variables_of_a_task_reach_neither_secrets_nor_what_confines(tmp_path):
    keys = tmp_path / "home/.gnupg/private"
    keys.mkdir(parents=True)
    (keys / "key").write_text("s3cr3t")
    confinement.confine(Path(), {**os.environ, "HOME": f"{tmp_path}/home"})
    if confinement.current().kind == "none":
        pytest.skip("nothing can confine programs here")
    with desk("unconfined", environ={"PATH": f"{keys}:/bin"}) as own:
        assert own.run("/bin/cat", str(keys / "key")).exit_code == 1
    # shows which libraries are linked: not into what confines the command
    with desk("unconfined", environ={"LD_TRACE_LOADED_OBJECTS": "1"}) as own:
        assert "libcap" not in own.run("/bin/true").stdout


def test_files_through_a_link(cell, trusted):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, secret_file(Path(name)) as file:
        file.parent.chmod(0o777)
        for opened in (trusted, cell):
            opened.sh(f"ln -s {file} to-file; ln -s {file.parent} to-folder")
        assert trusted.read("to-file") == b"s3cr3t"
        trusted.write("to-folder/planted", b"x")
        assert (file.parent / "planted").read_bytes() == b"x"
        (file.parent / "planted").unlink()

        with pytest.raises(FileRefused):
            cell.read("to-file")
        with pytest.raises(FileRefused):
            cell.write("to-folder/planted", b"x")
        cell.write("to-file", b"x")
        assert cell.read("to-file") == b"x"
        assert (file.read_bytes(), list(file.parent.iterdir())) == (b"s3cr3t", [file])
        assert b"s3cr3t" not in cell.export(".")
        trusted.sh("rm to-file to-folder")


def test_the_environment_of_others(cell, trusted, bystander):
    look = "cat /proc/[0-9]*/environ 2> /dev/null; env"
    assert "s3cr3t" in trusted.sh(look, output_bytes=10_000_000).stdout
    assert "s3cr3t" not in cell.sh(look, output_bytes=10_000_000).stdout


def test_our_own_environment(cell):
    ours = set(os.environ.values()) - {"", "C.UTF-8", "/tmp", "1", "/", os.environ.get("PATH")}
    seen = dict(line.split("=", 1) for line in cell.sh("env").stdout.splitlines() if "=" in line)
    assert set(seen) <= {
        *("PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "HOSTNAME", "_")
    }
    assert not ours & set(seen.values())
    show = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])"
    assert cell.python(show).stdout == "[0, 1, 2]\n"


def test_signals(cell, trusted, bystander):
    cell.sh(f"kill -9 {bystander.pid} {os.getpid()} {os.getppid()} -1")
    assert bystander.poll() is None
    assert cell.sh("echo still here").stdout == "still here\n"
    trusted.sh(f"kill -9 {bystander.pid}")
    assert bystander.wait() == -9


def test_tracing(cell, trusted, bystander):
    attach = f"{SYSTEM_CALL}call('ptrace', 16, int(sys.argv[1]), 0, 0); print({OUT!r})"
    if ROOT:  # other users may often trace their own children only
        assert trusted.python(attach, bystander.pid).stdout == f"{OUT}\n"
    assert cell.python(attach, bystander.pid).exit_code == 1


RIGHTS = {
    "setuid": "os.setuid(0)" if ROOT else "os.setuid(os.getuid() + 1)",
    "setgroups": "os.setgroups([0])",
    "chown": "open('mine', 'w').close(); os.chown('mine', 12, 12)",
    "chroot": "os.chroot('.')",
    "mount": "call('unshare', 0x20000) if len(sys.argv) > 1 else 0\n"
    "call('mount', b'none', b'/tmp', b'tmpfs', 0, 0)",
    "device": "os.mknod('device', 0o600 | 0o020000, os.makedev(1, 3))",
    "host name": "call('unshare', 0x4000000) if len(sys.argv) > 1 else 0\n"
    "socket = __import__('socket'); socket.sethostname('other')",
}


@pytest.mark.skipif(not ROOT, reason="only root may do this outside")
@pytest.mark.parametrize("name", RIGHTS)
def test_rights_of_root(cell, trusted, name):
    attempt = f"{SYSTEM_CALL}{RIGHTS[name]}\nprint({OUT!r})"
    done = trusted.python(attempt, "in namespaces of its own")
    assert done.stdout == f"{OUT}\n", done.stderr
    trusted.sh("rm -f mine device")
    if name == "setuid":
        attempt = attempt.replace("os.setuid", "print(os.getuid()) or os.setuid")
    assert OUT not in cell.python(attempt).stdout


def test_limits_can_be_lowered_and_not_raised(cell):
    lower = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    assert cell.python(lower).exit_code == 0
    raised = cell.python(f"{lower}; {lower.replace('64', '65')}")
    assert "not allowed to raise maximum limit" in raised.stderr


@pytest.mark.parametrize("flags", [0x10000000, 0x00020000, 0x40000000, 0x20000000])
def test_namespaces_of_its_own(cell, trusted, flags):
    attempt = f"{SYSTEM_CALL}call('unshare', {flags})\nprint({OUT!r})"
    if ROOT:
        assert trusted.python(attempt).stdout == f"{OUT}\n"
    assert cell.python(attempt).exit_code == 1


def test_capabilities_and_the_promise_to_gain_none(cell, trusted):
    show = "grep -E '^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs)' /proc/self/status"
    assert {line.split()[1] for line in cell.sh(show).stdout.splitlines()} == {"0" * 16, "1"}
    if ROOT:
        assert "CapEff:\t0000000000000000" not in trusted.sh(show).stdout


def test_the_system_cannot_be_written(cell, trusted):
    places = ["/usr", "/usr/bin", "/etc", "/", "/dev", "/proc/sys/kernel", "/sys", "/sys/fs/cgroup"]
    attempt = 'for place in "$@"; do : > "$place/agent-file" && echo "$place"; done; true'
    assert cell.run("sh", "-c", attempt, "sh", *places).stdout == ""
    assert trusted.run("sh", "-c", attempt, "sh", ".").stdout == ".\n"
    assert cell.sh("echo h > /proc/sysrq-trigger").exit_code != 0


def test_secrets_and_sockets_of_the_host_are_not_there(cell):
    paths = ["/etc/shadow", "/root/.ssh", "/var/run/docker.sock", "/run/dbus", "/work", "/boot"]
    host = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    found = cell.run("ls", "-d", *paths, *([host] if host else []), str(Path(__file__)))
    assert found.stdout == ""


@pytest.mark.parametrize("kind", ["sandbox", "uncounted"])
@pytest.mark.parametrize("family", [socket.AF_VSOCK, socket.AF_ALG, socket.AF_PACKET])
def test_sockets_that_no_namespace_confines(kind, family):
    attempt = f"import socket; socket.socket({int(family)}, 3)"
    with desk(kind) as opened:
        assert "Address family not supported" in opened.python(attempt).stderr
        assert opened.python("import socket; socket.socketpair()").exit_code == 0


def test_the_keyring_of_the_user(cell):
    attempt = (
        f"{SYSTEM_CALL}number = 250 if os.uname().machine == 'x86_64' else 219\n"
        "call('syscall', number, 0, -3, 1)"
    )
    assert "PermissionError" in cell.python(attempt).stderr
