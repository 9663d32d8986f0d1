"""The engine's part: reaching it, what it must be able to do, and what was left on it."""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from computer_kinds import SPEC, computers
from programs import write_program
from virtual_time import pass_time, rounds

from skillopt_ci.aio import working_time
from skillopt_ci.computer.docker import Containers, Engine
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable
from skillopt_ci.liveness import this_process

ABLE = {"OSType": "linux", **dict.fromkeys(("MemoryLimit", "CpuCfsQuota", "PidsLimit"), True)}


def engine_with(
    folder: Path,
    facts: dict[str, object],
    pulling: str = "",
    left: dict[str, str] | None = None,
    removing: str = "",
) -> dict[str, str]:
    """An environment whose `docker` says this of its engine, which has no image.

    It says ``pulling`` of an image that it is to pull. ``left`` are its containers, with their
    owners; it says ``removing`` of one that it is to remove, or removes it.
    """
    listed = "\n".join(f"{name} {owner}" for name, owner in (left or {}).items())
    script = f"""#!/bin/sh
case $1 in
info) echo {shlex.quote(json.dumps(facts))};;
pull) echo {shlex.quote(pulling)} >&2; exit 1;;
ps) echo {shlex.quote(listed)};;
rm) [ -z {shlex.quote(removing)} ] || {{ echo {shlex.quote(removing)} >&2; exit 1; }}
    echo "$4" >> {folder}/removed;;
*) exit 1;;
esac
"""
    program = write_program(folder / "bin/docker", script)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("lack", "why"),
    [
        *(({name: False}, "cannot limit") for name in ("MemoryLimit", "CpuCfsQuota", "PidsLimit")),
        ({"OSType": "windows"}, "does not run Linux"),
        ({"ServerErrors": ["is it running?"]}, "No Docker engine answers: is it running?"),
    ],
)
def test_an_engine_that_cannot_limit_is_refused(tmp_path, lack, why):
    with pytest.raises(ComputerUnavailable, match=why.replace("?", r"\?")):
        Containers(engine_with(tmp_path, ABLE | lack)).check()


def test_no_engine(tmp_path):
    environ = engine_with(tmp_path, ABLE)
    (tmp_path / "bin/docker").write_text("#!/bin/sh\necho 'cannot connect' >&2; exit 1\n")
    with pytest.raises(ComputerUnavailable, match=r"No Docker engine answers.*cannot connect"):
        Containers(environ).check()
    with pytest.raises(ComputerFailure, match=r"No Docker engine answers.*cannot connect"):
        opened(environ, "image:1")  # in a run, the attempt is repeated: it may be restarting


def test_no_program(tmp_path):
    with pytest.raises(ComputerUnavailable, match="not installed") as refused:
        Containers({"PATH": str(tmp_path)}, "image").check()
    assert "docker-cli" in refused.value.hint


def opened(environ: dict[str, str], image: str = "") -> None:
    async def use() -> None:
        async with Containers(environ, image).open(SPEC):
            raise AssertionError

    asyncio.run(use())


def test_an_image_is_needed():
    with pytest.raises(ComputerUnavailable, match="needs an image"):
        opened({})


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("manifest for no/such:1 not found: manifest unknown", ComputerUnavailable),
        ("no matching manifest for linux/arm64/v8 in the manifest list", ComputerUnavailable),
        ("no basic auth credentials", ComputerUnavailable),
        ("pull access denied for no/such", ComputerUnavailable),
        ("received unexpected HTTP status: 503 Service Unavailable", ComputerFailure),
    ],
)
def test_an_image_that_cannot_be_had(tmp_path, said, error):
    """What no registry has is the configuration's fault, a registry that fails is the world's."""
    with pytest.raises(error, match=f"Could not pull image no/such:1: .*{said}"):
        opened(engine_with(tmp_path, ABLE, pulling=said), "no/such:1")


def test_pulling_an_image_takes_no_working_time_and_ends_with_the_run(tmp_path):
    environ, begun, ended = engine_with(tmp_path, ABLE), tmp_path / "begun", tmp_path / "ended"
    program = tmp_path / "bin/docker"
    pulling = f"pull) : > {begun}; sleep 5; : > {ended};"
    program.write_text(program.read_text().replace("pull) ", pulling))

    async def pull() -> None:
        async with working_time(60):
            await Engine(environ).provide("image:1")

    async def stop() -> None:
        running = asyncio.create_task(pull())
        while not begun.exists():
            await asyncio.sleep(0.01)
        pass_time(60)
        await rounds()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(stop())
    assert not ended.exists()


def left_behind() -> dict[str, str]:
    """A container of a process that has ended, and one of this process."""
    here = this_process()
    return {"dead": f"{here.rpartition('-')[0]}-1", "live": here, "odd": "x"}


def swept(folder: Path, removing: str) -> list[str]:
    """The containers that a sweep removes from an engine with those that were left."""
    asyncio.run(Engine(engine_with(folder, ABLE, left=left_behind(), removing=removing)).sweep())
    removed = folder / "removed"
    return removed.read_text().split() if removed.exists() else []


@pytest.mark.parametrize("said", ["", "No such container: dead", "removal is already in progress"])
def test_a_sweep_removes_what_dead_processes_left_unless_another_run_was_quicker(tmp_path, said):
    assert swept(tmp_path, removing=said) == ([] if said else ["dead"])


def test_a_sweep_says_why_it_cannot_remove(tmp_path):
    with pytest.raises(ComputerFailure, match="the disk says no"):
        swept(tmp_path, removing="the disk says no")
    environ = engine_with(tmp_path, ABLE, left=left_behind(), removing="the disk says no")
    with pytest.raises(ComputerUnavailable, match="the disk says no"):
        Containers(environ).check()


@pytest.mark.integration
def test_an_image_that_lacks_a_program_is_no_fault_of_the_work(tmp_path):
    """It would be graded without its files."""
    computers("docker")  # skips the test where there is none
    image, cut = os.environ["SKILLOPT_CI_TEST_IMAGE"], f"skillopt-ci-{tmp_path.name}"
    words = ("run", "--name", cut, "--entrypoint", "rm", image, "-f", "/bin/tar", "/usr/bin/tar")
    for arguments in (words, ("commit", cut, cut), ("rm", cut)):
        subprocess.run(("docker", *arguments), check=True, capture_output=True)
    try:
        with pytest.raises(ComputerUnavailable, match="lacks `find`, `tar` or"):
            Containers(dict(os.environ), cut).check()
    finally:
        subprocess.run(("docker", "rmi", "--force", cut), check=True, capture_output=True)


@pytest.mark.integration
def test_input_that_a_command_leaves_unread_is_taken_all_the_same(tmp_path):
    """Otherwise the engine closes on `docker`, which then may fail and lose the output."""
    computers("docker")  # skips the test where there is none
    real = shutil.which("docker")
    program = write_program(
        tmp_path / "bin/docker",
        f"#!{sys.executable}\n"
        "import subprocess, sys\n"
        f"running = subprocess.Popen([{real!r}, *sys.argv[1:]], stdin=subprocess.PIPE)\n"
        "running.stdin.write(sys.stdin.buffer.read())  # raises if `docker` has ended\n"
        "running.stdin.close()\n"
        "sys.exit(running.wait())\n",
    )
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    async def use() -> None:
        async with Containers(environ, os.environ["SKILLOPT_CI_TEST_IMAGE"]).open(SPEC) as computer:
            done = await computer.run(("echo", "hi"), timeout=60, stdin=b"x" * 60_000_000)
            assert (done.exit_code, done.stdout, done.stderr) == (0, "hi\n", "")

    asyncio.run(use())
