"""What runs in the worker: the other tool's side of a bridge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class SideError(Exception):
    """The user's configuration or data cannot work; the message is for people."""


class Side(Protocol):
    """The other tool, loaded: its tasks, and a way to attempt one."""

    def tasks(self) -> Any:
        """Return the tasks as JSON."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what else is to be known of the tool, as JSON: versions, prompts."""
        ...

    def attempt(self, job: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """Attempt a task in a process of its own and return the result as JSON.

        ``folder`` is empty and thrown away afterwards.
        """
        ...
