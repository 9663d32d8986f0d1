"""A name for everything in a configuration that influences training."""

import hashlib
import json
from typing import Any

from pydantic.main import IncEx

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.rollout import RolloutSettings

#: What only decides where results are kept, how fast they come, what they may cost and who pays.
_OF_A_ROLE: IncEx = {
    "api_key_env",
    "api_key_file",
    "env",
    "timeout",
    "retries",
    "max_concurrency",
    "price",
}
#: Where people put keys although `api_key_env` and `env` are there for them.
_PERHAPS_SECRET = ("command", "extra_body")
#: How often what fails is tried again, where attempts run, what is told of them, and who may see
#: what meanwhile.
_OF_ROLLOUTS = {"retries", "executor", "events", "programs_can_read_secrets"}
_WITHOUT_INFLUENCE: dict[str, IncEx | bool] = {
    "cache": True,
    "git": True,
    "github": True,
    "budget": True,
    "gradient": {"analyst_workers"},
    "schedule": {"ahead"},
    "rollout": _OF_ROLLOUTS,
    "model": dict.fromkeys(("target", "optimizer", "judge"), _OF_A_ROLE),
}


def influences(config: Config) -> dict[str, object]:
    """What of ``config`` influences training, as JSON: not where, how fast and at whose cost."""
    return _facts(config)


def config_sha256(config: Config) -> str:
    """The SHA-256 (hexadecimal) of the canonical JSON of what influences training.

    It says which settings a step was taken with, not what the files that they name contain.
    """
    return _sha256(influences(config))


def recordable(config: Config) -> dict[str, object]:
    """:func:`influences`, fit to be published: what may hold a secret is there as its hash only."""
    facts = _facts(config)
    for role in filter(None, facts["model"].values()):
        role.update({key: _sha256(role[key]) for key in _PERHAPS_SECRET if role[key]})
    return facts


def _facts(config: Config) -> dict[str, Any]:
    """What is said of how attempts are made only where that is not by default: older hashes stay.

    The usual attempt is one chat answer at a task of a task file.
    """
    facts = config.model_dump(mode="json", by_alias=True, exclude=_WITHOUT_INFLUENCE)
    usual = RolloutSettings().model_dump(mode="json", exclude=_OF_ROLLOUTS)
    if facts["rollout"] == usual:
        del facts["rollout"]
    if facts["environment"] is None:
        del facts["environment"]
    if facts["train"]["staleness"] == 0:
        del facts["train"]["staleness"]
    return facts


def _sha256(facts: object) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
