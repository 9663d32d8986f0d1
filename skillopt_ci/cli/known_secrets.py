"""Which secrets a run has: the keys of its models, and what its programs are given."""

from collections.abc import Iterable, Iterator, Mapping

from skillopt_ci.model.keys import resolved_key_values, secret_values
from skillopt_ci.redaction import Redactor
from skillopt_ci.settings.base import Section
from skillopt_ci.settings.loading import Loaded
from skillopt_ci.settings.scorer import (
    AllScorer,
    AnyScorer,
    CommandScorer,
    WeightedScorer,
)
from skillopt_ci.tasks.task import Task


def learn_secrets(
    redact: Redactor, loaded: Loaded, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> None:
    """Let ``redact`` hide the secrets of a configuration and of its tasks' scorers."""
    redact.learn(resolved_key_values(loaded.config.model, environ, loaded.root))
    for spec in filter(None, (loaded.config.scorer, *(task.scorer for task in tasks))):
        redact.learn(secret_values(_variables(spec), environ))


def _variables(spec: Section) -> Iterator[str]:
    match spec:
        case CommandScorer():
            yield from spec.env
        case AllScorer() | AnyScorer() | WeightedScorer():
            for part in spec.of:
                yield from _variables(part)
        case _:
            return
