"""Let the process's redactor know of a run's secrets."""

from collections.abc import Iterable, Mapping

from skillopt_ci.config.loading import Loaded
from skillopt_ci.redaction import Redactor
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.fingerprint import run_secrets


def learn_secrets(
    redact: Redactor, loaded: Loaded, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> None:
    """Let ``redact`` hide the secrets of a configuration and of its tasks' scorers."""
    redact.learn(run_secrets(loaded.config, loaded.root, environ, tasks))
