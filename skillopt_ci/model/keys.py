"""API keys: which environment variable or file holds a role's key, and how it stays unseen."""

import difflib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.errors import ModelSetupError

NO_KEY = "none"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def required_variable(config: ModelRole) -> str | None:
    """Name of the variable without which no call can succeed, None if there is none."""
    if config.api_key_file or (config.preset.key_optional and not config.api_key_env):
        return None
    return config.key_variable


def api_key(
    section: str, config: ModelRole, environ: Mapping[str, str], root: Path = Path()
) -> str:
    """The role's key; ``section`` (``model.target``) is for the message, ``root`` for its file.

    Raises :class:`ModelSetupError` if variable or file is absent or empty.
    """
    if config.api_key_file is not None:
        return _key_in_file(section, config.api_key_file, environ, root)
    variable = config.key_variable
    if variable is None:
        return NO_KEY
    value = environ.get(variable, "").strip()
    if value:
        return value
    if config.preset.key_optional and not config.api_key_env:
        return NO_KEY
    state = "empty" if variable in environ else "not set"
    raise ModelSetupError(
        f"{section} needs an API key in the environment variable {variable}, which is {state}",
        hint=_missing_key_hint(variable, environ),
    )


def resolved_key_values(
    models: Models, environ: Mapping[str, str], root: Path = Path()
) -> tuple[str, ...]:
    """The values of all keys that the roles use and that are there, for redaction."""
    found: list[str] = []
    for role in filter(None, (models.target, models.optimizer, models.judge)):
        with suppress(ModelSetupError):
            found.append(api_key("", role, environ, root))
        found += secrets_of(role, environ)
    return tuple(value for value in dict.fromkeys(found) if value not in ("", NO_KEY))


def secrets_of(config: ModelRole, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that a command may see and whose names say that they are keys."""
    return secret_values(config.variables, environ)


def secret_values(names: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of those variables among ``names`` whose names say that they are secret."""
    values = (environ.get(name, "").strip() for name in names if _SECRET_NAME.search(name))
    return tuple(value for value in values if value)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of a secret replaced by ``***``."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def _key_in_file(section: str, name: str, environ: Mapping[str, str], root: Path) -> str:
    home = name.startswith("~/") and environ.get("HOME")
    file = Path(environ["HOME"], name[2:]) if home else root / name
    try:
        value = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ModelSetupError(
            f"{section}.api_key_file: {name} cannot be read: {reason}",
            hint="It must hold the key and nothing else; relative paths start at the folder of "
            "the configuration.",
        ) from error
    if not value or not value.isprintable() or " " in value:
        state = "is empty" if not value else "holds more than a key"
        raise ModelSetupError(
            f"{section}.api_key_file: {name} {state}",
            hint="It must hold the key and nothing else.",
        )
    return value


def _missing_key_hint(variable: str, environ: Mapping[str, str]) -> str:
    present = [name for name in environ if name != variable and environ[name]]
    similar = difflib.get_close_matches(variable, present, n=1, cutoff=0.8)
    if similar:
        return f"{similar[0]} is set: did you mean `api_key_env: {similar[0]}`?"
    return (
        f"Export {variable}; in GitHub Actions add a secret of that name and pass it with `env:` "
        "(a secret that does not exist reads as empty, as all do for pull requests from forks)."
    )
