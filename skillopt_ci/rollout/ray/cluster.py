"""The Ray cluster: found, joined or started."""

import atexit
import logging
import os
from importlib.util import find_spec

from skillopt_ci.config.rollout import RayExecutor
from skillopt_ci.errors import InfrastructureError, UsageError


def require_ray() -> None:
    """Refuse to go on without the package; it is not imported, which takes seconds."""
    if find_spec("ray") is None:
        raise UsageError(
            "rollout.executor: ray needs the Python package ray, which is not installed.",
            hint="pip install 'skillopt-ci[ray]'",
        )


def join(settings: RayExecutor) -> None:
    """Connect this process to the cluster; one that is connected already stays where it is.

    What is started or joined here ends with the process. Blocks for seconds. Raises
    :class:`InfrastructureError` where no cluster answers.
    """
    # Imported late: it is large and takes seconds.
    import ray  # noqa: PLC0415

    _keep_off_standard_output()
    if ray.is_initialized():
        return
    # whoever trains a skill here has agreed to nothing that reports to Ray's makers
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # the workers' words are no progress of ours, and what matters of them is handed over
        ray.init(
            address=settings.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
            include_dashboard=False if settings.address == "local" else None,
        )
    except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it does not answer"
        raise InfrastructureError(
            f"rollout.executor: no Ray cluster at {settings.address!r}: {reason}",
            hint="`address: local` starts one of this machine; "
            "`ray start` makes a machine part of one.",
        ) from error
    atexit.register(ray.shutdown)


def _keep_off_standard_output() -> None:
    """Ray tells of dead workers on our standard output, where results stand, and has no switch."""
    from ray._private import worker  # noqa: PLC0415

    if hasattr(worker, "print_to_stdstream"):
        setattr(worker, "print_to_stdstream", _unheard)  # noqa: B010 - untyped, and not ours


def _unheard(*_: object, **__: object) -> None:
    return
