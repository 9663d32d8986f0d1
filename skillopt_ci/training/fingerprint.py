"""What a score depends on besides the skill: scores under different fingerprints do not compare."""

import hashlib
import json
from collections.abc import Sequence

from skillopt_ci.prompts.library import Prompts
from skillopt_ci.settings.config import Config
from skillopt_ci.settings.model import ModelRole
from skillopt_ci.tasks.identity import task_sha256
from skillopt_ci.tasks.task import Task

#: Settings of a model role that say how it is reached, not what it answers.
_TRANSPORT = {
    "api_key_env",
    "env",
    "timeout",
    "retries",
    "max_concurrency",
    "price",
    "token_limit_field",
}


def measurement_fingerprint(config: Config, selection: Sequence[Task], prompts: Prompts) -> str:
    """SHA-256 over the target (and judge) model, its prompt, the scorers, the tasks, the metric."""
    evaluation = config.evaluation
    facts = {
        "target": _model(config.model.target),
        "judge": _model(config.model.judge or config.model.optimizer)
        if _uses_judge(config, selection)
        else None,
        "prompt": prompts.text("target"),
        "scorer": None if config.scorer is None else config.scorer.model_dump(mode="json"),
        "tasks": [task_sha256(task) for task in selection],
        "metric": [evaluation.gate_metric, evaluation.gate_mixed_weight],
        "density": [evaluation.semantic_density_weight, sorted(evaluation.leading_words)]
        if evaluation.use_semantic_density
        else None,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _model(role: ModelRole) -> dict[str, object]:
    return role.model_dump(mode="json", exclude=_TRANSPORT)


def _uses_judge(config: Config, selection: Sequence[Task]) -> bool:
    specs = [config.scorer, *(task.scorer for task in selection)]
    return any("rubric" in spec.model_dump_json() for spec in specs if spec is not None)
