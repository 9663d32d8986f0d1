"""The engine's part: reaching it, what it must be able to do, and its framed streams."""

import asyncio
import json
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from computer_kinds import SPEC
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.computer.docker import LABEL, Containers, connect, converse
from skillopt_ci.computer.process import Capture, this_process
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable

ABLE = {"OSType": "linux", "MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True}


@contextmanager
def engine_with(
    facts: dict[str, object],
    pulling: int = 500,
    left: dict[str, str] | None = None,
    removing: int = 204,
) -> Iterator[str]:
    """Serve what an engine says about itself, without any image; ``pulling`` one ends so.

    ``left`` are its containers, with their owners; ``removing`` one ends so, 204 being success.
    """
    containers = {} if left is None else left

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/images/" in self.path:
                return self.answer(404, {"message": "no such image"})
            if "/containers/json" in self.path:
                labelled = [{"Id": one, "Labels": {LABEL: of}} for one, of in containers.items()]
                return self.answer(200, labelled)
            about = {"ApiVersion": "1.41"} if self.path.endswith("/version") else facts
            return self.answer(200, about)

        def do_POST(self) -> None:
            self.answer(pulling, {"message": "the registry says no"})

        def do_DELETE(self) -> None:
            if removing != 204:
                return self.answer(removing, {"message": "the disk says no"})
            del containers[self.path.partition("?")[0].rpartition("/")[2]]
            return self.answer(204, None)

        def answer(self, status: int, body: object) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_an_engine_that_can_limit_is_used() -> None:
    with engine_with(ABLE) as host:
        engine = connect({"DOCKER_HOST": host})
        assert engine.api.info() == ABLE  # type: ignore[no-untyped-call]
        engine.close()


@pytest.mark.parametrize(
    ("lack", "why"),
    [
        *(({name: False}, "cannot limit") for name in ("MemoryLimit", "CpuCfsQuota", "PidsLimit")),
        ({"OSType": "windows"}, "does not run Linux"),
    ],
)
def test_an_engine_that_cannot_limit_is_refused(lack: dict[str, object], why: str) -> None:
    with engine_with(ABLE | lack) as host, pytest.raises(ComputerUnavailable, match=why):
        connect({"DOCKER_HOST": host})


def test_no_engine(tmp_path: Path) -> None:
    with pytest.raises(ComputerUnavailable, match="No Docker engine answers"):
        connect({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})


@pytest.mark.parametrize(
    "environ",
    [{"DOCKER_HOST": "ssh://host"}, {"DOCKER_HOST": "tcp://host:2376", "DOCKER_TLS_VERIFY": "1"}],
)
def test_engines_that_cannot_be_reached_this_way(environ: dict[str, str]) -> None:
    with pytest.raises(ComputerUnavailable, match="cannot use the engine"):
        connect(environ)


def test_the_sdk_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(ComputerUnavailable, match="SDK") as refused:
        Containers({}, "image").check()
    assert "skillopt-ci[docker]" in refused.value.hint


def test_an_image_is_needed() -> None:
    async def use() -> None:
        async with Containers({}).open(SPEC):
            raise AssertionError

    with pytest.raises(ComputerUnavailable, match="needs an image"):
        asyncio.run(use())


@pytest.mark.parametrize(("status", "error"), [(404, ComputerUnavailable), (500, ComputerFailure)])
def test_an_image_that_cannot_be_had(status: int, error: type[Exception]) -> None:
    """What no registry has is the configuration's fault, a registry that fails is the world's."""

    async def use(host: str) -> None:
        async with Containers({"DOCKER_HOST": host}, "no/such:1").open(SPEC):
            raise AssertionError

    with engine_with(ABLE, pulling=status) as host, pytest.raises(error, match="registry says"):
        asyncio.run(use(host))


def left_behind() -> dict[str, str]:
    """A container of a process that has ended, and one of this process."""
    here = this_process()
    return {"dead": str(replace(here, started=here.started - 1)), "live": str(here)}


def swept(left: dict[str, str], removing: int) -> set[str]:
    """The containers that are there after a sweep of an engine with those that were ``left``."""
    with engine_with(ABLE, left=left, removing=removing) as host:
        engine = connect({"DOCKER_HOST": host})
        try:
            engine.sweep()
        finally:
            engine.close()
    return set(left)


def test_a_sweep_removes_what_dead_processes_left() -> None:
    assert swept(left_behind(), removing=204) == {"live"}


@pytest.mark.parametrize("status", [404, 409])
def test_a_sweep_lets_another_run_be_quicker(status: int) -> None:
    """It is gone already, or is being removed: that is all a sweep wants."""
    assert swept(left_behind(), removing=status) == {"dead", "live"}


@pytest.mark.parametrize("status", [400, 500])
def test_a_sweep_says_why_it_cannot_remove(status: int) -> None:
    with pytest.raises(ComputerFailure, match="the disk says no"):
        swept(left_behind(), removing=status)


def test_a_run_does_not_begin_on_an_engine_that_cannot_be_swept() -> None:
    with (
        engine_with(ABLE, left=left_behind(), removing=500) as host,
        pytest.raises(ComputerUnavailable, match="the disk says no"),
    ):
        Containers({"DOCKER_HOST": host}).check()


FRAMES = st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=60)), max_size=8)


@given(FRAMES, st.integers(1, 20), st.binary(max_size=300))
def test_frames_are_sorted_however_they_come(
    frames: list[tuple[int, bytes]], size: int, stdin: bytes
) -> None:
    stream = b"".join(struct.pack(">BxxxL", kind, len(part)) + part for kind, part in frames)

    async def talk() -> tuple[dict[int, Capture], bytes]:
        loop = asyncio.get_running_loop()
        outputs = {1: Capture(1000), 2: Capture(1000)}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            talking = asyncio.create_task(converse(ours, stdin, outputs))
            said = b""
            while chunk := await loop.sock_recv(theirs, 100):
                said += chunk
            for at in range(0, len(stream), size):
                await loop.sock_sendall(theirs, stream[at : at + size])
                await asyncio.sleep(0)
            theirs.shutdown(socket.SHUT_WR)
            await talking
        return outputs, said

    outputs, said = asyncio.run(talk())
    assert said == stdin
    for kind in (1, 2):
        assert outputs[kind].content() == b"".join(part for one, part in frames if one == kind)
