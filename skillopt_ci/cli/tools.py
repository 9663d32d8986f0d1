"""Examine the tools that a configuration needs: git, programs as models, what confines agents."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from skillopt_ci.aio import visible
from skillopt_ci.cli.examine import Finding, failed
from skillopt_ci.computer.computer import ComputerFailure, ComputerUnavailable
from skillopt_ci.computer.docker import attempt, connect
from skillopt_ci.computer.sandbox_limits import find_programs, usable_hierarchies
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.git.process import Git
from skillopt_ci.rollout.computers import open_places
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.task import Task

#: The first git that fetches without a trace of its own, as the ledger does.
_OLDEST_GIT = (2, 29)
_PATIENCE = 30


def git_finding(folder: Path) -> Finding:
    """Whether there is a git, and one that knows what the ledger asks of it."""
    try:
        return judged_git(Git(folder).text("--version"))
    except SkilloptError as error:
        return failed("git", error)


def judged_git(said: str) -> Finding:
    """What to think of a git that says this of its version."""
    numbers = re.search(r"(\d+)\.(\d+)", said)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= _OLDEST_GIT:
        return Finding("git", "ok", said)
    oldest = ".".join(map(str, _OLDEST_GIT))
    text = f"{said} is too old\nInstall git {oldest} or newer."
    return Finding("git", "error", text, ExitCode.USAGE)


def model_programs(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The programs that stand for models: where they are, and the versions of those we know."""
    models = loaded.config.model
    roles = (("target", models.target), ("optimizer", models.optimizer), ("judge", models.judge))
    for name, role in roles:
        if role is not None and role.preset.protocol == "command":
            yield _model_program(f"model.{name}", role, loaded.root, environ)


def _model_program(part: str, role: ModelRole, root: Path, environ: Mapping[str, str]) -> Finding:
    program = role.program[0].replace("{root}", str(root.resolve()))
    path = shutil.which(program, path=environ.get("PATH", os.defpath))
    if path is None:
        what = f"the program {program} is not found"
        remedy = f"Install it so that it is in PATH, or name its full path in {part}.command."
        return Finding(part, "error", f"{what}\n{remedy}", ExitCode.USAGE)
    if role.provider == "command":
        return Finding(part, "ok", f"its program is {path}")  # what --version does to it, who knows
    return Finding(part, "ok", f"its program is {path}, version {_version(path, environ)}")


def workplace(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What confines agents, in which version; that it works is found out elsewhere."""
    settings = loaded.config.rollout.computer
    if settings is None:
        return
    try:
        if settings.type == "sandbox":
            yield _sandbox(environ)
        elif settings.type == "docker":
            yield from _docker(loaded, environ)
    except (ComputerUnavailable, ComputerFailure):
        return  # an error on this kind of computer is told already


def _sandbox(environ: Mapping[str, str]) -> Finding:
    path = environ.get("PATH", os.defpath)
    version = _version(find_programs(path).bwrap, environ)
    groups = "control groups limit each as a whole"
    if usable_hierarchies() is None:
        groups = "no control groups: each process is limited by itself"
    text = f"{version}, Linux {platform.release()}, user {os.getuid()}; {groups}"
    return Finding("computer", "ok", text)


def _docker(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    engine = connect(environ)
    try:
        facts = attempt(engine.api.version)
        yield Finding("computer", "ok", f"Docker engine {facts.get('Version', 'of some version')}")
        for image in _images(loaded, environ):
            there = bool(attempt(engine.api.images, image))
            state = "is there" if there else "is not there: the first attempt pulls it"
            yield Finding("computer", "ok" if there else "warning", f"the image {image} {state}")
    finally:
        engine.close()


def _images(loaded: Loaded, environ: Mapping[str, str]) -> list[str]:
    """The images that the configuration and the tasks of its files name."""
    places = open_places(loaded.config, loaded.root, environ)
    if places is None:
        return []
    named = {places.base.image: None}
    named.update(dict.fromkeys(places.spec(task).image for task in _tasks(loaded.config, loaded)))
    return [image for image in named if image]


def _tasks(config: Config, loaded: Loaded) -> tuple[Task, ...]:
    if config.tasks is None:
        return ()
    try:
        splits = load_splits(config.tasks, loaded.root, config.train)
    except SkilloptError:
        return ()  # said of the tasks themselves
    return (*splits.train, *splits.selection, *splits.test)


def _version(program: str, environ: Mapping[str, str]) -> str:
    """What the program says of its version, in one line; it sees no key."""
    try:
        said = subprocess.run(  # noqa: S603  # a program that is used anyway
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_PATIENCE,
            env=visible(environ, ()),
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return first_line(said.stdout) or first_line(said.stderr) or "unknown"


def first_line(output: bytes | str) -> str:
    """The first line of ``output`` that says anything, no longer than fits."""
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else output
    return next(filter(None, map(str.strip, text.splitlines())), "")[:120]
