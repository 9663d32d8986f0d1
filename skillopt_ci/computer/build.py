"""The computers that a configuration asks for."""

from collections.abc import Mapping

from skillopt_ci.computer.computer import Computers, ComputerSpec, Network
from skillopt_ci.computer.docker import Containers
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.computer.sandbox import Sandboxes
from skillopt_ci.config.rollout import ComputerConfig

_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


def computers(settings: ComputerConfig, environ: Mapping[str, str]) -> Computers:
    """Return the kind of computer that is configured.

    ``environ`` says where programs are (PATH) and where Docker's engine is (DOCKER_HOST).
    """
    search_path = environ.get("PATH") or _USUAL_PATH
    if settings.type == "docker":
        return Containers(environ, settings.image)
    if settings.type == "unconfined":
        return Unconfined(search_path)
    return Sandboxes(search_path)


def spec(settings: ComputerConfig) -> ComputerSpec:
    return ComputerSpec(
        Network(settings.network),
        settings.image,
        settings.memory_mb,
        settings.cpus,
        settings.processes,
        settings.disk_mb,
        dict(settings.environ),
        settings.readable,
    )
