"""Servers whose certificate a company signed itself: those of models, git and GitHub's API."""

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from github_server.scene import variables

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import InfrastructureError
from skillopt_ci.git.process import Git
from skillopt_ci.git.remote import heads
from skillopt_ci.github.client import AnswerLost, NotFound, connect
from skillopt_ci.model import access as model_access
from skillopt_ci.model.access import connection_pool

pytestmark = pytest.mark.integration
#: For a certificate that vouches for itself.
REQUEST = "req -x509 -newkey rsa:2048 -nodes -subj /CN=x -addext subjectAltName=IP:127.0.0.1"


class Empty(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET  # noqa: N815 - the name that the library looks for

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("authority")
    words = ["openssl", *REQUEST.split(), "-keyout", "key.pem", "-out", "it.pem"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return folder / "it.pem"


@pytest.fixture
def url(authority: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, authority.with_name("key.pem"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_git_reads_its_own_variable(monkeypatch, tmp_path, url, authority):
    git = Git(tmp_path)
    with pytest.raises(InfrastructureError, match="certificate is not trusted here") as caught:
        heads(git, f"{url}/o/r")
    assert "GIT_SSL_CAINFO" in caught.value.hint
    monkeypatch.setenv("GIT_SSL_CAINFO", str(authority))
    with pytest.raises(InfrastructureError, match="there is no repository"):
        heads(git, f"{url}/o/r")


def test_the_api_reads_the_variable_of_requests(monkeypatch, url, authority):
    client = connect(variables("o/r", "pat", url), wait=lambda _: None)
    with pytest.raises(AnswerLost, match="SSLError") as caught:
        assert client.login
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    with pytest.raises(NotFound):
        assert client.login


def test_model_clients_read_the_usual_variable(monkeypatch, url, authority):
    config = ModelRole(provider="openai", model="m", base_url=url)
    monkeypatch.setattr(model_access, "_trusted", model_access._trusted.__wrapped__)

    async def status() -> int:
        async with connection_pool(config, 1) as pool:
            return int((await pool.get(url)).status_code)

    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(status())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert asyncio.run(status()) == 404
