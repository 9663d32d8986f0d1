"""The sandbox of a user without any rights: what it promises holds as well.

Where the tests run as an ordinary user all of them show it. As root, a few are done as nobody, with
the system's own Python, since nobody may not read ours.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from computer_kinds import computers

import skillopt_ci

pytestmark = pytest.mark.integration

ATTEMPTS = """\
import asyncio, json, os
from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.computer.sandbox import Sandboxes

sandboxes = Sandboxes(os.defpath, hierarchies=lambda: None)
sandboxes.check()
ATTEMPTS = {
    "works": "echo x > file && cat file",
    "network": "cat /proc/net/dev",
    "root": "id -u; grep CapEff /proc/self/status",
    "outside": "cat OUTSIDE",
    "processes": "for n in $(seq 60); do sleep 9 & done; echo all begun",
    "memory": "python3 -c 'bytearray(200 << 20)' && echo held",
    "disk": "head -c 30M /dev/zero > big && echo written",
    "system": "echo x > /usr/x && echo written",
    "more namespaces": "unshare --user true && echo made",
}

async def attempt():
    spec = ComputerSpec(memory_mb=96, processes=48, disk_mb=16)
    async with sandboxes.open(spec) as computer:
        told = {}
        for name, script in ATTEMPTS.items():
            done = await computer.run(["sh", "-c", script], timeout=60)
            told[name] = [done.exit_code, done.stdout]
        return told

print(json.dumps([os.getuid(), asyncio.run(attempt())]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="all other tests are an ordinary user's")
def test_nobody_is_confined_as_well(tmp_path_factory):
    computers("uncounted")  # or skip
    python = shutil.which("python3", path="/usr/bin")
    newer = python and subprocess.run([python, "-c", "from enum import StrEnum"], check=False)
    if python is None or newer is None or newer.returncode:
        pytest.skip("the system's own Python is older than 3.11")
    shelf = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        source = Path(skillopt_ci.__file__).parent
        shutil.copytree(source / "computer", shelf / "skillopt_ci/computer")
        for name in ("__init__.py", "aio.py", "confinement.py", "errors.py", "program.py"):
            shutil.copy(source / name, shelf / "skillopt_ci" / name)
        subprocess.run(["chmod", "-R", "a+rX", str(shelf)], check=True)
        outside = shelf / "outside"
        outside.write_text("s3cr3t")
        done = subprocess.run(
            [
                *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"),
                *(python, "-B", "-c", ATTEMPTS.replace("OUTSIDE", str(outside))),
            ],
            env={"PYTHONPATH": str(shelf), "PATH": os.defpath},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        user, told = json.loads(done.stdout)
    finally:
        shutil.rmtree(shelf)
    assert user == 65534
    assert told["works"] == [0, "x\n"]
    assert [line.split(":")[0].strip() for line in told["network"][1].splitlines()[2:]][:1] == [
        "lo"
    ]
    assert "eth" not in told["network"][1]
    assert told["root"] == [0, "1000\nCapEff:\t0000000000000000\n"]
    for name in ("outside", "processes", "memory", "disk", "system", "more namespaces"):
        assert (told[name][0] != 0, told[name][1]) == (True, ""), name
