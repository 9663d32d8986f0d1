"""The programs that a sandbox is made with."""

import os
import shutil
from dataclasses import dataclass

from skillopt_ci.computer.errors import ComputerUnavailable

#: Program and the Debian package that has it.
_NEEDED = {
    "bwrap": "bubblewrap",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "prlimit": "util-linux",
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "mount": "mount",
}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each program is."""

    bwrap: str
    unshare: str
    nsenter: str
    prlimit: str
    setpriv: str
    taskset: str
    mount: str


def find_programs(search_path: str) -> Programs:
    """Look for the programs. Raises ComputerUnavailable with what to install."""
    # Administrators' programs are often left out of the path of ordinary users.
    administrative = (folder.replace("bin", "sbin") for folder in search_path.split(os.pathsep))
    path = os.pathsep.join((search_path, *administrative))
    found = {name: shutil.which(name, path=path) for name in _NEEDED}
    missing = sorted({_NEEDED[name] for name, file in found.items() if file is None})
    if missing:
        names = ", ".join(name for name, file in found.items() if file is None)
        raise ComputerUnavailable(
            f"`rollout.computer.type: sandbox` needs the program {names}, which is not installed.",
            hint=f"Install it: apt-get install {' '.join(missing)}"
            " (Linux only). Or use `type: docker`.",
        )
    return Programs(**{name: file for name, file in found.items() if file is not None})
