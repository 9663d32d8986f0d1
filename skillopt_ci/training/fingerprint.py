"""What a score depends on besides the skill: scores under different fingerprints do not compare."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from skillopt_ci.agents.build import build_solver
from skillopt_ci.agents.cli_agents import visible_names
from skillopt_ci.config.base import Section
from skillopt_ci.config.config import Config
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.rollout import ChatConfig, ExternalConfig, RolloutConfig
from skillopt_ci.config.scorers import (
    AllScorer,
    AnyScorer,
    CommandScorer,
    ComputerScorer,
    WeightedScorer,
)
from skillopt_ci.confinement import confine, withhold
from skillopt_ci.model.access import resolved_key_values, secret_values
from skillopt_ci.model.types import ChatReply, ChatRequest
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.graders import grader_files, parts_of
from skillopt_ci.tasks.task import ComputerTask, Task, task_sha256

#: Settings of a model role that say how it is reached, not what it answers.
_TRANSPORT = {
    "api_key_env",
    "api_key_file",
    "env",
    "timeout",
    "retries",
    "max_concurrency",
    "price",
    "token_limit_field",
    "structured_output",
}
#: Settings that roles once did not have: scores of that time still compare with those without them.
_LATER = ("region", "azure", "api", "thinking")


def measurement_fingerprint(
    config: Config,
    selection: Sequence[Task],
    prompts: Prompts,
    rollout: Mapping[str, object] = MappingProxyType({}),
    graders: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """SHA-256 over the target (and judge) model, its prompt, the scorers, the tasks, the metric.

    ``rollout`` is what :func:`rollout_facts` returns, ``graders`` what :func:`grader_folders` does.
    """
    evaluation = config.evaluation
    facts = {
        "target": model_facts(config.model.target),
        "judge": model_facts(config.model.judge or config.model.optimizer)
        if _uses_judge(config, selection)
        else None,
        "prompt": prompts.text("target"),
        "scorer": None if config.scorer is None else config.scorer.model_dump(mode="json"),
        "tasks": [task_sha256(task) for task in selection],
        "metric": [evaluation.gate_metric, evaluation.gate_mixed_weight],
        "density": [evaluation.semantic_density_weight, sorted(evaluation.leading_words)]
        if evaluation.use_semantic_density
        else None,
        **({"graders": dict(graders)} if graders else {}),
        **rollout,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def grader_folders(config: Config, tasks: Iterable[Task], root: Path) -> Mapping[str, str]:
    """SHA-256 over the files of each folder that the scorers of ``tasks`` grade with.

    What Python compiles beside them on its way is no part of it. Raises
    :class:`~skillopt_ci.scorers.base.GraderError` if one cannot be read.
    """
    specs = (config.scorer, *(task.scorer for task in tasks))
    each = (part for spec in specs if spec is not None for part in parts_of(spec))
    parts = [part for part in each if isinstance(part, ComputerScorer)]
    folders = {part.folder: part.model_copy(update={"files": {}}) for part in parts if part.folder}
    return {folder: _sha256_of(grader_files(part, root)) for folder, part in folders.items()}


def _sha256_of(files: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, content in files:
        if "__pycache__" not in name.split("/"):
            found.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return found.hexdigest()


def rollout_facts(
    settings: RolloutConfig,
    *,
    solver: Mapping[str, object] | None,
    environment: Mapping[str, object] | None,
    common: ComputerTask | None,
) -> Mapping[str, object]:
    """How attempts are made, where that is not by default: older fingerprints stay what they are.

    ``solver`` are the facts of one that does not chat (limits are of an agent's work; a chat answer
    has none), ``environment`` those of an environment, ``common`` is what all tasks' computers get.
    """
    facts: dict[str, object] = {}
    if settings.attempts > 1:
        facts["attempts"] = settings.attempts
    if settings.computer is not None:
        facts["computer"] = settings.computer.model_dump(mode="json")
    if common is not None:
        files = [[file.name, file.content] for file in common.files]
        facts["task"] = [common.block.model_dump(mode="json", exclude={"files"}), files]
    if solver is not None:
        limits = settings.limits.model_dump(mode="json")
        facts["solver"] = {**solver, "nudges": settings.nudges, "limits": limits}
    if environment is not None:
        facts["environment"] = dict(environment)
    return facts


def model_facts(role: ModelRole) -> dict[str, object]:
    """What of a model role determines its answers."""
    facts = role.model_dump(mode="json", exclude=_TRANSPORT)
    # Who vouches for us at Azure changes no answer, the version of its interface may.
    facts["azure"] = role.azure and role.azure.api_version
    return {key: fact for key, fact in facts.items() if fact is not None or key not in _LATER}


def _uses_judge(config: Config, selection: Sequence[Task]) -> bool:
    specs = [config.scorer, *(task.scorer for task in selection)]
    return any("rubric" in spec.model_dump_json() for spec in specs if spec is not None)


# How this run makes attempts, as facts that scores and stored attempts depend on.


class Unasked:
    """Stands for a client where nobody is asked."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raise: there is no model here."""
        raise AssertionError(f"no model is here to answer {request.stage}")


def working_facts(
    config: Config,
    root: Path,
    environ: Mapping[str, str],
    *,
    prompts: Prompts,
    environment: Environment | None,
    places: ComputerPool | None,
) -> Mapping[str, object]:
    """The facts of the solver, environment and computers; ``root`` is the configuration's folder.

    Raises what building the solver raises.
    """
    solver = None
    if not isinstance(config.rollout.solver, ChatConfig):
        built = build_solver(config, Unasked(), prompts, root, environ)
        solver = {"name": built.name, **built.identity()}
    return rollout_facts(
        config.rollout,
        solver=solver,
        environment=None if environment is None else environment.identity(),
        common=None if places is None else places.common,
    )


# Which secrets a run has: the keys of its models, and what its programs are given.


def run_secrets(
    config: Config, root: Path, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> Iterator[str]:
    """The values of the configuration's secrets, and of those that its tasks' scorers are given."""
    yield from resolved_key_values(config.model, environ, root)
    solver = config.rollout.solver
    if isinstance(solver, ExternalConfig):
        yield from secret_values(visible_names(solver), environ)
    for spec in filter(None, (config.scorer, *(task.scorer for task in tasks))):
        yield from secret_values(_variables(spec), environ)


def keep_secrets(config: Config, root: Path, environ: Mapping[str, str]) -> None:
    """See to it that programs which this configuration starts reach no secret of ours."""
    models = config.model
    roles = [one for one in (models.target, models.optimizer, models.judge) if one]
    withhold(filter(None, (role.key_variable for role in roles)))
    home = Path(environ.get("HOME") or "/nonexistent")
    names = [role.api_key_file for role in roles if role.api_key_file]
    hidden = [home / name[2:] if name.startswith("~/") else root / name for name in names]
    if config.cache.path is not None:
        hidden.append(root / config.cache.path)
    confine(root, environ, hidden=hidden, wanted=not config.rollout.programs_can_read_secrets)


def _variables(spec: Section) -> Iterator[str]:
    match spec:
        case CommandScorer():
            yield from spec.env
        case AllScorer() | AnyScorer() | WeightedScorer():
            for part in spec.of:
                yield from _variables(part)
        case _:
            return
