"""Check the parts of a run, each by itself, so that one look finds as much as possible."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from skillopt_ci.cli.assemble import skill_path
from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.enough import few_tasks
from skillopt_ci.cli.known_secrets import learn_secrets
from skillopt_ci.cli.scaffold import existing_skill, slug, unchanged_examples
from skillopt_ci.cli.workplaces import check_places, read_tasks, unconfined_programs
from skillopt_ci.confinement import current
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger, Position
from skillopt_ci.model.keys import api_key
from skillopt_ci.model.meter import Meter
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.report.figures import plural, score_text
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.opening import open_places
from skillopt_ci.settings.config import Config
from skillopt_ci.settings.loading import Loaded
from skillopt_ci.settings.model import ModelRole
from skillopt_ci.skill.validation import Problem, problems
from skillopt_ci.tasks.scorers.check import check_scorers
from skillopt_ci.tasks.task import Splits
from skillopt_ci.training.plan import total_steps
from skillopt_ci.training.session import first


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``exit_code`` is what an error of its kind ends a command with."""

    part: str
    level: Literal["ok", "warning", "error"]
    text: str
    exit_code: ExitCode = ExitCode.DONE
    blocks: bool = False
    """A warning that validation gets over and a training step does not: a key that is missing."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found; ``loaded`` is None when the configuration itself cannot be used."""

    loaded: Loaded | None
    findings: tuple[Finding, ...]


def failed(part: str, error: SkilloptError) -> Finding:
    """The finding that ``error`` amounts to."""
    return Finding(part, "error", str(error), error.exit_code)


def examine(settings: Globals) -> Examined:
    """Check every part of the run that the configuration describes; no model is called."""
    try:
        loaded = load_configured(settings)
    except SkilloptError as error:
        return Examined(None, (failed("config", error),))
    learn_secrets(settings.redact, loaded, settings.environ)
    found = [
        *_config(loaded, settings),
        *_tasks(loaded, settings.environ),
        *_prompts(loaded),
        *_models(loaded, settings.environ),
        *_skill(loaded),
        *_repository(loaded),
    ]
    return Examined(loaded, tuple(found))


def _config(loaded: Loaded, settings: Globals) -> Iterator[Finding]:
    yield Finding("config", "ok", f"{settings.config}: run {loaded.config.run!r}")
    for warning in loaded.warnings:
        yield Finding("config", "warning", warning)


def _tasks(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        splits, environment = read_tasks(loaded, environ)
    except SkilloptError as error:
        yield failed("tasks", error)
        return
    yield from _sizes(splits, loaded.config)
    examples = unchanged_examples(loaded.root)
    if examples:
        text = f"{', '.join(examples)} still hold the examples of `init`: put your own tasks there"
        yield Finding("tasks", "warning", text)
    if environment is None or not environment.grades:
        yield from _scorers(splits, loaded, environ)
    else:
        yield Finding("scorers", "ok", "the environment grades")
    yield from _computers(splits, loaded, environ)
    yield from _programs(splits, loaded, environment)


def _programs(splits: Splits, loaded: Loaded, environment: Environment | None) -> Iterator[Finding]:
    """What keeps the programs of this run from our secrets, and what is left where nothing does."""
    tasks = (*splits.train, *splits.selection, *splits.test)
    starts, left = unconfined_programs(loaded.config, tasks, environment)
    if left:
        text = (
            f"not kept from secrets: {'; '.join(left)}\nThey can read your files and what other "
            "programs of yours hold, such as the shell that exported a key. Pull requests are not "
            "evaluated here unless `rollout.programs_can_read_secrets` is set."
        )
        yield Finding("programs", "warning", text)
    elif starts:
        kind = {"sandbox": "in a sandbox", "user": "as another user"}[current().kind]
        yield Finding("programs", "ok", f"run {kind}, away from keys, tokens and .git")


def _scorers(splits: Splits, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        check_scorers(splits, loaded.config.scorer, root=loaded.root, environ=environ)
    except SkilloptError as error:
        yield failed("scorers", error)
    else:
        yield Finding("scorers", "ok", "every task has one that can grade it")


def _computers(splits: Splits, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        places = open_places(loaded.config, loaded.root, environ)
        check_places(splits, loaded.config, places)
        if places is not None:
            places.computers.check()
    except SkilloptError as error:
        yield failed("computer", error)
        return
    if places is not None:
        yield Finding("computer", "ok", f"{places.computers.name} works here")
        if places.computers.caveat:
            yield Finding("computer", "warning", places.computers.caveat)


def _sizes(splits: Splits, config: Config) -> Iterator[Finding]:
    counts = [("train", splits.train), ("selection", splits.selection), ("test", splits.test)]
    sizes = ", ".join(f"{len(tasks)} {name}" for name, tasks in counts)
    yield Finding("tasks", "ok", f"{sizes}; no task stands in two splits")
    selection = len(first(splits.selection, config.evaluation.sel_env_num))
    for text in few_tasks(len(splits.train), selection, len(splits.test)):
        yield Finding("tasks", "warning", text)
    try:
        steps = total_steps(len(splits.train), config.train)
    except SkilloptError as error:
        yield failed("plan", error)
    else:
        epochs = plural(config.train.num_epochs, "epoch")
        yield Finding("plan", "ok", f"{plural(steps, 'step')} in {epochs}")


def _prompts(loaded: Loaded) -> Iterator[Finding]:
    folder = loaded.config.prompts
    if folder is None:
        return
    try:
        Prompts.load(loaded.root / folder)
    except SkilloptError as error:
        yield failed("prompts", error)
    else:
        yield Finding("prompts", "ok", folder)


def _models(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    config = loaded.config
    try:
        Meter(step=config.budget.step, run=config.budget.run).require_prices(config.model)
    except SkilloptError as error:
        yield failed("budget", error)
    models = config.model
    roles = (("target", models.target), ("optimizer", models.optimizer), ("judge", models.judge))
    for name, role in roles:
        if role is None:
            continue
        try:
            api_key(f"model.{name}", role, environ, loaded.root)
        except SkilloptError as error:
            # whoever checks a pull request from a fork has no keys, and needs none
            yield Finding(f"model.{name}", "warning", str(error), blocks=True)
        else:
            yield _model(name, role)


def _model(name: str, role: ModelRole) -> Finding:
    if role.provider == "simulated":
        # Imported late: real models need none of it.
        from skillopt_ci.model.simulated.completion import find_model  # noqa: PLC0415

        try:
            find_model(role.model, f"model.{name}.model")
        except SkilloptError as error:
            return failed(f"model.{name}", error)
    return Finding(f"model.{name}", "ok", f"{role.model} ({role.provider})")


def _skill(loaded: Loaded) -> Iterator[Finding]:
    name = loaded.config.skill
    file = loaded.root / name
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        other = existing_skill(loaded.root)
        meant = "" if other is None else f"\nDid you mean {other}?"
        yield Finding("skill", "error", f"{name}: there is no such file{meant}", ExitCode.USAGE)
        return
    except (OSError, UnicodeDecodeError) as error:
        yield Finding("skill", "error", f"{name}: {error}", ExitCode.USAGE)
        return
    found = problems(text, file)
    for problem in found:
        line = "" if problem.line is None else f":{problem.line}"
        code = ExitCode.USAGE if problem.severity == "error" else ExitCode.DONE
        text = f"{name}{line}: {problem.message}{_remedy(problem, file)}"
        yield Finding("skill", problem.severity, text, code)
    if not found:
        yield Finding("skill", "ok", name)


def _remedy(problem: Problem, file: Path) -> str:
    if not problem.message.startswith("SKILL.md must start with YAML frontmatter"):
        return ""
    begin = ("---", f"name: {slug(file.parent.name)}", "description: what for, and when", "---")
    return "\nAgents load it by its first lines. Begin the file with these:\n" + "\n".join(begin)


def _repository(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    try:
        ledger = Ledger.open(loaded.root, config.run, config.git)
        path = skill_path(loaded, ledger.root)
        position = ledger.sync()
    except SkilloptError as error:
        yield failed("git", error)
        return
    try:
        ledger.preflight(position)
    except SkilloptError as error:
        yield failed("git", error)
    else:
        where = f"pushed to {ledger.remote}" if ledger.remote else "kept local (no remote)"
        yield Finding("git", "ok", f"base {ledger.base}; steps are {where}")
    try:
        yield from _committed(loaded, ledger, position, path)
        yield from _progress(config, ledger, position)
    except SkilloptError as error:
        yield failed("git", error)


def _committed(loaded: Loaded, ledger: Ledger, position: Position, path: str) -> Iterator[Finding]:
    there = ledger.read(position.base, path)
    file = loaded.root / loaded.config.skill
    if ledger.read(position.head, path) is None:
        if not file.exists():
            return  # said of the skill itself
        text = f"{path} is not committed on {ledger.base}: git add {path} && git commit"
        yield Finding("git", "error", text, ExitCode.USAGE)
    elif there is not None and file.is_file() and there.encode() != file.read_bytes():
        text = f"{path} here differs from {ledger.base}: training starts from what is committed"
        yield Finding("git", "warning", text)


def _progress(config: Config, ledger: Ledger, position: Position) -> Iterator[Finding]:
    state = RunFolder(config.run).read_state(partial(ledger.read, position.head))
    if state is not None:
        measured = state.current.measurement
        now = f"{plural(state.step, 'step')} done, now at {score_text(measured.score, measured.n)}"
        yield Finding("run", "ok", now)
