"""Where agents work on tasks: the kind of computer, and what it is limited to."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, field_validator

from skillopt_ci.settings.base import Section

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]

#: Folders of a computer that nothing of this machine may be put into, or take the place of.
_TAKEN = ("/dev", "/etc", "/home/agent", "/proc", "/sys", "/tmp", "/workspace")  # noqa: S108
_TAKEN_AS_A_WHOLE = (*_TAKEN, "/usr", "/bin", "/lib")


class ComputerSettings(Section):
    """The computers that agents work on: what confines them, and their limits."""

    type: Literal["sandbox", "docker", "unconfined"] = "sandbox"
    """`sandbox`: confined by Linux itself, with bubblewrap; `docker`: containers of a Docker
    engine; `unconfined`: a folder and nothing around it, for what you trust as yourself."""
    network: Literal["none", "open"] = "none"
    """`none`: nothing can be reached; `open`: all that this machine can reach."""
    image: str = ""
    """Image of the containers, for tasks that name none. `docker` only."""
    memory_mb: int = Field(default=1024, ge=32)
    """Memory of one computer, in MiB; its files come on top."""
    cpus: float = Field(default=1.0, ge=0.1)
    """Processors of one computer."""
    processes: int = Field(default=256, ge=16)
    """Most processes and threads at a time."""
    disk_mb: int = Field(default=1024, ge=4)
    """Space for files, in MiB. They are kept in memory."""
    environ: dict[VariableName, str] = Field(default_factory=dict)
    """Variables that commands see. Nothing of the surrounding environment is passed on."""
    readable: tuple[Path, ...] = ()
    """Files and folders of this machine that are there as well, read-only, at the same path."""

    @field_validator("environ")
    @classmethod
    def _values_can_be_set(cls, environ: dict[str, str]) -> dict[str, str]:
        if any("\0" in value for value in environ.values()):
            raise ValueError("a variable cannot hold a zero byte")
        return environ

    @field_validator("readable")
    @classmethod
    def _leaves_the_computer_whole(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        for path in paths:
            if not path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{path} must be an absolute path without ..")
            hides = any(PurePosixPath(taken).is_relative_to(path) for taken in _TAKEN_AS_A_WHOLE)
            if hides or any(path.is_relative_to(taken) for taken in _TAKEN):
                raise ValueError(f"{path} would take the place of the computer's own files")
        return paths
