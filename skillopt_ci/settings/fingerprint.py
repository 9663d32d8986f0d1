"""A name for everything in a configuration that influences training."""

import hashlib
import json

from pydantic.main import IncEx

from skillopt_ci.settings.config import Config

#: What only decides where results are kept, how fast they come, what they may cost and who pays.
_OF_A_ROLE: IncEx = {"api_key_env", "timeout", "retries", "max_concurrency", "price"}
_WITHOUT_INFLUENCE: dict[str, IncEx | bool] = {
    "cache": True,
    "git": True,
    "budget": True,
    "gradient": {"analyst_workers"},
    "model": dict.fromkeys(("target", "optimizer", "judge"), _OF_A_ROLE),
}


def config_sha256(config: Config) -> str:
    """The SHA-256 (hexadecimal) of the canonical JSON of what influences training.

    It says which settings a step was taken with, not what the files that they name contain.
    """
    facts = config.model_dump(mode="json", by_alias=True, exclude=_WITHOUT_INFLUENCE)
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
