"""Packages that only some environments need."""

from importlib.util import find_spec

from skillopt_ci.errors import UsageError


def require(package: str, extra: str) -> None:
    """Refuse to go on without the importable ``package``; raises UsageError that says how to."""
    if find_spec(package) is None:
        raise UsageError(
            f"environment: {extra} needs the Python package {package}, which is not installed.",
            hint=f"pip install 'skillopt-ci[{extra}]'",
        )
