"""How this run makes attempts, as facts that scores and stored attempts depend on."""

from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.agents.build import build_solver
from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import ChatSettings
from skillopt_ci.model.types import ChatReply, ChatRequest
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.computers import Places
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.training.fingerprint import rollout_facts


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
    places: Places | None,
) -> Mapping[str, object]:
    """The facts of the solver, environment and computers; ``root`` is the configuration's folder.

    Raises what building the solver raises.
    """
    solver = None
    if not isinstance(config.rollout.solver, ChatSettings):
        built = build_solver(config, Unasked(), prompts, root, environ)
        solver = {"name": built.name, **built.identity()}
    return rollout_facts(
        config.rollout,
        solver=solver,
        environment=None if environment is None else environment.identity(),
        common=None if places is None else places.common,
    )
