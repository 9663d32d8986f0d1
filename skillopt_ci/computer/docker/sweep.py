"""Removal of containers whose process was killed before it could do so."""

from docker.errors import DockerException

from skillopt_ci.computer import owner
from skillopt_ci.computer.docker.container import LABEL
from skillopt_ci.computer.docker.engine import Engine, attempt


def sweep(engine: Engine) -> None:
    """Remove what belongs to processes that have certainly ended: those of this boot, here.

    Containers of live runs, and of other machines on the same engine, are left alone.
    """
    found = attempt(engine.api.containers, all=True, filters={"label": LABEL})
    for one in found:
        whose = owner.parse(one["Labels"].get(LABEL, ""))
        if whose is not None and owner.is_gone(whose):
            try:
                engine.api.remove_container(one["Id"], force=True, v=True)
            except DockerException:
                continue  # another run was quicker
