import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from http_server import Handler, http_server

WHEEL = b"the wheel"
DIGEST = hashlib.sha256(WHEEL).hexdigest()
PYTHON = (3, 11)


def link(name: str, digest: str = DIGEST, more: str = "") -> str:
    return f'<a href="../files/{name}#sha256={digest}" {more}>{name}</a>\n'


@dataclass
class Index:
    url: str
    pages: dict[str, bytes] = field(default_factory=dict)
    authorizations: list[str | None] = field(default_factory=list)

    def offer(self, *links: str) -> None:
        self.pages["/simple/pip/"] = "".join(links).encode()


@pytest.fixture
def index() -> Iterator[Index]:
    class Pages(Handler):
        def respond(self) -> None:
            offered.authorizations.append(self.headers["Authorization"])
            content = offered.pages.get(self.path)
            self.answer(content or b"", 404 if content is None else 200)

    with http_server(Pages) as url:
        offered = Index(f"{url}/simple")
        offered.pages["/simple/files/pip-26.3-py3-none-any.whl"] = WHEEL
        yield offered


def test_the_newest_fitting_wheel_is_chosen(pip_wheel):
    page = (
        link("pip-9.0-py3-none-any.whl")
        + link("pip-26.3-py3-none-any.whl", more='data-requires-python="&gt;=3.10"')
        + link("pip-27.0-py3-none-any.whl", more='data-requires-python="&gt;=3.12"')
        + link("pip-26.4-py3-none-any.whl", more='data-yanked="broken"')
        + link("pip-26.5b1-py3-none-any.whl")
        + link("pip-26.6.tar.gz")
        + '<a href="pip-28.0-py3-none-any.whl">no hash</a>'
    )
    wheels = pip_wheel.find_wheels(page, "https://x.org/simple/pip/", PYTHON)
    assert max(wheels).url == "https://x.org/simple/files/pip-26.3-py3-none-any.whl"


def test_the_wheel_is_downloaded_and_checked(pip_wheel, index, tmp_path):
    index.offer(link("pip-26.3-py3-none-any.whl"))
    file = pip_wheel.download_pip(tmp_path, PYTHON, {"PIP_INDEX_URL": index.url})
    assert file == tmp_path / "pip-26.3-py3-none-any.whl"
    assert file.read_bytes() == WHEEL


def test_a_wheel_that_is_not_what_the_index_promised_is_refused(pip_wheel, index, tmp_path):
    index.offer(link("pip-26.3-py3-none-any.whl", "0" * 64))
    with pytest.raises(pip_wheel.BootstrapError, match="does not have the sha256"):
        pip_wheel.download_pip(tmp_path, PYTHON, {"PIP_INDEX_URL": index.url})
    assert list(tmp_path.iterdir()) == []


def test_credentials_of_the_index_url_are_sent_as_a_header(pip_wheel, index, tmp_path):
    index.offer(link("pip-26.3-py3-none-any.whl"))
    with_user = index.url.replace("://", "://me:p%40ss@")
    pip_wheel.download_pip(tmp_path, PYTHON, {"PIP_INDEX_URL": with_user})
    expected = "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert index.authorizations == [expected, expected]


def test_an_index_that_cannot_be_read_says_what_to_do(pip_wheel, index, tmp_path):
    with pytest.raises(pip_wheel.BootstrapError, match=r"404.*install python3-venv"):
        pip_wheel.download_pip(tmp_path, PYTHON, {"PIP_INDEX_URL": index.url})


def test_settings_come_from_pips_own_files_and_variables(pip_wheel, tmp_path):
    file = tmp_path / ".config/pip/pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text("[global]\nindex-url = https://a/simple\ncert = /ca%20.pem\n", "utf-8")
    environ = {"HOME": str(tmp_path), "PIP_INDEX_URL": "https://b/simple"}
    found = pip_wheel.pip_settings(environ)
    assert (found["index-url"], found["cert"]) == ("https://b/simple", "/ca%20.pem")
