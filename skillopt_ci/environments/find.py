"""Find the environment that a configuration names: built in, installed, or the user's own class."""

import inspect
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeGuard

from skillopt_ci.config.config import EnvironmentConfig, EnvironmentSpec
from skillopt_ci.errors import UsageError
from skillopt_ci.redaction import Redactor
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.util import did_you_mean, last_line, user_errors, user_object

#: The group of entry points under which packages offer environments.
GROUP = "skillopt_ci.environments"

#: The environments that come with skillopt-ci, imported only when they are asked for.
BUILT_IN: Mapping[str, str] = {
    "inspect": "skillopt_ci.integrations.inspect:InspectEnvironment",
    "promptfoo": "skillopt_ci.integrations.promptfoo:PromptfooEnvironment",
    "skillopt": "skillopt_ci.integrations.skillopt.adapter:SkillOptEnvironment",
}


class _Late(BaseException):
    """Not an ``Exception``, so that users' code that catches those cannot swallow it."""


@contextmanager
def loading_limit(seconds: float) -> Iterator[None]:
    """Raise UsageError, with the line reached, if the block takes longer; in the main thread."""

    def late(_number: int, frame: Any) -> None:
        raise _Late(f"{frame.f_code.co_filename}:{frame.f_lineno}")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, if the code catches it
    try:
        yield
    except _Late as place:
        raise UsageError(f"environment did not load within {seconds:g} s (at {place})") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def open_environment(spec: EnvironmentSpec, root: Path, environ: Mapping[str, str]) -> Environment:
    """Build the environment of the configuration in ``root``. Raises UsageError."""
    name = spec if isinstance(spec, str) else spec.type
    options = spec.model_extra or {} if isinstance(spec, EnvironmentConfig) else {}
    if name in BUILT_IN:
        factory: Callable[..., Environment] = pkgutil.resolve_name(BUILT_IN[name])
        return factory(options, root, environ)
    offered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in offered:
        with user_errors(f"environment: {name} cannot be imported:"):
            found: object = offered[name].load()
    elif ":" in name:
        found = user_object(name, root, "class", _is_environment, "environment: ")
    else:
        known = sorted([*BUILT_IN, *offered])
        meant = did_you_mean(name.casefold(), known) or f"; known are: {', '.join(known)}"
        raise UsageError(
            f"environment: there is no environment {name!r}{meant}",
            hint="A class of your own is named path/to/file.py:Class or package.module:Class.",
        )
    if not _is_environment(found):
        raise UsageError(
            f"environment: {name} is not a subclass of skillopt_ci.environments.api.Environment"
        )
    with user_errors(f"environment: {name} cannot be built:"):
        return found(options, root)


def close(environment: Environment, redact: Redactor) -> None:
    try:
        environment.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - all work is done by then
        told = f"environment: {type(environment).__name__}.close raised {last_line(error)}"
        sys.stderr.write(f"! warning: {harmless_line(redact(told))}\n")


def _is_environment(value: object) -> TypeGuard[type[Environment]]:
    return inspect.isclass(value) and issubclass(value, Environment) and value is not Environment
