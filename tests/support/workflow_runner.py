"""Runs a workflow and the reusable ones that it calls as GitHub does, as far as that goes here.

Expressions are evaluated by GitHub's own library (npm), our action is started for real, `run:` is
given to bash, checkout and the cache are imitated, artifacts are only looked at.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from action_world import Finished, World

ROOT = Path(__file__).parents[2]
_NODE = ROOT / "node_modules" / ".bin" / "node"
#: npm is not among what a fresh machine must have; CI has it.
INSTALLED = (ROOT / "node_modules" / "@actions" / "expressions").is_dir()
_CALL = re.compile(r"skillopt-ci/skillopt-ci/(\.github/workflows/\w+\.yml)@([0-9a-f]{40})")
_LEVELS = ("none", "read", "write")
#: Events that people without write access can cause: by default, their jobs only read the cache.
_LOW_TRUST = ("issue_comment", "pull_request_target", "workflow_run")
Json = dict[str, Any]


@dataclass
class Ran:
    """A job that was not skipped: what was decided for it, and how the action in it ended."""

    group: str
    permissions: Json
    head: str = ""
    """The commit that was checked out."""
    done: Finished | None = None
    restored: str = ""
    artifacts: list[str] = field(default_factory=list)
    summary: str = ""


@dataclass
class Runner:
    """What GitHub keeps between the runs of a repository's workflow."""

    world: World
    workflow: Path
    node: "subprocess.Popen[str]"
    secrets: dict[str, str] = field(default_factory=dict)
    overrides: str = ""
    sha: str = ""
    """The commit that the event is about; by default the newest on main."""
    caches: dict[str, Path] = field(default_factory=dict)

    def fire(self, event: str, payload: Json) -> dict[str, Ran]:
        """The jobs that the event starts, by their names."""
        file = load(self.workflow)
        if event not in file[True]:  # YAML 1.1 takes `on` for a boolean
            return {}
        github = {"event_name": event, "event": payload, "repository": "octo/skills"}
        github |= {
            "run_id": str(len(self.caches) + 1),
            "run_attempt": "1",
            "ref": "refs/heads/main",
        }
        outer = {"github": github, "inputs": payload.get("inputs", {}), "secrets": self.secrets}
        ran: dict[str, Ran] = {}
        for job in file["jobs"].values():
            called, given = self._called(job), {**outer, "status": "success"}
            if not self._holds(job.get("if", "success()"), given):
                continue
            declared = called[True]["workflow_call"]
            inputs = {name: one["default"] for name, one in declared["inputs"].items()}
            inputs |= self._resolve(job.get("with", {}), given)
            secrets = self._resolve(job.get("secrets", {}), given)
            assert inputs.keys() <= declared["inputs"].keys()
            assert secrets.keys() <= declared.get("secrets", {}).keys()
            inner = {"github": github, "inputs": inputs, "secrets": secrets, "needs": {}}
            mode = job.get("cache-mode", "read" if event in _LOW_TRUST else "write")
            inner["cache-mode"] = mode
            self._jobs(called, job["permissions"], inner, event, ran)
        return ran

    def _called(self, job: Json) -> Json:
        found = _CALL.fullmatch(job["uses"])
        assert found, job["uses"]
        subprocess.run(["git", "-C", ROOT, "cat-file", "-e", f"{found[2]}^{{commit}}"], check=True)
        return load(ROOT / found[1])

    def _jobs(self, file: Json, most: Json, inner: Json, event: str, ran: dict[str, Ran]) -> None:
        for key, job in file["jobs"].items():
            # GitHub refuses the whole file, whatever the conditions
            assert all(
                _LEVELS.index(level) <= _LEVELS.index(most.get(name, "none"))
                for name, level in job["permissions"].items()
            )
            contexts = {**inner, "steps": {}, "status": "success"}
            # a mode above the caller's would be refused
            contexts["cache-mode"] = min(
                job.get("cache-mode", "write"), inner["cache-mode"], key=_LEVELS.index
            )
            if set(job.get("needs", "").split()) - contexts["needs"].keys():
                continue
            if not self._holds(job.get("if", "success()"), contexts):
                continue
            made = Ran(self._resolve(job["concurrency"]["group"], contexts), job["permissions"])
            ran[job["name"]] = made
            self.world.hub.permissions = job["permissions"]
            for step in job["steps"]:
                self._step(step, contexts, made, event)
            outputs = self._resolve(job.get("outputs", {}), contexts)
            inner["needs"][key] = {"outputs": outputs, "result": contexts["status"]}

    def _step(self, step: Json, contexts: Json, made: Ran, event: str) -> None:
        if not self._holds(step.get("if", "success()"), contexts):
            return
        resolved = self._resolve(step.get("with", {}), contexts)
        given = {name: "" if value is None else value for name, value in resolved.items()}
        uses = step.get("uses", "")
        name, outputs = uses.partition("@")[0], {}
        store = self.world.workspace / ".git" / "skillopt-ci"
        if uses == "$/docker":
            assert given.keys() <= load(ROOT / "docker" / "action.yml")["inputs"].keys()
            payload = contexts["github"]["event"]
            options = {"overrides": self.overrides} if self.overrides else {}
            made.done = self.world.start(event, payload, **given, **options)
            outputs = made.done.outputs
            contexts["status"] = "failure" if made.done.code else contexts["status"]
        elif name == "actions/checkout":
            assert given["persist-credentials"] is False
            made.head = self._checkout(given.get("ref", ""))
        elif name == "actions/cache/restore":
            shutil.rmtree(store, ignore_errors=True)
            keys = [key for key in self.caches if key.startswith(given["restore-keys"])]
            if keys:
                made.restored = keys[-1]
                shutil.copytree(self.caches[made.restored], store)
        elif name == "actions/cache/save" and contexts["cache-mode"] == "read":
            pass  # a warning; the job goes on
        elif name == "actions/cache/save":
            kept = self.world.files / f"cache-{len(self.caches)}"
            shutil.copytree(store, kept)
            self.caches[given["key"]] = kept
        elif name.startswith("actions/"):
            made.artifacts += [given["path"]] if "path" in given else []
            assert all((self.world.workspace / path).exists() for path in made.artifacts)
            outputs = {"artifact-url": "https://github.com/artifacts/7"}
        else:
            made.summary = self._bash(step["run"], self._resolve(step.get("env", {}), contexts))
        contexts["steps"][step.get("id", uses)] = {"outputs": outputs}

    def _checkout(self, ref: str) -> str:
        git, bare = self.world.git, str(self.world.hub.bare.folder)
        git("clean", "-ffdxq")
        git("fetch", "--quiet", bare, ref if ref.startswith("refs/") else "main")
        commit = self.sha if not ref else "FETCH_HEAD" if ref.startswith("refs/") else ref
        git(
            "checkout",
            "--quiet",
            *(["--detach", commit] if commit else ["-B", "main", "FETCH_HEAD"]),
        )
        return git("rev-parse", "HEAD")

    def _bash(self, text: str, env: dict[str, str]) -> str:
        summary = self.world.files / "summary"
        variables = self.world.variables("", {}) | env
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
        subprocess.run(words, cwd=self.world.workspace, env=variables, check=True)
        return summary.read_text(encoding="utf-8")

    def _holds(self, condition: str, contexts: Json) -> bool:
        if not re.search(r"\b(always|success|failure|cancelled)\(\)", condition):
            condition = f"success() && ({condition})"
        return bool(self._resolve(f"${{{{ {condition} }}}}", contexts))

    def _resolve(self, value: Any, contexts: Json) -> Any:
        assert self.node.stdin is not None
        assert self.node.stdout is not None
        self.node.stdin.write(json.dumps({"contexts": contexts, "value": value}) + "\n")
        self.node.stdin.flush()
        return json.loads(self.node.stdout.readline())


@contextmanager
def github_runner(world: World, workflow: Path) -> Iterator[Runner]:
    script = Path(__file__).parent / "workflow_expressions.mjs"
    pipe = subprocess.PIPE
    with subprocess.Popen([_NODE, script], stdin=pipe, stdout=pipe, text=True) as node:
        yield Runner(world, workflow, node)


def load(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))
