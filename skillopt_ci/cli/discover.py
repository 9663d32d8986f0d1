"""``skillopt-ci discover``: the skills of a repository, and the runs that train them."""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import click

from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.table import print_table
from skillopt_ci.config.loading import load, run_names
from skillopt_ci.errors import ExitCode, RepositoryError, SkilloptError
from skillopt_ci.git.process import Git
from skillopt_ci.sanitize import harmless
from skillopt_ci.skill.document import Place, documents, word_count

# What of a repository agents read, and which runs train it.

#: How configurations are called; `configs/base.yaml` and the like are bases, no runs.
_CONFIGS = ("skillopt.yaml", "skillopt.yml")
_CONFIG_ENDS = (".skillopt.yaml", ".skillopt.yml")


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of a configuration; paths are relative to the top of the repository."""

    name: str
    config: str
    skill: str


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A document that agents read. ``words`` is None if it cannot be read as text."""

    path: str
    place: Place | None
    words: int | None
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """All documents and runs of a repository, and what is wrong with how they fit together."""

    skills: tuple[FoundSkill, ...]
    runs: tuple[FoundRun, ...]
    problems: tuple[str, ...]


def survey(start: Path) -> Survey:
    """Look through the files of the repository around ``start``, those that git ignores aside.

    A configuration that cannot be used is one of the problems. Raises
    :class:`~skillopt_ci.errors.RepositoryError` outside of a repository.
    """
    top, files = _files(start)
    runs, problems = list[FoundRun](), list[str]()
    for config in filter(_is_config, files):
        try:
            runs += _runs(top, config)
        except SkilloptError as error:
            problems.append(str(error))
    known = dict(documents(files))
    trained = [run.skill for run in runs if run.skill not in known]
    paths = [*known, *dict.fromkeys(trained)]
    skills = tuple(_skill(top, path, known.get(path), runs) for path in paths)
    return Survey(skills, tuple(runs), (*problems, *_collisions(runs)))


def _files(start: Path) -> tuple[Path, list[str]]:
    found = Git(start).attempt("rev-parse", "--show-toplevel")
    if found.status != 0:
        raise RepositoryError(
            f"{start}: not inside a git repository", hint="Start in a clone, or `git init` one."
        )
    top = Path(found.text)
    listed = Git(top).text("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return top, sorted(name for name in listed.split("\0") if name and (top / name).is_file())


def _is_config(path: str) -> bool:
    name = PurePosixPath(path).name
    return name in _CONFIGS or name.endswith(_CONFIG_ENDS)


def _runs(top: Path, config: str) -> list[FoundRun]:
    file = top / config
    found = []
    for name in run_names(file):
        loaded = load(file, run=name)
        skill = (loaded.root / loaded.config.skill).resolve()
        inside = skill.is_relative_to(top.resolve())
        path = skill.relative_to(top.resolve()).as_posix() if inside else str(skill)
        found.append(FoundRun(name, config, path))
    return found


def _skill(top: Path, path: str, place: Place | None, runs: list[FoundRun]) -> FoundSkill:
    try:
        words = word_count((top / path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        words = None
    return FoundSkill(path, place, words, tuple(run.name for run in runs if run.skill == path))


def _collisions(runs: list[FoundRun]) -> list[str]:
    """Two runs of one name share a branch, and two of one skill undo each other's work."""
    names = Counter(run.name for run in runs)
    skills = Counter(run.skill for run in runs)
    same_name = [
        f"several runs are called {name!r}: "
        + ", ".join(run.config for run in runs if run.name == name)
        for name, count in names.items()
        if count > 1
    ]
    same_skill = [
        f"several runs train {skill}: "
        + ", ".join(dict.fromkeys(run.name for run in runs if run.skill == skill))
        for skill, count in skills.items()
        if count > 1 and len({run.name for run in runs if run.skill == skill}) > 1
    ]
    return same_name + same_skill


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Find what agents read in this repository, and which runs train it.

    With --json, `matrix` is what a workflow's `strategy.matrix` takes by `fromJSON`: a job for
    each run, with its `run` and `config`. Ends with 2 if runs are in each other's way or a
    configuration cannot be used, and with 3 if there is neither a skill nor a run.
    """
    found = survey(settings.cwd)
    if settings.json:
        click.echo(json.dumps(_as_json(found)))
    elif found.skills:
        rows = [_row(skill) for skill in found.skills]
        print_table(
            ("words", "read by", "trained by", "document"), rows, sys.stdout, settings.environ
        )
    for problem in found.problems:
        click.echo(f"error: {harmless(problem)}", err=True)
    if found.problems:
        return ExitCode.USAGE
    return _advised(found, settings)


def _advised(found: Survey, settings: Globals) -> ExitCode:
    if not found.skills:
        click.echo("Nothing here that agents read: `skillopt-ci init` writes a skill.", err=True)
        return ExitCode.NOTHING_TO_DO
    untrained = [skill.path for skill in found.skills if not skill.runs]
    if untrained and not settings.json and settings.verbosity >= 0:
        click.echo(f"\nTo train one: skillopt-ci init --skill {harmless(untrained[0])}")
    return ExitCode.DONE


def _row(skill: FoundSkill) -> tuple[str, str, str, str]:
    return (
        "?" if skill.words is None else str(skill.words),
        skill.place.reader if skill.place else "",
        ", ".join(skill.runs) or "-",
        skill.path,
    )


def _as_json(found: Survey) -> dict[str, object]:
    return {
        "documents": [
            {
                "path": skill.path,
                "read_by": skill.place.reader if skill.place else None,
                "words": skill.words,
                "runs": skill.runs,
            }
            for skill in found.skills
        ],
        "runs": [{"run": run.name, "config": run.config, "skill": run.skill} for run in found.runs],
        "problems": found.problems,
        "matrix": {"include": [{"run": run.name, "config": run.config} for run in found.runs]},
    }
