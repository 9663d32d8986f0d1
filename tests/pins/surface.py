"""What the program shows its surroundings: lines of JSON, files, exit codes, inputs, a schema.

Each function plays one scene in a folder of its own and returns what was observed, as JSON and
without what depends on the machine or the clock.
"""

from __future__ import annotations

import json
import lzma
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Lock
from typing import Any

import yaml

from tests.pins.world import (
    FIXTURES,
    Case,
    Models,
    Place,
    described,
    keys,
    normalised,
    serving,
    unpack,
)

FILE = FIXTURES / "surface.json.xz"
ROOT = Path(__file__).parents[2]
#: The fixture that most scenes are played with: killed while its first candidate was measured.
STARTED = "killed-in-evaluation"
FRESH = "fresh"

Observed = Any


def quickstart(scratch: Path) -> Observed:
    """The bundled example, from nothing to its last line."""
    place = Place(scratch)
    done = place.command("quickstart", "repository", "--json", "--no-progress", at=".")
    assert done.returncode == 0, done.stderr
    found = described(place, "skillopt/quickstart")
    return {"told": _lines(done.stdout), "keys": keys(place), **found}


#: One after the other, in a repository whose first candidate is in flight.
WORDS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("plan", "--shards", "2"),
    ("discover",),
    ("step",),
    ("step", "--until-candidate"),
    ("plan", "--shards", "3"),
    ("status",),
    ("run",),
    ("run",),
    ("plan",),
    ("status",),
    ("log",),
    ("show", "4"),
    ("eval",),
    ("eval", "initial", "best", "--split", "selection"),
    # of the baseline, which the version that made the fixture measured
    ("trace", "a100", "--stage", "selection", "--skill", "80e60770"),
    ("rescore",),
    ("best",),
    ("config",),
)


def commands(scratch: Path) -> Observed:
    """What commands print with ``--json``, and how they end."""
    place, case = _unpacked(STARTED, scratch)
    with serving(case.script) as models:
        there = place.via(models)
        done = [there.command(*words, "--json", "--no-progress") for words in WORDS]
    return {
        f"{number} {' '.join(words)}": {"code": one.returncode, "out": _lines(one.stdout)}
        for number, (words, one) in enumerate(zip(WORDS, done, strict=True))
    }


def rollouts(scratch: Path) -> Observed:
    """The files that shards leave for ``step --rollouts``: of chat answers, and of an agent."""
    found = {}
    for name in (FRESH, "fresh-agent"):
        place, case = _unpacked(name, scratch / name)
        with serving(case.script) as models:
            done = place.via(models).command("rollout", "--shard", "1/2", "-O", "answers.jsonl")
        assert done.returncode == 0, done.stderr
        lines = (place.repository / "answers.jsonl").read_text("utf-8").splitlines()
        found[name] = sorted(_timeless(line) for line in lines)
    return found


def exit_codes(scratch: Path) -> Observed:
    """How commands end in situations that scripts must tell apart, and the error they print."""
    return {name: scene(scratch / name) for name, scene in dict(_situations()).items()}


def schema(_: Path) -> Observed:
    """What a configuration may hold; neither prose nor the names of classes are part of it."""
    done = subprocess.run(
        [sys.executable, "-m", "skillopt_ci", "config", "schema"],
        capture_output=True,
        text=True,
        check=True,
    )
    whole = json.loads(done.stdout)
    shapes = {name: _bare(shape) for name, shape in whole.pop("$defs").items()}
    # A shape is called by its own keys, so that a class may be renamed.
    names = {name: _called(shape) for name, shape in shapes.items()}
    found: dict[str, list[object]] = {"": [_bare(whole)]}
    for name in sorted(shapes, key=lambda name: json.dumps(shapes[name], sort_keys=True)):
        found.setdefault(names[name], []).append(shapes[name])
    text = json.dumps(found, sort_keys=True)
    renamed = re.sub(r"#/\$defs/(\w+)", lambda ref: names[ref[1]], text)
    return json.loads(renamed)


def action(_: Path) -> Observed:
    """The action's inputs with their defaults, and its outputs."""
    found = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return {
        "inputs": {
            name: {key: value for key, value in about.items() if key != "description"}
            for name, about in found["inputs"].items()
        },
        "outputs": list(found["outputs"]),
    }


SCENES: Mapping[str, Callable[[Path], Observed]] = {
    "quickstart": quickstart,
    "commands": commands,
    "rollouts": rollouts,
    "exit-codes": exit_codes,
    "schema": schema,
    "action": action,
}


def expected(name: str) -> Observed:
    return json.loads(lzma.decompress(FILE.read_bytes()))[name]


def _unpacked(name: str, scratch: Path) -> tuple[Place, Case]:
    scratch.mkdir(parents=True, exist_ok=True)
    place = unpack(name, scratch)
    return place, Case.load((scratch / "case.json").read_text("utf-8"))


def _lines(text: str) -> list[str]:
    return [_sorted(_timeless(line)) for line in text.splitlines()]


def _sorted(line: str) -> str:
    """Attempts are rescored in the order in which they once ended, which is chance."""
    if not line.startswith('{"attempts": [{'):
        return line
    told = json.loads(line)
    told["attempts"].sort(key=json.dumps)
    return json.dumps(told)


#: What depends on clock and machine in lines of JSON.
_TIMES = (
    (re.compile(r'("seq": ?)\d+'), r"\1…"),
    (re.compile(r'("(?:\w*seconds\w*|started_at|ended_at|time|duration)": ?)[0-9.e-]+'), r"\1…"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]00:00)"), "…"),
    (re.compile(r"[0-9.]+ s\b"), "… s"),
    (re.compile(r'/[^\s"]*/(?=repository\b)'), "/…/"),
)


def _timeless(line: str) -> str:
    line = normalised(line)
    for pattern, replacement in _TIMES:
        line = pattern.sub(replacement, line)
    return line


def _bare(shape: Any) -> Any:
    if isinstance(shape, list):
        return [_bare(one) for one in shape]
    if not isinstance(shape, dict):
        return shape
    return {
        key: {name: _bare(one) for name, one in value.items()}
        if key in ("properties", "$defs")
        else _bare(value)
        for key, value in shape.items()
        if key not in ("title", "description", "markdownDescription", "$id", "$comment")
    }


def _called(shape: Mapping[str, Any]) -> str:
    properties = shape.get("properties", {})
    kind = properties.get("type", {}).get("const", "")
    told = ",".join(sorted(properties)) or json.dumps(shape, sort_keys=True).replace('"', "")
    return f"{kind}:{told}"


# Situations


def _ended(done: subprocess.CompletedProcess[str]) -> Observed:
    """The code, and of an error its kind and the keys that it is told with."""
    found: dict[str, object] = {"code": done.returncode}
    last = done.stdout.splitlines()[-1:] or ["null"]
    told = json.loads(last[0]) if last[0].startswith(("{", "null")) else None
    if isinstance(told, dict) and "error" in told:
        found |= {"error": told["error"].get("type"), "keys": sorted(told["error"])}
    return found


def _plain(*words: str, name: str = FRESH) -> Callable[[Path], Observed]:
    def play(scratch: Path) -> Observed:
        place, case = _unpacked(name, scratch)
        with serving(case.script) as models:
            return _ended(place.via(models).command(*words, "--json"))

    return play


def _nowhere(scratch: Path) -> Observed:
    place = Place(scratch)
    place.repository.mkdir(parents=True)
    return _ended(place.command("step", "--json"))


def _without_key(scratch: Path) -> Observed:
    place, _ = _unpacked(FRESH, scratch)
    return _ended(place.command("step", "--json", "-o", "model.target.api_key_env=NO_SUCH_KEY"))


def _troubled(trouble: Callable[[Models], None], *words: str) -> Callable[[Path], Observed]:
    def play(scratch: Path) -> Observed:
        place, case = _unpacked(FRESH, scratch)
        with serving(case.script) as models:
            trouble(models)
            return _ended(place.via(models).command(*words, "--json"))

    return play


def _out_of_order(models: Models) -> None:
    models.trouble = lambda system, prompt: 500


def _refused(scratch: Path) -> Observed:
    place, case = _unpacked(STARTED, scratch)
    hook = scratch / "origin.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with serving(case.script) as models:
        return _ended(place.via(models).command("step", "--json"))


def _second(scratch: Path) -> Observed:
    """Another process trains this run, and is interrupted in the end."""
    place, case = _unpacked(FRESH, scratch)
    with serving(case.script) as models:
        asked, go = Event(), Event()

        def wait(system: str, prompt: str) -> int:
            asked.set()
            go.wait(60)
            return 0

        models.trouble = wait
        there = place.via(models)
        with there.start("run", "-q") as first:
            assert asked.wait(60)
            ended = _ended(there.command("run", "--json"))
            first.send_signal(signal.SIGTERM)
            go.set()
            first.communicate()
    return {"second": ended, "first": {"code": first.returncode}}


def _somebody_else(scratch: Path) -> Observed:
    """The skills branch is moved on the remote while a step of one command is done."""
    place, case = _unpacked("killed-with-candidate", scratch)
    branch = "skillopt/demo"
    with serving(case.script) as models:
        moved: list[str] = []
        lock = Lock()

        def move(system: str, prompt: str) -> int:
            with lock:
                if moved:
                    return 0
                tree = place.git("rev-parse", f"{branch}^{{tree}}")
                made = place.git("commit-tree", tree, "-p", branch, "-m", "Else")
                moved.append(place.git("push", "--quiet", "origin", f"{made}:{branch}"))
            return 0

        models.trouble = move
        return _ended(place.via(models).command("step", "--json"))


def _situations() -> Iterator[tuple[str, Callable[[Path], Observed]]]:
    yield "done", _plain("step")
    yield "no configuration", _nowhere
    yield "unknown key", _plain("step", "-o", "train.batch_sise=8")
    yield "wrong value", _plain("step", "-o", "train.batch_size=many")
    yield "unknown option", _plain("step", "--no-such-option")
    yield "no such command", _plain("stride")
    yield "no shard", _plain("rollout", "--shard", "5/4")
    yield "no answers", _plain("step", "--rollouts", "skillopt.yaml")
    yield "no tasks", _plain("step", "-o", "tasks.train=nowhere.jsonl")
    yield "no skill", _plain("step", "-o", "skill=nowhere.md")
    yield "three skills", _plain("eval", "best", "current", "initial")
    yield "not started", _plain("status")
    yield "no key", _without_key
    yield "nothing left", _plain("slow-update", name=STARTED)
    yield "budget", _plain("run", "-o", "budget.run.calls=20")
    yield "server out of order", _troubled(_out_of_order, "step")
    yield "push refused", _refused
    yield "second process, interrupted", _second
    yield "somebody else was first", _somebody_else
