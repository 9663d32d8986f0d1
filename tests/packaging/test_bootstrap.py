"""What sets up ``.venv``: it does nothing twice, and installs only what the index promised."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from http_server import Handler, http_server
from programs import write_program
from script_module import script

# stands for the environment's interpreter: notes what it is asked and installs nothing
INTERPRETER = """#!/bin/sh
echo "$* $UV_DEFAULT_INDEX $SSL_CERT_FILE" >> "$0.calls"
case "$*" in
  *"uv pip install"*) [ ! -e "$0.without-uv" ];;
  *"pip install"*) [ ! -e "$0.offline" ];;
esac
"""


@pytest.fixture
def pip_wheel() -> Iterator[ModuleType]:
    yield script("pip_wheel")
    del sys.modules["pip_wheel"]


@pytest.fixture
def bootstrap(pip_wheel: ModuleType) -> Iterator[ModuleType]:
    del pip_wheel
    yield script("bootstrap")
    del sys.modules["bootstrap"]


def test_the_outdated_is_renewed_once_and_failure_leaves_no_stamp(bootstrap, tmp_path, monkeypatch):
    project, venv = tmp_path / "pyproject.toml", tmp_path / ".venv"
    project.write_text("a", "utf-8")
    write_program(venv / "bin/python", INTERPRETER)
    (venv / "pyvenv.cfg").touch()
    digest = hashlib.sha256(project.read_bytes()).hexdigest()
    stamp = venv / ".bootstrap"
    bootstrap.write_stamp(stamp, bootstrap.Stamp(str(tmp_path), digest, True))
    monkeypatch.setenv("PIP_INDEX_URL", "https://index/simple")
    monkeypatch.setenv("PIP_CERT", "/ca.pem")
    told = venv / "bin/python.calls"

    def installed(dev: bool) -> list[str]:
        told.write_text("", "utf-8")
        bootstrap.bootstrap(tmp_path, dev)
        return [line for line in told.read_text("utf-8").splitlines() if "pip install" in line]

    assert installed(False) == []
    project.write_text("b", "utf-8")
    tools, everything = installed(False)
    assert "--upgrade" in tools
    # with what was once asked for, from the index that pip is told
    assert "uv pip install" in everything
    assert everything.endswith(f"--group {project}:dev https://index/simple /ca.pem")
    assert installed(False) == []
    assert bootstrap.read_stamp(stamp).dev
    project.write_text("c", "utf-8")
    (venv / "bin/python.without-uv").touch()
    assert "-m pip install" in installed(True)[-1]
    (venv / "bin/python.offline").touch()
    project.write_text("d", "utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.bootstrap(tmp_path, True)
    assert not stamp.exists()


def test_it_builds_on_the_python_that_runs_it_unless_too_old(bootstrap, tmp_path, monkeypatch):
    assert bootstrap.best_python() == sys.executable
    for name in ("python3.12", "python3.14"):
        (tmp_path / name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert bootstrap.best_python() == str(tmp_path / "python3.14")


WHEEL = b"the wheel"
PYTHON = (3, 11)


def test_the_newest_fitting_wheel_is_downloaded_and_held_against_its_hash(pip_wheel, tmp_path):
    digest = hashlib.sha256(WHEEL).hexdigest()

    def link(name: str, more: str = "") -> str:
        return f'<a href="../files/{name}#sha256={digest}" {more}>{name}</a>\n'

    page = (
        link("pip-9.0-py3-none-any.whl")
        + link("pip-26.3-py3-none-any.whl", 'data-requires-python="&gt;=3.10"')
        + link("pip-27.0-py3-none-any.whl", 'data-requires-python="&gt;=3.12"')
        + link("pip-26.4-py3-none-any.whl", 'data-yanked="broken"')
        + link("pip-26.5b1-py3-none-any.whl")
        + '<a href="pip-28.0-py3-none-any.whl">no hash</a>'
    )
    pages = {"/simple/pip/": page.encode(), "/simple/files/pip-26.3-py3-none-any.whl": WHEEL}

    class Pages(Handler):
        def respond(self) -> None:
            content = pages.get(self.path)
            self.answer(content or b"", 404 if content is None else 200)

    with http_server(Pages) as url:
        settings = {"PIP_INDEX_URL": f"{url}/simple"}
        file = pip_wheel.download_pip(tmp_path, PYTHON, settings)
        assert (file.name, file.read_bytes()) == ("pip-26.3-py3-none-any.whl", WHEEL)
        file.unlink()
        pages["/simple/pip/"] = page.replace(digest, "0" * 64).encode()
        with pytest.raises(pip_wheel.BootstrapError, match="does not have the sha256"):
            pip_wheel.download_pip(tmp_path, PYTHON, settings)
        assert list(tmp_path.iterdir()) == []
        pages.clear()
        with pytest.raises(pip_wheel.BootstrapError, match=r"404.*install python3-venv"):
            pip_wheel.download_pip(tmp_path, PYTHON, settings)


def test_settings_come_from_pips_own_files_and_variables(pip_wheel, tmp_path):
    file = tmp_path / ".config/pip/pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text("[global]\nindex-url = https://a/simple\ncert = /ca%20.pem\n", "utf-8")
    found = pip_wheel.pip_settings({"HOME": str(tmp_path), "PIP_INDEX_URL": "https://b/simple"})
    assert (found["index-url"], found["cert"]) == ("https://b/simple", "/ca%20.pem")
