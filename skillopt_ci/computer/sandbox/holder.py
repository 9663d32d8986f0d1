"""The process that a computer lives and dies with.

It has namespaces of its own for mounts and processes, with a file system in memory that holds the
agent's files; commands are started into them. It waits for its standard input to end, which
happens whenever and however our process ends, and the kernel then kills all that is left inside.
No command can see it or send it a signal.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.aio import undisturbed
from skillopt_ci.computer.errors import ComputerFailure
from skillopt_ci.computer.process import started
from skillopt_ci.computer.sandbox.programs import Programs
from skillopt_ci.computer.sandbox.rights import Rights

#: Where the file system is, in the holder's view of the files: a folder that every Linux has, and
#: that nobody keeps programs in.
STAGE = "/sys"
_READY = b"ready\n"
_FILES_PER_MB = 128
_LEAST_FILES = 16_384
_PATIENCE = 60.0

#: Arguments: megabytes, number of files, owner, readable paths. While the shell waits for `cat` it
#: takes note of the end of other processes as well, whose parents were killed.
_SCRIPT = """\
set -eu
mount -t tmpfs -o "size=$1m,nr_inodes=$2,mode=0755,nosuid,nodev" tmpfs /sys
owner=$3
shift 3
cd /sys
mkdir workspace home tmp shm readable etc
chmod 1777 tmp shm
echo "root:x:0:0:root:/nonexistent:/bin/false
agent:x:1000:1000:agent:/home/agent:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false" > etc/passwd
echo "root:x:0:
agent:x:1000:
nogroup:x:65534:" > etc/group
echo "127.0.0.1 localhost
::1 localhost" > etc/hosts
echo "passwd: files
group: files
hosts: files dns" > etc/nsswitch.conf
chown "$owner:$owner" workspace home tmp shm
number=0
for source in "$@"; do
  if [ -d "$source" ]; then mkdir "readable/$number"; else : > "readable/$number"; fi
  mount --rbind -- "$source" "readable/$number"
  number=$((number + 1))
done
echo ready
exec 3<&0
cat <&3 > /dev/null &
wait "$!"
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """A holder at work; ``pid`` is its parent's, whose namespaces for children are the holder's."""

    pid: int

    def entering(self, programs: Programs, rights: Rights) -> tuple[str, ...]:
        """Return the words that make a command start in the holder's namespaces, as the agent."""
        spaces = f"/proc/{self.pid}/ns"
        user = () if rights.is_root else (f"--user={spaces}/user", "--preserve-credentials")
        become = (programs.setpriv, f"--reuid={rights.become}", f"--regid={rights.become}")
        return (
            programs.nsenter,
            *user,
            f"--mount={spaces}/mnt",
            f"--pid={spaces}/pid_for_children",
            "--",
            *((*become, "--clear-groups", "--") if rights.is_root else ()),
        )


@asynccontextmanager
async def holder(
    programs: Programs, rights: Rights, *, disk_mb: int, readable: Sequence[Path]
) -> AsyncIterator[Holder]:
    """Start a holder; at the end it is gone with everything inside.

    Raises ComputerFailure if it does not start, with what the system says.
    """
    user = () if rights.is_root else ("--user", "--map-root-user")
    files = max(_LEAST_FILES, disk_mb * _FILES_PER_MB)
    starting = asyncio.create_subprocess_exec(
        *(
            programs.unshare,
            *user,
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ),
        *("/bin/sh", "-c", _SCRIPT, "sh", str(disk_mb), str(files), str(rights.become or 0)),
        *map(str, readable),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd="/",
        start_new_session=True,
    )
    process = await started(starting)
    try:
        await _await_readiness(process)
        yield Holder(process.pid)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await undisturbed(process.wait())


async def _await_readiness(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None  # noqa: S101  (both were asked for)
    assert process.stderr is not None  # noqa: S101
    try:
        async with asyncio.timeout(_PATIENCE):
            if await process.stdout.readline() == _READY:
                return
            errors = await process.stderr.read()
    except TimeoutError:
        process.kill()
        raise ComputerFailure(f"The sandbox did not start within {_PATIENCE:g} s.") from None
    reason = errors.decode("utf-8", errors="replace").strip()
    raise ComputerFailure(f"The sandbox did not start: {reason or 'no reason was given'}")
