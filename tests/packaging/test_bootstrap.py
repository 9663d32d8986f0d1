import base64
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from http_server import Handler, http_server

# stands for the environment's interpreter: notes what it is asked and installs nothing
INTERPRETER = """#!/bin/sh
echo "$*" >> "$0.calls"
case "$*" in *"pip install"*) [ ! -e "$0.offline" ];; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[dependency-groups]\ndev = ["a>=1", "b"]\n', "utf-8")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    (tmp_path / ".venv/bin/python").write_text(INTERPRETER, "utf-8")
    (tmp_path / ".venv/bin/python").chmod(0o755)
    return tmp_path


def installs(checkout: Path) -> int:
    return (checkout / ".venv/bin/python.calls").read_text("utf-8").count("pip install")


def stamp(bootstrap: ModuleType, checkout: Path, *, dev: bool) -> Path:
    digest = hashlib.sha256((checkout / "pyproject.toml").read_bytes()).hexdigest()
    file = checkout / ".venv" / ".bootstrap"
    bootstrap.write_stamp(file, bootstrap.Stamp(str(checkout), digest, dev))
    return file


@pytest.mark.parametrize(("there", "wanted"), [(True, True), (True, False), (False, False)])
def test_an_environment_that_is_as_it_should_be_is_left_alone(there, wanted, bootstrap, checkout):
    stamp(bootstrap, checkout, dev=there)
    bootstrap.bootstrap(checkout, wanted)
    assert installs(checkout) == 0


@pytest.mark.parametrize("change", ["dependencies", "dev group"])
def test_what_is_out_of_date_is_renewed_once(change, bootstrap, checkout):
    stamp(bootstrap, checkout, dev=False)
    if change == "dependencies":
        (checkout / "pyproject.toml").write_text("# another", "utf-8")
    for _ in range(2):
        bootstrap.bootstrap(checkout, change == "dev group")
    assert installs(checkout) == 1


def test_a_failed_renewal_leaves_no_stamp(bootstrap, checkout):
    file = stamp(bootstrap, checkout, dev=False)
    (checkout / ".venv/bin/python.offline").touch()
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.bootstrap(checkout, True)
    assert not file.exists()


def test_the_dev_group_stays_when_something_else_asks_without_it(bootstrap, checkout):
    file = stamp(bootstrap, checkout, dev=True)
    (checkout / "pyproject.toml").write_text("# another", "utf-8")
    bootstrap.bootstrap(checkout, False)
    assert bootstrap.read_stamp(file).dev


@pytest.mark.parametrize("text", ["", "half", "a\nb\nc\nd\n"])
def test_a_stamp_that_is_not_whole_counts_for_nothing(text, bootstrap, tmp_path):
    (tmp_path / "stamp").write_text(text, "utf-8")
    assert bootstrap.read_stamp(tmp_path / "stamp") is None


def test_a_stamp_is_read_as_it_was_written(bootstrap, tmp_path):
    written = bootstrap.Stamp("/somewhere else", "abc", True)
    bootstrap.write_stamp(tmp_path / "stamp", written)
    assert bootstrap.read_stamp(tmp_path / "stamp") == written


def test_an_interpreter_that_does_not_run_is_not_usable(bootstrap, tmp_path):
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n", "utf-8")
    shim.chmod(0o755)
    assert not bootstrap.is_usable(shim)
    assert not bootstrap.is_usable(tmp_path / "missing")
    assert bootstrap.is_usable(Path(sys.executable))


def test_the_dev_group_is_read_from_pyproject(bootstrap, checkout):
    wanted = bootstrap.Stamp(str(checkout), "", True)
    assert bootstrap.group(Path(sys.executable), checkout, wanted) == ["a>=1", "b"]
    assert bootstrap.group(Path(sys.executable), checkout, wanted._replace(dev=False)) == []


def test_pip_is_kept_from_installing_outside_of_an_environment(bootstrap, capfd):
    bootstrap.run(sys.executable, "-c", "import os; print(os.environ['PIP_REQUIRE_VIRTUALENV'])")
    assert capfd.readouterr().out == "1\n"


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
