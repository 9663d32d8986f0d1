"""``skillopt-ci validate``, ``doctor`` and ``discover``: find out before anything is paid for."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import click

from skillopt_ci.cli.build import roles_of
from skillopt_ci.cli.console import print_table
from skillopt_ci.cli.findings import Finding, check_run, exit_code, print_findings
from skillopt_ci.cli.options import Globals, command, nothing_to_do, print_json
from skillopt_ci.config.loading import load, run_names
from skillopt_ci.errors import ExitCode, RepositoryError, SkilloptError
from skillopt_ci.git.process import Git
from skillopt_ci.sanitize import harmless
from skillopt_ci.skill.document import Place, documents, word_count


@command()
@click.option("--probe", is_flag=True, help="Also make one small call to each model role.")
def validate_command(settings: Globals, probe: bool) -> ExitCode:
    """Check configuration, tasks, scorers, skill and repository; call no model unless --probe.

    Ends with 2 if you have something to fix, and with 5 if only a server or a remote failed.
    """
    loaded, found = check_run(settings)
    if probe and loaded is not None:
        # Imported late: most checks ask no model.
        from skillopt_ci.cli.probes import ask_roles  # noqa: PLC0415

        models, root = loaded.config.model, loaded.root
        for one in asyncio.run(ask_roles(models, settings.environ, root, settings.redact)):
            found += one.findings
    return _report("valid", found, settings)


@command()
@click.option("--offline", is_flag=True, help="Call no model; check everything else.")
def doctor_command(settings: Globals, offline: bool) -> ExitCode:
    """Check that models, tools and prices are ready, and say what to change.

    Each model role gets one small question in the format that the optimizer must keep to, a few
    hundred tokens. A dry run shows whether git may push. skillopt-ci starts what confines agents,
    and asks their programs for their version. No secret is printed, only where it comes from.
    Ends with 2 if you have something to fix, and with 5 if only a server or a remote failed.
    """
    from skillopt_ci.cli import probes  # noqa: PLC0415 - as above

    loaded, checked = check_run(settings)
    roles = [one for one in checked if one.part.startswith("model.")]
    found = [*probes.check_tools(settings), *(one for one in checked if one not in roles)]
    answers: list[probes.Answer] = []
    if loaded is not None:
        models, root = loaded.config.model, loaded.root
        found += probes.check_programs(loaded, settings.environ)
        if offline:
            found += roles
        else:
            answers = asyncio.run(probes.ask_roles(models, settings.environ, root, settings.redact))
            for one in answers:
                role = roles_of(models)[one.role]
                found += [*probes.describe_role(one.role, role), *one.findings]
    facts = {one.role: one.facts for one in answers}
    return _report("ready", found, settings, roles=facts)


def _report(verdict: str, found: Sequence[Finding], settings: Globals, **more: object) -> ExitCode:
    """Print the findings; ``verdict`` names the key that says whether nothing is wrong."""
    code = exit_code(found)
    if settings.json:
        rows = [{"part": f.part, "level": f.level, "text": f.text} for f in found]
        print_json({verdict: code is ExitCode.DONE, "findings": rows, **more})
    else:
        print_findings(found, settings)
    return code


# The skills of a repository, and the runs that train them.

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
    for config in files:
        name = PurePosixPath(config).name
        if name not in _CONFIGS and not name.endswith(_CONFIG_ENDS):
            continue
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
    configs, names = defaultdict[str, list[str]](list), defaultdict[str, dict[str, None]](dict)
    for run in runs:
        configs[run.name].append(run.config)
        names[run.skill][run.name] = None
    return [
        *(
            f"several runs are called {name!r}: {', '.join(found)}"
            for name, found in configs.items()
            if len(found) > 1
        ),
        *(
            f"several runs train {skill}: {', '.join(found)}"
            for skill, found in names.items()
            if len(found) > 1
        ),
    ]


@command()
def discover_command(settings: Globals) -> ExitCode:
    """List the documents that agents read in this repository, and the runs that train them.

    With --json, `matrix` is what a workflow's `strategy.matrix` takes by `fromJSON`: a job for
    each run, with its `run` and `config`. Ends with 2 if two runs conflict or a configuration is
    invalid, and with 3 if there is neither a skill nor a run.
    """
    found = survey(settings.cwd)
    if settings.json:
        print_json(_as_json(found))
    elif found.skills:
        rows = [
            (
                "?" if skill.words is None else str(skill.words),
                skill.place.reader if skill.place else "",
                ", ".join(skill.runs) or "-",
                skill.path,
            )
            for skill in found.skills
        ]
        print_table(settings, ("words", "read by", "trained by", "document"), rows)
    for problem in found.problems:
        click.echo(f"error: {harmless(problem)}", err=True)
    if found.problems:
        return ExitCode.USAGE
    if not found.skills:
        nothing_to_do("Nothing here that agents read: `skillopt-ci init` writes a skill.")
    untrained = [skill.path for skill in found.skills if not skill.runs]
    if untrained and not settings.json and settings.verbosity >= 0:
        click.echo(f"\nTo train one: skillopt-ci init --skill {harmless(untrained[0])}")
    return ExitCode.DONE


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
