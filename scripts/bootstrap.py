"""Set up ``.venv`` for this checkout with nothing but Python's standard library.

A fresh Debian or Ubuntu has Python but often neither pip nor ensurepip: then pip's wheel comes
straight from the package index, checked against the index's hash. ``.venv/.bootstrap`` is written
last and says what stands there, so that a run with nothing to do ends at once and a run that was
killed is done again. Keep the syntax readable for old interpreters: they must get as far as the
message about their version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from pip_wheel import DEFAULT_INDEX, BootstrapError, download_pip, pip_settings

OLDEST = (3, 11)
NEWEST_FIRST = ("python3.15", "python3.14", "python3.13", "python3.12", "python3.11")
VERSION_TEST = f"import sys; sys.exit(sys.version_info < {OLDEST})"


class Stamp(NamedTuple):
    """What a finished bootstrap left: for which folder and pyproject, with the dev group or not."""

    root: str
    digest: str
    dev: bool

    def covers(self, wanted: Stamp) -> bool:
        """Say whether nothing has to be done to have ``wanted``."""
        return self[:2] == wanted[:2] and self.dev >= wanted.dev


def main() -> int:
    """Bring ``.venv`` up to date; return the exit code."""
    parser = argparse.ArgumentParser(description="Set up .venv for this checkout.")
    parser.add_argument("--dev", action="store_true", help="also install what tests and lint use")
    asked = parser.parse_args()
    try:
        bootstrap(Path(__file__).resolve().parent.parent, dev=asked.dev)
    except BootstrapError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"bootstrap: failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 2
    return 0


def bootstrap(root: Path, dev: bool) -> None:
    """Make or renew the environment of the checkout in ``root`` unless it is as it should be."""
    venv, file = root / ".venv", root / ".venv" / ".bootstrap"
    found = read_stamp(file)
    digest = hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()
    wanted = Stamp(str(root), digest, dev or (found is not None and found.dev))
    python = venv / "bin" / "python"
    usable = (venv / "pyvenv.cfg").is_file() and is_usable(python)
    if usable and found is not None and found.covers(wanted):
        return
    file.unlink(missing_ok=True)
    moved = found is not None and found.root != wanted.root
    if moved or not usable or not has_pip(python):
        create(venv, best_python())
    print(f"bootstrap: installing into {venv} …", flush=True)
    install(python, root, wanted.dev)
    write_stamp(file, wanted)


def best_python() -> str:
    """Return the interpreter to build on: ours, or where that is too old, the newest there is.

    Raises BootstrapError if none is new enough.
    """
    for path in (sys.executable, *map(shutil.which, NEWEST_FIRST)):
        if path and is_usable(Path(path)):
            return path
    raise BootstrapError(
        f"skillopt-ci needs Python {dotted(OLDEST)} or newer; "
        f"{sys.executable} is {dotted(sys.version_info[:2])}"
    )


def dotted(version: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def is_usable(python: Path) -> bool:
    """Say whether ``python`` runs and is new enough (a shim or a dangling link may not be)."""
    return python.exists() and succeeds(python, "-c", VERSION_TEST)


def has_pip(python: Path) -> bool:
    """Say whether the interpreter has a pip that runs."""
    return succeeds(python, "-m", "pip", "--version")


def create(venv: Path, python: str) -> None:
    """Create an empty environment with pip in the folder ``venv``."""
    print(f"bootstrap: creating {venv} with {python}", flush=True)
    if succeeds(python, "-c", "import ensurepip"):
        run(python, "-m", "venv", "--clear", venv)
        return
    run(python, "-m", "venv", "--clear", "--without-pip", venv)
    with tempfile.TemporaryDirectory() as folder:
        wheel = download_pip(Path(folder), OLDEST, os.environ)
        run(venv / "bin" / "python", wheel / "pip", "install", "--quiet", "--no-index", wheel)


def install(python: Path, root: Path, dev: bool) -> None:
    """Install the checkout and what it needs with uv, which takes a sixth of pip's time.

    Of pip's settings uv gets the index and its certificate. Where that is not enough, pip installs.
    """
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1", "uv>=0.7")
    what = ["--editable", str(root)]
    if dev:
        what += ["--group", f"{root / 'pyproject.toml'}:dev"]
    settings = pip_settings(os.environ)
    same = {"UV_DEFAULT_INDEX": settings.get("index-url", DEFAULT_INDEX)}
    if "cert" in settings:
        same["SSL_CERT_FILE"] = settings["cert"]
    if not succeeds(python, "-m", "uv", "pip", "install", "--python", python, *what, **same):
        run(python, "-m", "pip", "install", "--quiet", *what)


def read_stamp(file: Path) -> Stamp | None:
    """Return what the last finished bootstrap left, if one ever did."""
    try:
        root, digest, dev = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return Stamp(root, digest, dev == "dev")


def write_stamp(file: Path, stamp: Stamp) -> None:
    """Leave the stamp, whole or not at all."""
    new = file.with_name(".bootstrap.new")
    words = (stamp.root, stamp.digest, "dev" if stamp.dev else "plain")
    new.write_text("\n".join(words) + "\n", encoding="utf-8")
    os.replace(new, file)  # noqa: PTH105


def run(*command: str | Path) -> None:
    """Run a command that must succeed, in which pip touches nothing outside of an environment."""
    careful = {"PIP_REQUIRE_VIRTUALENV": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(command, check=True, env={**os.environ, **careful})


def succeeds(*command: str | Path, **environ: str) -> bool:
    """Say whether a command succeeds, whatever it prints, with ``environ`` added to ours."""
    quiet = subprocess.DEVNULL
    done = subprocess.run(
        command, check=False, stdout=quiet, stderr=quiet, env={**os.environ, **environ}
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
