"""The files that a run, its workflows or an environment start from."""

import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from string import Template
from urllib.parse import urlsplit
from urllib.request import url2pathname

from skillopt_ci import __version__
from skillopt_ci.config.config import GivenSplits
from skillopt_ci.errors import UsageError
from skillopt_ci.git.process import Git
from skillopt_ci.tasks.loading import SPLIT_NAMES
from skillopt_ci.util import write_atomically

_SKILL_PLACES = (
    *("SKILL.md", "skills/*/SKILL.md", ".claude/skills/*/SKILL.md", ".*/skills/*/SKILL.md"),
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md"),
)


def slug(text: str) -> str:
    """``text`` as a name of lower-case letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "skill"


def existing_skill(root: Path, but: Collection[str] = ()) -> str | None:
    """The first document below ``root`` that looks like a skill, as a relative path."""
    real = {os.path.realpath(root / name) for name in but}
    found = (
        file.relative_to(root).as_posix()
        for place in _SKILL_PLACES
        for file in sorted(root.glob(place))
        # since Python 3.13, glob finds dangling links as well
        if os.access(file, os.F_OK) and os.path.realpath(file) not in real
    )
    return next(found, None)


def _template(name: str) -> str:
    return (resources.files("skillopt_ci.cli") / "templates" / name).read_text(encoding="utf-8")


def write_new(root: Path, files: Mapping[str, str]) -> list[str]:
    """Write those of ``files`` that do not exist yet, each whole or not at all; return which."""
    new = [name for name in files if not os.path.lexists(root / name)]
    for name in new:
        write_atomically(root / name, files[name])
    return new


@dataclass(frozen=True, slots=True)
class Choices:
    run: str
    skill: str
    target: Mapping[str, object]
    optimizer: Mapping[str, object]


def scaffold(choices: Choices, config: str, folder: str) -> dict[str, str]:
    """The text of each file to write, by its path beside ``config``, the configuration's name.

    ``folder`` is the skill's in the repository; empty at the top, where agents take any name.
    """
    values = {"run": _yaml(choices.run), "skill": _yaml(choices.skill)}
    for role, keys in (("target", choices.target), ("optimizer", choices.optimizer)):
        values[role] = "\n".join(f"    {key}: {_yaml(value)}" for key, value in keys.items())
    tasks, skill = task_folder(config, choices.run), PurePosixPath(choices.skill)
    starter = "AGENTS.md" if skill.name != "SKILL.md" else "SKILL.md"
    return {
        config: Template(_template("skillopt.yaml")).substitute(values, tasks=tasks),
        **{f"{tasks}/{split}.jsonl": _template(f"{split}.jsonl") for split in SPLIT_NAMES},
        choices.skill: Template(_template(starter)).safe_substitute(
            name=folder or slug(choices.run)
        ),
    }


def task_folder(config: str, run: str) -> str:
    """Where the tasks go of a configuration of that name: several may stand in one folder."""
    return "tasks" if config == "skillopt.yaml" else f"tasks/{slug(run)}"


def _yaml(value: object) -> str:
    """A value in JSON, which YAML reads as the same value whatever it looks like."""
    return json.dumps(value, ensure_ascii=False)


def unchanged_examples(root: Path, tasks: object) -> list[str]:
    found = []
    for split in SPLIT_NAMES if isinstance(tasks, GivenSplits) else ():
        name = getattr(tasks, split)
        with suppress(OSError, UnicodeDecodeError):
            if name and (root / name).read_text(encoding="utf-8") == _template(f"{split}.jsonl"):
                found.append(name)
    return found


# The workflow file that `init --github` writes: a call of ours, at the commit of this version.

WORKFLOW = ".github/workflows/skillopt.yml"
_HOME = "skillopt-ci/skillopt-ci"


def workflow_file(
    config: PurePosixPath,
    *,
    branch: str = "main",
    keys: Iterable[str] = (),
    runs: Iterable[str] = (),
    pages: bool = False,
) -> dict[str, str]:
    """The text of the workflow file, by its path in the repository.

    ``config`` is relative to the repository's top; ``keys`` are the variables, and secrets, of the
    models' keys; each of several ``runs`` gets a job. UsageError if our own commit is unknown.
    """
    matrix = ", ".join(map(_quoted, runs))
    values = {
        "matrix": matrix and f"    strategy: {{fail-fast: false, matrix: {{run: [{matrix}]}}}}\n",
        "run": matrix and 'run: "${{ matrix.run }}", ',
        "branch": _quoted(branch),
        "config": _quoted(config),
        "tasks": _quoted(config.parent / "tasks" / "**"),
        "keys": json.dumps("\n".join(f"{key}=${{{{ secrets.{key} }}}}" for key in keys)),
        **_own_commit(),
    }
    text = _template("workflow.yml")
    text = text if pages else text.partition("  pages:\n")[0]
    text = text if keys else re.sub(r"    secrets: .*\n", "", text)
    return {WORKFLOW: Template(text).substitute(values)}


def _own_commit() -> dict[str, str]:
    with suppress(FileNotFoundError):  # releases are told theirs, .github/workflows/release.yml
        return {"home": _HOME, "commit": _template("commit").strip(), "version": f"v{__version__}"}
    home, commit, version = _HOME, "", f"{__version__}, unreleased"
    with suppress(metadata.PackageNotFoundError):
        noted = metadata.distribution("skillopt-ci").read_text("direct_url.json")
        origin = json.loads(noted or "{}")
        source = origin.get("vcs_info", {})
        commit, tag = source.get("commit_id", ""), source.get("requested_revision") or ""
        version = tag if re.fullmatch(r"v\d[\d.]*", tag) else version
        place = re.search(r"github\.com[/:]([\w.-]+/[\w.-]+?)(\.git)?/?$", origin.get("url", ""))
        home = place[1] if place else home
        folder = Path(url2pathname(urlsplit(origin.get("url", "")).path))
        if "dir_info" in origin and (folder / ".git").exists():
            commit = Git(folder).attempt("rev-parse", "HEAD").text
    if not commit:
        raise UsageError(
            "this installation does not say of which commit it is, and the workflow names one",
            hint=f"Install a release, or `pipx install git+https://github.com/{_HOME}`.",
        )
    return {"home": home, "commit": commit, "version": version}


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


#: The files of each kind: where they go, and the template that they are made of.
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "class": {
        "environment.py": "class/environment.py.template",
        "tasks.jsonl": "class/tasks.jsonl",
        "skillopt.yaml": "class/skillopt.yaml",
        "test_{module}.py": "class/test_environment.py.template",
    },
    "yaml": {
        **{f"tasks/{split}.yaml": f"yaml/{split}.yaml" for split in SPLIT_NAMES},
        "skillopt.yaml": "yaml/skillopt.yaml",
        "test_{module}.py": "yaml/test_environment.py.template",
    },
}


def scaffold_environment(name: str, kind: str, folder: Path) -> dict[str, str]:
    run, place = slug(name), shlex.quote(folder.as_posix())
    plain = " ".join(re.sub(r"[^\w '&.,-]+", " ", name).split())  # it goes into a docstring
    values = {"name": plain, "run": run, "folder": place}
    # a name of its own: pytest cannot tell two test files of one name apart
    module = run.replace("-", "_")
    files = {
        file.format(module=module): Template(_template(f"new_env/{source}")).safe_substitute(values)
        for file, source in ENVIRONMENTS[kind].items()
    }
    skill = Template(_template("SKILL.md")).safe_substitute(name=run)
    return {**files, f"skills/{run}/SKILL.md": skill}
