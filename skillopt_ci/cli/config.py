"""``skillopt-ci config`` and ``discover``: a configuration as understood, all of a repository."""

import json
import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.console import print_table
from skillopt_ci.cli.options import Globals, command, nothing_to_do, print_json
from skillopt_ci.config.loading import load, run_names
from skillopt_ci.config.reference import json_schema
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import worktree
from skillopt_ci.sanitize import harmless
from skillopt_ci.skill.document import reader_of, word_count
from skillopt_ci.util import grouped, read_text


@command(cls=click.Group, invoke_without_command=True)
@click.pass_context
def config_command(ctx: click.Context, settings: Globals) -> None:
    """Print the effective configuration: inheritance, overrides and defaults applied."""
    if ctx.invoked_subcommand is not None:
        return
    loaded = load_configured(settings)
    for warning in loaded.warnings:
        settings.say(f"warning: {warning}", err=True)
    values = loaded.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    settings.tell(values, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip("\n"))


@command("schema")
def schema_command(_settings: Globals) -> None:
    """Print the JSON Schema, for completion and checks in your editor."""
    click.echo(json.dumps(json_schema(), indent=2))


config_command.add_command(schema_command)


# The skills of a repository, and the runs that train them.

#: Names of configurations: not of bases (`configs/base.yaml`), nor of workflows called alike.
_CONFIG = re.compile(r"(?!\.github/workflows/)(.*[/.])?skillopt\.ya?ml")


class FoundRun(NamedTuple):
    """A run of a configuration; paths are relative to the top of the repository."""

    run: str
    config: str
    skill: str


class FoundDocument(NamedTuple):
    """A document that agents read. ``words`` is None if it cannot be read as text."""

    path: str
    read_by: str | None
    words: int | None
    runs: tuple[str, ...]


def survey(start: Path) -> tuple[list[FoundDocument], list[FoundRun], list[str]]:
    """Documents and runs that git does not ignore, and their conflicts. Raises RepositoryError."""
    top, runs, wrong = worktree(start), list[FoundRun](), list[str]()
    listed = Git(top).run("ls-files", "-z", "--cached", "--others", "--exclude-standard").text
    # in a conflict, git lists each side
    files = sorted({name for name in listed.split("\0") if name and (top / name).is_file()})
    for config in filter(_CONFIG.fullmatch, files):
        own: tuple[str | None, ...] = (None,)
        with suppress(SkilloptError):  # _read_run raises it again
            own = run_names(top / config, start)
        for name in own:
            try:
                runs.append(_read_run(top, config, name, start))
            except SkilloptError as error:
                wrong.append(str(error))
    configs = grouped((run.run.casefold(), f"{run.run} ({run.config})") for run in runs)
    names = grouped(dict.fromkeys((run.skill, run.run) for run in runs))
    # two runs of one name share a branch, and two of one skill undo each other's work
    alike = [", ".join(found) for found in configs.values() if len(found) > 1]
    wrong += [f"several runs have the same name, ignoring case: {found}" for found in alike]
    shared = {skill: ", ".join(found) for skill, found in names.items() if len(found) > 1}
    wrong += [f"several runs train {skill}: {found}" for skill, found in shared.items()]
    there = list[FoundDocument]()
    for path in dict.fromkeys((*filter(reader_of, files), *names)):
        real = os.path.realpath(top / path)  # often CLAUDE.md is a link to AGENTS.md
        trained = tuple(one.run for one in runs if os.path.realpath(top / one.skill) == real)
        words = None
        with suppress(OSError):
            words = word_count(read_text(top / path))
        there.append(FoundDocument(path, reader_of(path), words, trained))
    # an error in a base, or above `runs:`, is found once for every run that it affects
    return there, runs, [*dict.fromkeys(wrong)]


def _read_run(top: Path, config: str, name: str | None, cwd: Path) -> FoundRun:
    loaded = load(top / config, run=name, cwd=cwd)
    skill = Path(os.path.realpath(loaded.root / loaded.config.skill))
    path = skill.relative_to(top) if skill.is_relative_to(top) else skill
    return FoundRun(loaded.config.run, config, path.as_posix())


@command()
def discover_command(settings: Globals) -> ExitCode:
    """List the documents that agents read in this repository, and the runs that train them.

    With --json, `matrix` is for a workflow's `strategy.matrix` (with `fromJSON`): a job per run
    that conflicts with no other, with its `run` and `config`. Exits with 2 if two runs conflict or
    a configuration is invalid, with 3 if there is neither a skill nor a run.
    """
    found, runs, wrong = survey(settings.cwd)
    named, trained = Counter(one.run.casefold() for one in runs), Counter(one.skill for one in runs)
    apart = [one for one in runs if named[one.run.casefold()] == trained[one.skill] == 1]
    if settings.json:
        print_json(
            {
                "documents": [one._asdict() for one in found],
                "runs": [run._asdict() for run in runs],
                "problems": wrong,
                "matrix": {"include": [{"run": run.run, "config": run.config} for run in apart]},
            }
        )
    elif found:
        rows = [
            ("?" if words is None else str(words), read_by or "", ", ".join(names) or "-", path)
            for path, read_by, words, names in found
        ]
        print_table(
            settings, ("words", "read by", "trained by", "document"), rows, "", ("words", "read by")
        )
    for problem in wrong:
        settings.say(f"error: {harmless(problem)}", err=True)
    if wrong:
        return ExitCode.USAGE
    if not found:
        nothing_to_do("Nothing here that agents read: `skillopt-ci init` writes a skill.")
    path = next((harmless(one.path) for one in found if not one.runs), "")
    if path and not settings.json and settings.verbosity >= 0:
        click.echo(f"\nNo [NAME.]skillopt.yaml trains {path}: skillopt-ci init --skill {path}")
    return ExitCode.DONE
