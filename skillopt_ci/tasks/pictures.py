"""The pictures of a task: read from beside the task file, known by their content."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

from skillopt_ci.errors import TaskFileError
from skillopt_ci.messages import Image
from skillopt_ci.tasks.attachments import checked, inside
from skillopt_ci.tasks.task import TaskImage

#: Names of files that are pictures.
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif"})
#: In base64 this is just below the 5 MB that the strictest provider takes.
MOST_BYTES = 3_700_000
MOST_PICTURES = 20


def is_picture(name: str) -> bool:
    """Whether a file's name is that of a picture."""
    return Path(name).suffix.lower() in SUFFIXES


def task_images(names: Iterable[str], folder: Path) -> tuple[TaskImage, ...]:
    """The pictures named by a task whose own file lies in ``folder``, in the given order.

    Raises :class:`ValueError` for a name that leaves ``folder`` or stands twice and for too many,
    and :class:`TaskFileError` for a file that is missing, too large or no picture.
    """
    paths = [checked(name) for name in names]
    if len(paths) > MOST_PICTURES:
        raise ValueError(
            f"{len(paths)} pictures are more than the {MOST_PICTURES} that are allowed"
        )
    for name in paths:
        if paths.count(name) > 1:
            raise ValueError(f"{name!r} stands twice")
    return tuple(_read(name, inside(name, folder)) for name in paths)


def media_type(content: bytes) -> str | None:
    """What kind of picture ``content`` is, by how it begins; None if it is none."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _read(name: str, file: Path) -> TaskImage:
    try:
        # Looked at before it is read: a task file may name anything.
        size = file.stat().st_size
        content = file.read_bytes() if size <= MOST_BYTES else b""
    except OSError as error:
        raise TaskFileError(f"cannot be read: {error.strerror}", file=file) from error
    if size > MOST_BYTES:
        raise TaskFileError(f"{size:,} bytes are more than {MOST_BYTES:,}", file=file)
    kind = media_type(content)
    if kind is None:
        raise TaskFileError("is no PNG, JPEG, WebP or GIF picture", file=file)
    image = Image(kind, b64encode(content).decode("ascii"))
    return TaskImage(name, hashlib.sha256(content).hexdigest(), image)
