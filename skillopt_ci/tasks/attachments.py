"""The files of a task: read from beside the task file, or written out in the task itself."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from skillopt_ci.tasks.source import read_source
from skillopt_ci.tasks.task import TaskFile


def task_files(files: Iterable[str] | Mapping[str, str], folder: Path) -> tuple[TaskFile, ...]:
    """The files named by a task whose own file lies in ``folder``, in the given order.

    Names are relative POSIX paths. Raises :class:`ValueError` for a name that leaves ``folder``
    (symbolic links followed), for two names of which one would be the folder of the other, and
    :class:`~skillopt_ci.errors.TaskFileError` for a file that is missing or not UTF-8.
    """
    names = [checked(name) for name in files]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} stands twice")
        if clash := next((n for n in names if n.startswith(f"{name}/")), None):
            raise ValueError(f"{name!r} cannot be a file and the folder of {clash!r}")
    if isinstance(files, Mapping):
        texts = list(files.values())
    else:
        texts = [read_source(inside(name, folder)).text for name in names]
    return tuple(TaskFile(name, text) for name, text in zip(names, texts, strict=True))


def checked(name: str) -> str:
    """``name`` as a relative POSIX path; raises :class:`ValueError` if it cannot be one."""
    path = PurePosixPath(name)
    portable = name.isprintable() and "\\" not in name and path.parts
    if not portable or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is not a relative path that stays in the task file's folder")
    return str(path)


def inside(name: str, folder: Path) -> Path:
    """The file; raises :class:`ValueError` if it lies, links followed, outside of ``folder``."""
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} leads out of the task file's folder")
    return folder / name
