"""A server of this process on a free port, for the length of a block."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers all methods by ``respond``, keeps connections open, and tells nothing of them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self.respond()

    do_HEAD = do_POST = do_GET  # noqa: N815

    def respond(self) -> None:
        """Answer the request; its method is ``command``."""

    def content(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(
        self,
        content: bytes,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        *,
        cut: int | None = None,
    ) -> None:
        """Send ``content``; ``cut`` closes the connection after so many bytes of it."""
        self.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for name, value in {**usual, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut])
        self.wfile.flush()
        self.close_connection = self.close_connection or cut is not None

    def log_message(self, *args: object) -> None:
        pass


class Proxy(Handler):
    """Connects nobody, and has in ``asked`` whom somebody wanted to reach."""

    asked: list[str]

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        self.answer(b"", 502)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that went away is part of what is tested


@contextmanager
def http_server(handler: Any, **shared: object) -> Iterator[str]:
    """Let ``handler``, with ``shared`` as its attributes, answer; the value is the address."""
    made = type("Handler", (handler,), shared) if shared else handler
    with _Server(("127.0.0.1", 0), made) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
