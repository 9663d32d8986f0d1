import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import skillopt_ci

BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder], cwd=root, capture_output=True, text=True, check=True
    )
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


def test_the_wheel_holds_every_file_of_the_package(wheel, root):
    package = root / "skillopt_ci"
    files = {
        path.relative_to(root).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= set(wheel.namelist())


def test_the_wheel_holds_nothing_but_the_package(wheel):
    information = f"skillopt_ci-{skillopt_ci.__version__}.dist-info"
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"skillopt_ci", information}


def test_the_wheel_says_its_version_licence_and_command(wheel):
    information = f"skillopt_ci-{skillopt_ci.__version__}.dist-info"
    metadata = wheel.read(f"{information}/METADATA").decode("utf-8")
    assert "License-Expression: MIT" in metadata
    assert b"skillopt_ci.cli.main:main" in wheel.read(f"{information}/entry_points.txt")
    assert b"MIT License" in wheel.read(f"{information}/licenses/LICENSE")


def test_the_ci_script_is_runnable(root):
    assert os.access(root / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", root / ".ci" / "run"], check=True)


def test_make_lists_its_targets(root):
    done = subprocess.run(["make", "-s"], cwd=root, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == [
        *("help", "quickstart", "test", "unit", "lint", "format"),
        *("docs", "lock", "image", "check", "stats", "setup"),
    ]
