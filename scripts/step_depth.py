"""Count the functions and files of the package that one training step passes.

A repository with a scripted model server is made in a temporary folder, and the command line
trains two steps in it, in this process: the first loads modules and measures the baseline, the
second runs under a profiler in all threads, without the display of progress. What counts is the
code of functions, lambdas and methods below the package's folder, each once; bodies of modules,
classes and comprehensions do not, nor does code that a library generates (a dataclass's
``__init__``). Only the command's entry point, its options and the files of a run are relied on,
so that versions can be compared.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]

RULES = {kind: f"Kind {kind}: a number begins with {kind}." for kind in "abcd"}

CONFIG = """\
run: depth
skill: skills/SKILL.md
tasks: {train: tasks/train.jsonl, selection: tasks/selection.jsonl, test: tasks/test.jsonl}
scorer: {type: exact, answer: tag}
model:
  target: {provider: openai, model: m, base_url: URL, api_key_env: DEPTH_KEY, retries: 0}
  optimizer: {provider: openai, model: m, base_url: URL, api_key_env: DEPTH_KEY, retries: 0}
train: {num_epochs: 2, batch_size: 4}
gradient: {minibatch_size: 2}
optimizer: {use_slow_update: false, use_meta_skill: false}
"""

#: Where a function stands: file below the package, qualified name, first line.
Place = tuple[str, str, int]


class Models(BaseHTTPRequestHandler):
    """Both models: a task is solved if the skill has its kind's rule, an edit adds a rule."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [message["content"] for message in body["messages"]]
        message = {"role": "assistant", "content": answer(texts[0], texts[-1])}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        choice = {"message": message, "finish_reason": "stop"}
        content = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def answer(system: str, prompt: str) -> str:
    """Return what the model says; the optimizer's stages are told by the system prompt."""
    item = re.fullmatch(r"Item (\d+) of kind (\w)", prompt)
    if item is not None:
        return f"<answer>{item[2] if RULES[item[2]] in system else ''}{item[1]}</answer>"
    lines = []
    if "analyst_error" in system:
        lines = [rule for rule in RULES.values() if rule not in prompt][:1]
    elif "merge" in system:
        lines = [rule for rule in RULES.values() if rule in prompt][-1:]
    edits = [{"op": "append", "content": f"- {line}"} for line in lines]
    return json.dumps({"patch": {"reasoning": "scripted", "edits": edits}})


@contextmanager
def serving() -> Iterator[str]:
    """Run the scripted models on a socket; yield their address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Models) as http:
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}).start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/v1"
        finally:
            http.shutdown()


def make_repository(folder: Path, url: str, config: str = CONFIG) -> None:
    """Commit a skill, its tasks and a configuration."""
    files = {"skills/SKILL.md": "# Items\n", "skillopt.yaml": config.replace("URL", url)}
    for split, start in (("train", 0), ("selection", 100), ("test", 200)):
        files[f"tasks/{split}.jsonl"] = "".join(
            json.dumps({"id": f"{kind}{number}", "prompt": prompt, "references": f"{kind}{number}"})
            + "\n"
            for number in range(start, start + 16)
            for kind in ["abcd"[number % 4]]
            for prompt in [f"Item {number} of kind {kind}"]
        )
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True)  # noqa: S607 - whichever git


@contextmanager
def surroundings(folder: Path) -> Iterator[None]:
    """Enter ``folder`` with an empty git configuration, no proxy and no other tool's settings."""
    file = folder.with_name("gitconfig")
    file.write_text("[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
    before, cwd = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(kept, HOME=str(folder.parent), DEPTH_KEY="sk-depth-key")
    os.environ.update(GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=str(file))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(before)


class Profiler:
    """Notes the code that runs, in this thread and in all that are started from now on."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Be told by the interpreter."""
        if event == "call":
            self.seen.add(frame.f_code)

    def __enter__(self) -> Profiler:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def places(self, package: Path) -> list[Place]:
        """The functions among what ran, in the package's files."""
        return sorted(
            {
                (Path(code.co_filename).relative_to(package).as_posix(), name, code.co_firstlineno)
                for code in self.seen
                if Path(code.co_filename).is_relative_to(package)
                # bodies of modules and classes have no fast locals
                and code.co_flags & inspect.CO_OPTIMIZED
                and not (name := code.co_qualname).endswith("comp>")
                and not name.endswith("<genexpr>")
            }
        )


def train_step() -> str:
    """Train one step through the command line; return what it printed."""
    from skillopt_ci.cli.main import main as skillopt  # noqa: PLC0415 - found by then

    said, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complaints):
        code = skillopt(["-q", "--no-progress", "step"])
    if code != 0:
        sys.exit(
            f"step_depth: the step ended with {code}\n{said.getvalue()}{complaints.getvalue()}"
        )
    return said.getvalue()


def measure() -> list[Place]:
    """Train a step to warm up, then one under the profiler."""
    with TemporaryDirectory() as place, serving() as url:
        folder = Path(place) / "repository"
        folder.mkdir()
        # on from the start, so that threads which outlive the first step are heard too
        with surroundings(folder), Profiler() as profiler:
            make_repository(folder, url)
            train_step()
            gc.collect()  # what the first step left is not to be finalized within the second
            profiler.seen.clear()
            train_step()
        return profiler.places(ROOT / "skillopt_ci")


def main() -> None:
    """Print how many functions and files a step passes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="list them, by file")
    parser.add_argument("--json", action="store_true", help="as JSON, with the list")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    places = measure()
    files: dict[str, list[str]] = {}
    for file, name, line in places:
        files.setdefault(file, []).append(f"{name}:{line}")
    if asked.json:
        figures = {"functions": len(places), "files": len(files), "list": files}
        print(json.dumps(figures, indent=2))
        return
    if asked.list:
        print("\n".join(f"{file}\n    {', '.join(names)}" for file, names in files.items()), "\n")
    print(f"{len(places)} functions in {len(files)} files")


if __name__ == "__main__":
    main()
