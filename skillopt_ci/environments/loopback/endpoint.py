"""The HTTP server on the loopback interface, and the lines on which programs call it."""

import asyncio
import hmac
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from skillopt_ci.environments.loopback.wire import Asked, BadRequestError, error_body, read_request

#: How soon the server's thread notices that it is to stop.
_POLL_SECONDS = 0.05
#: Bodies beyond this are refused: no conversation is that long.
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """A question that waits; ``answer`` takes the body of the reply."""

    asked: Asked
    answer: Future[bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """One attempt's way to the models: who has its ``token`` is heard by ``hear``."""

    token: str
    hear: Callable[[Call], None]
    waiting: list[Future[bytes]] = field(default_factory=list)


class Endpoint:
    """Serves in a thread of its own until it is closed, whatever event loops come and go."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._server = _Server(self._lines)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    @property
    def base_url(self) -> str:
        """The URL that programs are configured with."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def open_line(self, hear: Callable[[Call], None]) -> Line:
        """Open a line for one attempt; calls on it are put before ``hear`` in the present loop."""
        loop = asyncio.get_running_loop()
        line = Line(secrets.token_urlsafe(24), lambda call: _tell(loop, hear, call))
        self._lines[line.token] = line
        return line

    def hang_up(self, line: Line) -> None:
        """Close a line; whoever still waits on it is turned away."""
        del self._lines[line.token]
        for answer in tuple(line.waiting):
            answer.cancel()

    def close(self) -> None:
        """Stop serving."""
        for line in list(self._lines.values()):
            self.hang_up(line)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _tell(loop: asyncio.AbstractEventLoop, hear: Callable[[Call], None], call: Call) -> None:
    try:
        loop.call_soon_threadsafe(hear, call)
    except RuntimeError:  # the loop is closed: nobody is there any more
        call.answer.cancel()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, lines: dict[str, Line]) -> None:
        self.lines = lines
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a program that was killed leaves broken connections behind."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > _MOST_BYTES:
            self.close_connection = True
            return self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error_body("too long"))
        # read in any case: what stays on the connection would pass for the next request
        body = self.rfile.read(length)
        line = self._line()
        if line is None:
            return self._send(HTTPStatus.UNAUTHORIZED, error_body("this line is not open"))
        if self.path != "/v1/chat/completions":
            return self._send(HTTPStatus.NOT_FOUND, error_body(f"there is no {self.path}"))
        try:
            asked = read_request(body)
        except BadRequestError as error:
            return self._send(HTTPStatus.BAD_REQUEST, error_body(str(error)))
        return self._answer(line, Call(asked, Future()))

    def _answer(self, line: Line, call: Call) -> None:
        line.waiting.append(call.answer)
        if line.token in self.server.lines:
            line.hear(call)
        else:  # hung up in this very moment
            call.answer.cancel()
        try:
            body = call.answer.result()
        except BaseException:  # noqa: BLE001  # cancelled: the attempt is over
            self.close_connection = True
            return
        finally:
            line.waiting.remove(call.answer)
        self._send(HTTPStatus.OK, body)

    def _line(self) -> Line | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        lines = tuple(self.server.lines.values())
        return next((one for one in lines if hmac.compare_digest(one.token.encode(), token)), None)

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep standard error quiet."""
