"""The crash report: all that a maintainer needs to find a defect, and none of the secrets."""

import platform
import re
import tempfile
import traceback
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from skillopt_ci import __version__
from skillopt_ci.redaction import Redact, unchanged

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"""\b(?:sk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z])[-_][\w-]{8,}  # keys by their prefix
    | (?<=Bearer\s)[^\s'"]+                                             # HTTP authorisation
    | (?<=://)[^\s/@'"]+(?=@)                                            # user:password@host""",
    re.VERBOSE,
)
_SHORTEST_SECRET = 6
_LIBRARIES = ("click", "GitPython", "httpx2", "openai", "pydantic", "rich")


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of variables that look like secrets, with their names."""
    return {
        value: name
        for name, value in environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    }


def without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` without the values of secret-looking variables and without known keys."""
    secrets = secrets_of(environ)
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, f"<{secrets[value]}>")
    return _SECRET_TEXT.sub("<redacted>", text)


def compose(error: BaseException, words: list[str], environ: Mapping[str, str]) -> str:
    """Write the report on ``error``, which ended the command line ``words``."""
    facts = [
        f"skillopt-ci {__version__}",
        f"Python {platform.python_version()} on {platform.platform()}",
        *(f"{name} {_version(name)}" for name in _LIBRARIES),
        f"command: skillopt-ci {' '.join(words)}",
    ]
    trace = "".join(traceback.format_exception(error))
    return without_secrets("\n".join([*facts, "", trace]), environ)


def write_report(
    error: BaseException,
    words: list[str],
    environ: Mapping[str, str],
    folder: Path | None = None,
    redact: Redact = unchanged,
) -> str:
    """Leave the report in ``folder`` (for temporary files) and return a line that says where.

    On a CI runner, whose files vanish with it, and where no file can be written, the line is
    followed by the report itself.
    """
    report = redact(compose(error, words, environ))
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="backslashreplace",
            prefix="skillopt-ci-crash-",
            suffix=".txt",
            dir=folder,
            delete=False,
        ) as file:
            file.write(report)
    except OSError as failure:
        return f"No report could be written ({failure.strerror}); this is it:\n\n{report}"
    where = f"Please report it with {Path(file.name)}, which holds no secrets that we know of."
    return f"{where}\n\n{report}" if environ.get("CI") else where


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
