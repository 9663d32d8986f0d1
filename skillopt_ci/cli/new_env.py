"""``skillopt-ci new-env``: write an environment to start from, with a test that passes."""

import json
import keyword
import re
import shlex
from importlib import resources
from pathlib import Path
from string import Template

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.scaffold import slug, write_new
from skillopt_ci.errors import ExitCode
from skillopt_ci.sanitize import harmless_line

#: The files of each kind: where they go, and the template that they are made of.
_FILES = {
    "class": {
        "environment.py": "class/environment.py.template",
        "tasks.jsonl": "class/tasks.jsonl",
        "skillopt.yaml": "class/skillopt.yaml",
        "test_{module}.py": "class/test_environment.py.template",
    },
    "yaml": {
        "tasks/train.yaml": "yaml/train.yaml",
        "tasks/selection.yaml": "yaml/selection.yaml",
        "tasks/test.yaml": "yaml/test.yaml",
        "skillopt.yaml": "yaml/skillopt.yaml",
        "test_{module}.py": "yaml/test_environment.py.template",
    },
}

#: Names that the class would hide.
_TAKEN = frozenset({"Attempt", "Environment", "Parts", "Score", "Split", "Task"})


@click.command()
@click.argument("name")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--kind",
    type=click.Choice(list(_FILES)),
    default="class",
    show_default=True,
    help="A Python class, or tasks in YAML that are worked on with a computer.",
)
@global_options
def command(settings: Globals, /, name: str, folder: Path | None, kind: str) -> ExitCode:
    """Write an environment NAME into FOLDER: tasks, grading, configuration and a test.

    FOLDER is called like the environment by default. Files that exist are left as they are.
    """
    target = folder or Path(slug(name))
    files = scaffold_environment(name, kind, target)
    written = write_new(settings.cwd / target, files)
    left = [file for file in files if file not in written]
    if settings.json:
        click.echo(json.dumps({"written": written, "left": left}))
    else:
        _tell(target, written, left)
    return ExitCode.DONE if written else ExitCode.NOTHING_TO_DO


def scaffold_environment(name: str, kind: str, folder: Path) -> dict[str, str]:
    """Return the text of each file of an environment called ``name``, by its path in ``folder``."""
    run = slug(name)
    values = {
        "name": " ".join(name.split()),
        "Name": class_name(name),
        "run": run,
        "folder": shlex.quote(folder.as_posix()),
    }
    # a name of its own: pytest cannot tell two test files of one name apart
    module = run.replace("-", "_")
    texts = {
        file.format(module=module): _filled(f"new_env/{source}", values)
        for file, source in _FILES[kind].items()
    }
    return {**texts, f"skills/{run}/SKILL.md": _filled("SKILL.md", {"name": run})}


def class_name(text: str) -> str:
    """Return ``text`` as the name of a Python class."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words) or "Environment"
    if name[0].isdigit():
        name = f"Environment{name}"
    return f"My{name}" if name in _TAKEN or keyword.iskeyword(name) else name


def _filled(template: str, values: dict[str, str]) -> str:
    file = resources.files("skillopt_ci.cli") / "templates" / template
    return Template(file.read_text(encoding="utf-8")).safe_substitute(values)


def _tell(target: Path, written: list[str], left: list[str]) -> None:
    for file in written:
        click.echo(f"  wrote     {harmless_line((target / file).as_posix())}")
    for file in left:
        click.echo(f"  left      {harmless_line((target / file).as_posix())}  (was there already)")
    if written:
        place = shlex.quote(target.as_posix())
        click.echo(f"\nNext:\n  1. pytest {place}")
        click.echo(f"  2. git add {place} && git commit")
        click.echo(f"  3. skillopt-ci validate -c {place}/skillopt.yaml")
