"""The engine's side of a command's standard streams: one socket, output in frames.

See "Stream format" in Docker's API reference, under "Attach to a container".
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping

from skillopt_ci.computer.capture import Capture

_HEADER = struct.Struct(">BxxxL")


async def converse(connection: socket.socket, stdin: bytes, outputs: Mapping[int, Capture]) -> None:
    """Send ``stdin``, and sort what comes into ``outputs`` (1 and 2) until nothing more does."""
    connection.setblocking(False)
    sending = asyncio.create_task(_send(connection, stdin))
    try:
        await _receive(connection, outputs)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(connection: socket.socket, content: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(connection, content)
        connection.shutdown(socket.SHUT_WR)


async def _receive(connection: socket.socket, outputs: Mapping[int, Capture]) -> None:
    loop = asyncio.get_running_loop()
    header, stream, left = b"", 0, 0
    while chunk := await loop.sock_recv(connection, 65_536):
        while chunk:
            if left == 0:
                missing = _HEADER.size - len(header)
                header, chunk = header + chunk[:missing], chunk[missing:]
                if len(header) == _HEADER.size:
                    (stream, left), header = _HEADER.unpack(header), b""
            else:
                part, chunk = chunk[:left], chunk[left:]
                left -= len(part)
                if stream in outputs:
                    outputs[stream].feed(part)
