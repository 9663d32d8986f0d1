"""The HTTP server and its request handler: OpenAI's chat completions, and ``/stats``."""

import select
import socket
import socketserver
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.simulated.completion import complete, find_model
from skillopt_ci.model.simulated.dice import content_key
from skillopt_ci.model.simulated.faults import Behaviour, Tally, fault_of
from skillopt_ci.model.simulated.protocol import (
    BadRequestError,
    Call,
    completion_body,
    encoded,
    error_body,
    models_body,
    read_call,
)


class SimulatedServer(socketserver.ThreadingTCPServer):
    """Serves until it is shut down; ``tally`` counts."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], behaviour: Behaviour) -> None:
        """Bind to ``address``; port 0 takes a free one."""
        self.behaviour = behaviour
        self.tally = Tally()
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report what went wrong in a handler, unless the client merely went away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def base_url(self) -> str:
        """The URL that clients are configured with."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{host}:{port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: SimulatedServer

    def do_GET(self) -> None:
        match self.path:
            case "/v1/models":
                self._send(HTTPStatus.OK, models_body())
            case "/stats":
                self._send(HTTPStatus.OK, encoded(self.server.tally.snapshot()))
            case _:
                self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}")
            return
        try:
            call = read_call(body)
            find_model(call.model)
        except BadRequestError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except ModelSetupError as error:
            self._refuse(HTTPStatus.NOT_FOUND, str(error), code="model_not_found")
        else:
            self._complete(call)

    def _complete(self, call: Call) -> None:
        behaviour, tally = self.server.behaviour, self.server.tally
        content = content_key(call.messages)
        attempt = tally.next_try(content)
        fault = fault_of(content, attempt, seed=behaviour.seed, rate=behaviour.fault_rate)
        time.sleep(behaviour.latency)
        completion = complete(
            call.model,
            call.messages,
            seed=behaviour.seed,
            attempt=0,
            limit=call.limit,
            tools=call.tools,
        )
        body = completion_body(call, completion, content)
        if self._client_is_gone():
            self.close_connection = True
        elif fault is not None:
            tally.note_fault(fault)
            self._fail(fault, body)
        else:
            tally.note_answer(content)
            self._send(HTTPStatus.OK, body)

    def _client_is_gone(self) -> bool:
        """Whether the other side closed the connection: what it never reads is no answer."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _fail(self, fault: str, body: bytes) -> None:
        match fault:
            case "rate_limited":
                waiting = {"Retry-After": str(self.server.behaviour.retry_after)}
                limited = error_body("rate_limit_error", "too many requests, slow down")
                self._send(HTTPStatus.TOO_MANY_REQUESTS, limited, waiting)
            case "server_error":
                failed = error_body("server_error", "the server had an error")
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, failed)
            case "truncated_json":
                self._send(HTTPStatus.OK, body[: len(body) // 2])
            case _:
                self._send(
                    HTTPStatus.OK, body[: len(body) // 2], {"Content-Length": str(len(body))}
                )
                self.close_connection = True

    def _refuse(self, status: HTTPStatus, message: str, code: str | None = None) -> None:
        self._send(status, error_body("invalid_request_error", message, code))

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        defaults = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in {**defaults, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep standard error quiet: the tally is the log."""
