"""API keys: which environment variable holds a role's key, and how its value stays unseen."""

import difflib
import re
from collections.abc import Iterable, Mapping

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.call_key import OPENAI_BASE_URL, base_url_of
from skillopt_ci.settings.model import ModelRole, Models

OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
NO_KEY = "none"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def key_variable(config: ModelRole) -> str | None:
    """Name of the variable that holds the role's key, None for a server that asks for none.

    OpenAI's own key is never sent to another server unless the configuration says so.
    """
    if config.provider != "openai" or config.api_key_env:
        return config.api_key_env
    return OPENAI_KEY_VARIABLE if base_url_of(config) == OPENAI_BASE_URL else None


def api_key(section: str, config: ModelRole, environ: Mapping[str, str]) -> str:
    """The role's key; ``section`` (``model.target``) is for the message.

    Raises :class:`ModelSetupError` if the variable is absent or empty.
    """
    variable = key_variable(config)
    if variable is None:
        return NO_KEY
    value = environ.get(variable, "").strip()
    if value:
        return value
    state = "empty" if variable in environ else "not set"
    raise ModelSetupError(
        f"{section} needs an API key in the environment variable {variable}, which is {state}",
        hint=_missing_key_hint(variable, environ),
    )


def resolved_key_values(models: Models, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of all keys that the roles use and ``environ`` holds, for redaction."""
    roles = [role for role in (models.target, models.optimizer, models.judge) if role]
    own = (environ.get(key_variable(role) or "", "").strip() for role in roles)
    passed_on = (value for role in roles for value in secrets_of(role, environ))
    return tuple(dict.fromkeys(value for value in (*own, *passed_on) if value))


def secrets_of(config: ModelRole, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that a command may see and whose names say that they are keys."""
    values = (environ.get(name, "").strip() for name in config.env if _SECRET_NAME.search(name))
    return tuple(value for value in values if value)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of a secret replaced by ``***``."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def _missing_key_hint(variable: str, environ: Mapping[str, str]) -> str:
    present = [name for name in environ if name != variable and environ[name]]
    similar = difflib.get_close_matches(variable, present, n=1, cutoff=0.8)
    if similar:
        return f"{similar[0]} is set: did you mean `api_key_env: {similar[0]}`?"
    return (
        f"Export {variable}; in GitHub Actions add a secret of that name and pass it with `env:` "
        "(a secret that does not exist reads as empty, as all do for pull requests from forks)."
    )
