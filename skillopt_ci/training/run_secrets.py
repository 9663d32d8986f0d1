"""Which secrets a run has: the keys of its models, and what its programs are given."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from skillopt_ci.agents.cli_agents import AGENTS, visible_names
from skillopt_ci.config.base import Section
from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import ExternalSettings
from skillopt_ci.config.scorers import AllScorer, AnyScorer, CommandScorer, WeightedScorer
from skillopt_ci.model.keys import resolved_key_values, secret_values
from skillopt_ci.tasks.task import Task


def run_secrets(
    config: Config, root: Path, environ: Mapping[str, str], tasks: Iterable[Task] = ()
) -> Iterator[str]:
    """The values of the configuration's secrets, and of those that its tasks' scorers are given."""
    yield from resolved_key_values(config.model, environ, root)
    solver = config.rollout.solver
    if isinstance(solver, ExternalSettings):
        yield from secret_values(visible_names(AGENTS[solver.agent], solver), environ)
    for spec in filter(None, (config.scorer, *(task.scorer for task in tasks))):
        yield from secret_values(_variables(spec), environ)


def _variables(spec: Section) -> Iterator[str]:
    match spec:
        case CommandScorer():
            yield from spec.env
        case AllScorer() | AnyScorer() | WeightedScorer():
            for part in spec.of:
                yield from _variables(part)
        case _:
            return
