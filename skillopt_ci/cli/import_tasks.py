"""``skillopt-ci import``: make task files of evaluations that were written for other tools."""

import json
import os
from pathlib import Path

import click

from skillopt_ci.cli.options import FILE, Globals, command
from skillopt_ci.errors import UsageError
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.tasks.files import SHOWN
from skillopt_ci.tasks.foreign import read_foreign
from skillopt_ci.tasks.loading import divide
from skillopt_ci.text import plural
from skillopt_ci.util import write_atomically


@command()
@click.argument("file", type=FILE)
@click.option("--to", type=FILE, default="tasks", help="Folder for the task files.")
@click.option("--prompt", metavar="COLUMN", help="Column with the question.")
@click.option("--reference", metavar="COLUMN", help="Column with the right answer.")
@click.option("--force", is_flag=True, help="Overwrite existing task files.")
def import_command(
    settings: Globals, file: Path, to: Path, prompt: str | None, reference: str | None, force: bool
) -> None:
    """Convert FILE to task files, and report what could not be converted.

    FILE is an agent skill's `evals.json`, or rows of CSV, JSON or JSON Lines, such as the samples
    of OpenAI Evals. Half of the tasks are for training, a quarter each for selection and test;
    the division is reproducible. Duplicate tasks are left out.
    """
    found = read_foreign(settings.cwd / file, prompt or "", reference or "")
    lost = [harmless_line(one) for one in found.lost]
    try:
        parts = divide(found.entries, ratio="2:1:1", seed=42)
    except ValueError as error:
        raise UsageError("\n- ".join([f"{file}: {error}; it takes 3.", *lost[:SHOWN]])) from error
    files = {f"{to}/{name}.jsonl": part for name, part in parts.items()}
    if not force and (taken := [name for name in files if (settings.cwd / name).exists()]):
        raise UsageError(f"{taken[0]} exists.", hint="Choose another folder (--to), or --force.")
    for name, entries in files.items():
        lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        write_atomically(settings.cwd / name, "".join(lines))
    root = settings.config_file.parent
    tasks = {name: os.path.relpath(settings.cwd / to / f"{name}.jsonl", root) for name in parts}
    keys = {"tasks": tasks, **({"scorer": found.scorer} if found.scorer else {})}
    told = [f"{name}: {plural(len(part), 'task')}" for name, part in files.items()]
    if lost:
        more = [f"… and {len(lost) - SHOWN} more (all with --json)"] if lost[SHOWN:] else []
        told += ["", "\n- ".join(["Not carried over:", *lost[:SHOWN], *more])]
    if unseen := [harmless_line(key) for key in found.unseen if key != "choices"]:
        told += ["", f"Kept as metadata, which only your programs see: {', '.join(unseen)}"]
    told += ["", "For skillopt.yaml:"]
    told += [f"{key}: {json.dumps(one, ensure_ascii=False)}" for key, one in keys.items()]
    counts = {name: len(part) for name, part in files.items()}
    settings.tell({"files": counts, "lost": found.lost, "kept": unseen, **keys}, "\n".join(told))
