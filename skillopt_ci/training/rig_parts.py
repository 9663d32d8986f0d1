"""What attempts are made from: of a session, or of a worker that makes one attempt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from skillopt_ci.config.config import Config
from skillopt_ci.progress import Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redact
from skillopt_ci.rollout.computers import Places
from skillopt_ci.rollout.environment import Environment


class ModelParts(Protocol):
    """What models are opened with, as in :class:`~skillopt_ci.training.session.Session`."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def root(self) -> Path:
        """Its folder."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment's variables, keys among them."""
        ...

    @property
    def observer(self) -> Observer:
        """Who is told."""
        ...

    @property
    def redact(self) -> Redact:
        """Takes secrets out of texts."""
        ...

    @property
    def cache_path(self) -> Path | None:
        """Where answered calls are kept, if they are."""
        ...


class RigParts(Protocol):
    """What attempts are made from, as in :class:`~skillopt_ci.training.session.Session`."""

    @property
    def config(self) -> Config:
        """The configuration."""
        ...

    @property
    def root(self) -> Path:
        """Its folder."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompts."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment's variables, keys among them."""
        ...

    @property
    def observer(self) -> Observer:
        """Who is told."""
        ...

    @property
    def places(self) -> Places | None:
        """The computers, if there are any."""
        ...

    @property
    def environment(self) -> Environment | None:
        """Where tasks come from, if not from files."""
        ...

    @property
    def rollout_facts(self) -> Mapping[str, object]:
        """How attempts are made, as far as scores depend on it."""
        ...

    @property
    def cache_path(self) -> Path | None:
        """Where answered calls are kept, if they are."""
        ...

    @property
    def attempts_path(self) -> Path | None:
        """Where attempts are kept, if they are."""
        ...

    @property
    def events(self) -> Path | None:
        """The folder for the record of events, if there is to be one."""
        ...

    @property
    def redact(self) -> Redact:
        """Takes secrets out of what is kept."""
        ...
