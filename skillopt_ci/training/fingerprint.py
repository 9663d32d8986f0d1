"""Fingerprints of all that scores depend on besides the skill; only equal ones are comparable."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from skillopt_ci.agents.cli_agents import visible_names
from skillopt_ci.config.config import Config
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.reference import TRANSPORT
from skillopt_ci.config.rollout import ExternalConfig
from skillopt_ci.config.scorers import CommandScorer, ComputerScorer, parts_of
from skillopt_ci.confinement import confine, withhold
from skillopt_ci.model.access import resolved_key_values, secret_values
from skillopt_ci.model.types import ChatReply, ChatRequest
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.graders import grader_files
from skillopt_ci.tasks.task import Task, task_sha256
from skillopt_ci.util import located

#: Settings of a model role that affect how it is called, not what it answers.
_TRANSPORT = {*TRANSPORT, "token_limit_field", "structured_output"}
#: Newer settings, left out while unset so that fingerprints from before them stay valid.
_LATER = ("region", "azure", "api", "thinking")


def measurement_fingerprint(
    config: Config,
    selection: Sequence[Task],
    prompts: Prompts,
    rollout: Mapping[str, object],
    root: Path,
) -> str:
    """SHA-256 of all that a score depends on; ``rollout`` says how attempts are made."""
    evaluation = config.evaluation
    parts = list(parts_of(config.scorer, *(task.scorer for task in selection)))
    folders = {
        part.folder: part.model_copy(update={"files": {}})
        for part in parts
        if isinstance(part, ComputerScorer) and part.folder
    }
    graders = {}
    for folder, part in folders.items():
        found = hashlib.sha256()
        for name, content in grader_files(part, root):
            if "__pycache__" not in name.split("/"):
                found.update(f"{len(name)} {name} {len(content)} ".encode() + content)
        graders[folder] = found.hexdigest()
    own = any(task.computer and task.computer.block.limits for task in selection)
    common = config.rollout.task and config.rollout.task.limits
    facts = {
        "target": model_facts(config.model.target),
        "judge": model_facts(config.model.judge or config.model.optimizer)
        if any("rubric" in part.model_dump_json() for part in parts)
        else None,
        "prompt": prompts.texts["target"],
        "scorer": None if config.scorer is None else config.scorer.model_dump(mode="json"),
        "tasks": [task_sha256(task) for task in selection],
        "metric": [evaluation.gate_metric, evaluation.gate_mixed_weight],
        "density": [evaluation.semantic_density_weight, sorted(evaluation.leading_words)]
        if evaluation.use_semantic_density
        else None,
        **({"graders": graders} if graders else {}),
        **({"limits": "each by name"} if own and common else {}),  # once, own ones hid them all
        **rollout,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def model_facts(role: ModelRole) -> dict[str, object]:
    facts = role.model_dump(mode="json", exclude=_TRANSPORT)
    # Azure credentials change no answer; the API version may.
    facts["azure"] = role.azure and role.azure.api_version
    return {key: fact for key, fact in facts.items() if fact is not None or key not in _LATER}


class Unasked:
    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError(f"no model is here to answer {request.stage}")


def run_secrets(
    config: Config, root: Path, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> Iterator[str]:
    """The values of secrets used by the configuration or passed to the scorers of ``tasks``."""
    yield from resolved_key_values(config.model, environ, root)
    if isinstance(solver := config.rollout.solver, ExternalConfig):
        yield from secret_values(visible_names(solver), environ)
    for part in parts_of(config.scorer, *(task.scorer for task in tasks)):
        if isinstance(part, CommandScorer):
            yield from secret_values(part.env, environ)


def keep_secrets(config: Config, root: Path, environ: Mapping[str, str]) -> None:
    roles = config.model.roles.values()
    withhold(name for role in roles for name in role.secret_variables)
    names = (*(role.api_key_file for role in roles), config.cache.path)
    hidden = [located(name, root, environ) for name in names if name]
    confine(root, environ, hidden=hidden, wanted=not config.rollout.programs_can_read_secrets)
