"""Removal of containers whose process was killed before it could do so."""

from skillopt_ci.computer import owner
from skillopt_ci.computer.docker.container import LABEL
from skillopt_ci.computer.docker.engine import Engine, attempt

#: What the engine answers where another run was quicker: it is gone, or being removed already.
_QUICKER = {404, 409}


def sweep(engine: Engine) -> None:
    """Remove what belongs to processes that have certainly ended: those of this boot, here.

    Containers of live runs, and of other machines on the same engine, are left alone.
    Raises ComputerFailure.
    """
    found = attempt(engine.api.containers, all=True, filters={"label": LABEL})
    for one in found:
        whose = owner.parse(one["Labels"].get(LABEL, ""))
        if whose is not None and owner.is_gone(whose):
            attempt(_remove, engine, one["Id"])


def _remove(engine: Engine, container: str) -> None:
    from docker.errors import APIError  # noqa: PLC0415  (an extra)

    try:
        engine.api.remove_container(container, force=True, v=True)
    except APIError as error:
        if error.status_code not in _QUICKER:
            raise
