"""Open a run for reading: from git alone, without tasks, cache or models."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skillopt_ci.cli.configured import load_configured
from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.known_secrets import learn_secrets
from skillopt_ci.config.config import Git
from skillopt_ci.config.loading import run_names
from skillopt_ci.errors import RepositoryError, UsageError
from skillopt_ci.ledger.folder import Reader, RunFolder
from skillopt_ci.ledger.inspect import newest, runs
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, State, StepRecord

_DEFAULT_CONFIG = Globals(environ={}, cwd=Path()).config


@dataclass(frozen=True, slots=True)
class RunReader:
    """A started run as of one commit."""

    ledger: Ledger
    commit: str
    state: State
    history: tuple[HistoryEntry, ...]

    @property
    def read(self) -> Reader:
        """Reads a file of the commit."""
        return partial(self.ledger.read, self.commit)

    @property
    def folder(self) -> RunFolder:
        """The run's files."""
        return RunFolder(self.state.run)

    @property
    def skill_path(self) -> str:
        """The skill that is trained, relative to the repository."""
        return self.state.skill

    def step(self, number: int) -> StepRecord:
        """The evidence of a step; raises :class:`UsageError` if there is no such step."""
        record = self.folder.read_step(self.read, number)
        if record is None:
            raise UsageError(
                f"Run '{self.state.run}' has no step {number}: "
                f"its steps are 1 to {self.state.step}."
            )
        return record

    def boundary(self, epoch: int) -> BoundaryRecord:
        """The evidence of an epoch's end; raises :class:`UsageError` if it was not worked on."""
        record = self.folder.read_boundary(self.read, epoch)
        if record is None:
            last = self.state.boundary
            worked_on = (
                f"the last one worked on is that of epoch {last}" if last else "none was yet"
            )
            raise UsageError(
                f"Run '{self.state.run}' has no record of the end of epoch {epoch}: {worked_on}."
            )
        return record


def open_reader(settings: Globals) -> RunReader:
    """The run that ``--run``, the configuration or the repository itself names.

    Raises :class:`RepositoryError` if it has not started or cannot be told.
    """
    start, git, name = settings.cwd, Git(), settings.run
    if _is_configured(settings):
        loaded = load_configured(settings)
        learn_secrets(settings.redact, loaded, settings.environ)
        start, git, name = loaded.root, loaded.config.git, loaded.config.run
    name = name or _only_run(settings)
    ledger = Ledger.open(start, name, git)
    commit = newest(ledger)
    folder, read = RunFolder(name), partial(ledger.read, commit)
    state = folder.read_state(read)
    if state is None:
        raise RepositoryError(
            f"Run '{name}' has not started: there is no {folder.state} on skillopt/{name} "
            f"or {ledger.base}.",
            hint="Start it with `skillopt-ci step`.",
        )
    return RunReader(ledger, commit, state, folder.read_history(read))


def _is_configured(settings: Globals) -> bool:
    """Whether the configuration says where the run is; one that is merely there may not know it."""
    file = settings.cwd / settings.config
    if settings.config != _DEFAULT_CONFIG:
        return True
    return file.is_file() and (settings.run is None or settings.run in run_names(file))


def _only_run(settings: Globals) -> str:
    names = runs(settings.cwd)
    if len(names) == 1:
        return names[0]
    found = f"these runs are here: {', '.join(names)}" if names else "no run has started here"
    raise RepositoryError(
        f"Which run? There is no {settings.config}, and {found}.",
        hint="Name one with --run, or a configuration with --config.",
    )
