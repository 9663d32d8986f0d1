"""Read a run from git alone: no tasks, cache or models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from skillopt_ci.cli.build import load_configured
from skillopt_ci.cli.options import DEFAULT_CONFIG, Globals
from skillopt_ci.config.config import Git
from skillopt_ci.config.loading import run_names
from skillopt_ci.errors import InfrastructureError, RepositoryError, SkilloptError, UsageError
from skillopt_ci.git.history import Commit
from skillopt_ci.git.objects import find
from skillopt_ci.ledger.folder import CommittedFolder
from skillopt_ci.ledger.ledger import (
    GENERATIONS,
    Ledger,
    Position,
    candidate,
    known_base,
    newest,
    resolve,
    runs,
)
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, State, StepRecord
from skillopt_ci.report.view import EventKind, EventView, RunView, StepPlace, event_view
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.validation import LFS_REMEDY
from skillopt_ci.training.offline_eval import NamedSkill
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import find_checkout
from skillopt_ci.util import is_lfs_pointer, nearest, read_text

#: Events that a view has with their evidence; a comment holds no more of them.
_NEWEST = 40


@dataclass(frozen=True, slots=True)
class RunReader:
    """A started run as of one commit; ``flight`` is the commit of a candidate without a verdict."""

    ledger: Ledger
    commit: str
    state: State
    history: tuple[HistoryEntry, ...]
    flight: str = ""

    @property
    def version(self) -> str:
        return f"{self.commit}{self.flight}"

    def waiting(self, path: str) -> str | None:
        """A file of the candidate in flight."""
        return self.ledger.read(self.flight, path) if self.flight else None

    def recorded(self, path: str) -> str | None:
        """A file of the run, or else of the candidate in flight."""
        return self.folder.read(path) or self.waiting(path)

    @property
    def folder(self) -> CommittedFolder:
        return self.ledger.at(self.commit)

    @property
    def skill_path(self) -> str:
        return self.state.skill

    def start(self, path: str = "") -> tuple["RunReader", str]:
        """The run as the next step begins with it, or why there is none; `commit` may be a tree.

        ``path`` is the skill that the configuration names.
        """
        ledger, base = self.ledger, known_base(self.ledger)
        if base is None or (ledger.common_dir / "shallow").exists():  # only a fetch would tell
            return self, ""
        try:
            root = ledger.merge_base(self.commit, base)
            position = Position(base, self.commit, None, root)
            found = find_checkout(ledger, path or self.skill_path, position)
        except SkilloptError as error:
            return self, error.sentences
        if found.state is None:  # the folder was removed from base, and the run begins anew
            return self, ""
        return replace(self, commit=found.commit, state=found.state, history=found.history), ""

    def step(self, number: int) -> StepRecord:
        """The evidence of a step; raises :class:`UsageError` if there is none."""
        record = CommittedFolder(self.ledger.run, self.recorded).read_step(number)
        if record is None:
            last = self.state.step
            known = f"its steps are 1 to {last}" if last else "none is done yet"
            raise UsageError(f"Run '{self.state.run}' has no record of step {number}: {known}.")
        return record

    def boundary(self, epoch: int) -> BoundaryRecord:
        record = CommittedFolder(self.ledger.run, self.recorded).read_boundary(epoch)
        if record is None:
            raise UsageError(
                f"Run '{self.state.run}' has no record of the end of epoch {epoch}: its last is "
                f"{self.state.boundary or 'none'}."
            )
        return record


def open_reader(settings: Globals, *, fresh: bool = False) -> RunReader:
    """The run that ``--run``, the configuration or the repository itself names.

    ``fresh`` asks the remote first. RepositoryError if the run has not started or is ambiguous.
    """
    start, git, name, file = settings.cwd, Git(), settings.run, settings.config_file
    hint = "Start it with `skillopt-ci step` and the configuration that has this run."
    # a configuration that is merely there may know nothing of the run
    if settings.config != DEFAULT_CONFIG or (
        file.is_file() and (name is None or name in run_names(file, settings.cwd))
    ):
        loaded = load_configured(settings)
        start, git, name = loaded.root, loaded.config.git, loaded.config.run
        hint = f"Start it with `skillopt-ci step{settings.same_run}`."
    elif name and file.is_file():
        hint = nearest(name, run_names(file, settings.cwd)) or hint
    if name is None:
        names = runs(settings.cwd)
        if len(names) != 1:
            found = (
                f"these runs are here: {', '.join(names)}" if names else "no run has started here"
            )
            raise RepositoryError(
                f"Which run? There is no {settings.config}, and {found}.",
                hint="Name one with --run, or a configuration with --config.",
            )
        name = names[0]
    ledger = Ledger.open(start, name, git, read_only=True)
    if fresh and ledger.remote is not None:
        ledger.sync()
    commit = newest(ledger, lambda text: settings.say(f"warning: {text}", err=True))
    folder = ledger.at(commit)
    state = folder.read_state()
    if state is None:
        raise RepositoryError(
            f"Run '{name}' has not started: there is no {folder.state} on skillopt/{name} "
            f"or {ledger.base}.",
            hint=hint,
        )
    return RunReader(ledger, commit, state, folder.read_history(), candidate(ledger))


def view(reader: RunReader, newest: int = _NEWEST) -> RunView:
    """The run as of the commit that ``reader`` looks at.

    Evidence comes with the ``newest`` events and with what was merged since base.
    """
    folder, ledger = reader.folder, reader.ledger
    base = known_base(ledger)
    # by base's own copy of the history
    base_events = len(ledger.at(base).read_history()) if base else 0
    if base and base_events:  # people may have edited its skill since, and training scored that
        now = sha256(ledger.read(base, reader.skill_path) or "")
        for number, one in enumerate(reader.history[base_events:], start=base_events + 1):
            if one.kind == "measure" and one.skill_sha256 == now:
                base_events = number
    told = (
        *(entry for entry in reader.history[base_events:-newest] if entry.stays),
        *reader.history[-newest:],
    )
    # a reverted step whose notes were kept is told by them
    numbers = dict.fromkeys(entry.step for entry in told if entry.kind in ("step", "notes"))
    ends = (entry.epoch for entry in told if entry.kind == "slow_update")
    return RunView(
        state=reader.state,
        history=reader.history,
        epochs=tuple(filter(None, map(folder.read_boundary, ends))),
        summary=folder.read_summary(),
        steps=tuple(filter(None, map(folder.read_step, numbers))),
        places=step_places(reader),
        base=ledger.base,
        base_events=base_events,
        commit=reader.commit,
        skill=folder.read(reader.skill_path) or "",
        flight=in_flight(reader),
    )


def in_flight(reader: RunReader) -> EventView | None:
    """The candidate that waits for its verdict, as far as this clone knows."""
    folder, state = CommittedFolder(reader.ledger.run, reader.waiting), reader.state
    ends = map(folder.read_boundary, range(state.boundary + 1, state.epoch + 1))
    record = folder.read_step(state.step + 1) or next(filter(None, ends), None)
    view = record and event_view(record, StepPlace(candidate=reader.flight))
    return view if view and view.fate == "flight" else None


def step_places(reader: RunReader) -> Mapping[tuple[EventKind, int], StepPlace]:
    """Where each step and each epoch's end is, as the trailers of reachable commits say."""
    log = reader.ledger.log(reader.commit, paths=(reader.folder.path,))
    facts = {commit.sha: commit.trailers for commit in log}
    # action and hash belong to it: in one repository another run may have a step of the same number
    verdicts = {
        (
            told.get("Skillopt-Step"),
            told.get("Skillopt-Action"),
            told.get("Skillopt-Skill-Sha256"),
            "Skillopt-Epoch-End" in told,
        ): commit
        for commit, told in zip(log, facts.values(), strict=True)
    }
    found: dict[tuple[EventKind, int], StepPlace] = {}
    for entry in reader.history:
        key = (str(entry.step), entry.action, entry.skill_sha256, entry.kind == "slow_update")
        if entry.kind not in ("step", "slow_update") or (commit := verdicts.get(key)) is None:
            continue
        candidates = [
            sha for sha in commit.parents if facts.get(sha, {}).get("Skillopt-Action") == "proposed"
        ]
        try:
            seconds = float(facts[commit.sha].get("Skillopt-Seconds", ""))
        except ValueError:
            seconds = None
        number = entry.step if entry.kind == "step" else entry.epoch
        found[entry.kind, number] = StepPlace(commit.sha, "".join(candidates[-1:]), seconds)
    return found


def gather(reader: RunReader) -> RunView:
    """Read all that git knows of a run; a shallow clone is deepened for missing skill texts."""
    wanted = {name for one in reader.history for name in (one.skill_sha256, one.candidate_sha256)}
    commits, texts = _commits_and_texts(reader)
    for generations in GENERATIONS:
        try:
            if wanted - {""} <= texts.keys() or not reader.ledger.deepen(generations):
                break
        except InfrastructureError:
            why = "cannot be read, and this clone is shallow: older skill texts are missing"
            click.echo(f"warning: {reader.ledger.remote} {why}", err=True)
            break
        commits, texts = _commits_and_texts(reader)
    starts = [one.sha for one in commits if one.trailers.get("Skillopt-Action") == "start"]
    state = starts and reader.ledger.at(starts[0]).read_state()
    run = view(reader, newest=max(len(reader.history), 1))
    return replace(run, texts=texts, baseline=state.current.measurement if state else None)


def _commits_and_texts(reader: RunReader) -> tuple[Sequence[Commit], dict[str, str]]:
    ledger, folder = reader.ledger, reader.folder
    commits = ledger.log(reader.commit, paths=(folder.path,))
    kept = [folder.read(path) for path in (folder.initial_skill, folder.best_skill)]
    kept.append(reader.waiting(reader.skill_path))
    blobs = (find(ledger.git, f"{commit.sha}:{reader.state.skill}") for commit in commits)
    # what is not UTF-8 was never trained: it has the hash of no skill that is wanted
    found = (blob.content.decode(errors="replace") for blob in blobs if blob is not None)
    return commits, {sha256(text): text for text in (*kept, *found) if text is not None}


#: Words for texts that the run's folder keeps.
_KEPT = ("best", "current", "initial")
#: A longer number is the hash of a commit.
_MOST_DIGITS = 6


def find_skill(source: Run | RunReader, word: str, settings: Globals) -> NamedSkill:
    """The text that ``word`` names: a kept one, a step's, a file, a git ref, or ``REF:path``."""
    if word.isdecimal() and len(word) <= _MOST_DIGITS:
        reader = source if isinstance(source, RunReader) else open_reader(settings)
        return _of_step(reader, int(word))
    file = settings.cwd / word
    if word in _KEPT:
        commit = newest(source.ledger)
        folder = source.ledger.at(commit)
        begun = folder.read_state() is not None
        paths = {
            "best": folder.best_skill,
            "current": source.skill_path,
            "initial": folder.initial_skill if begun else source.skill_path,
        }
        text: str | None = folder.read(paths[word])
        if text is None:
            raise UsageError(
                f"Run {folder.run!r} has no {word} skill: there is no {paths[word]} in "
                f"{commit[:10]}.",
                hint="" if begun else f"Run `skillopt-ci step{settings.same_run}`, or name a file.",
            )
    elif file.is_file():
        try:
            text = read_text(file)
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}.") from error
    else:
        ref, _, path = word.partition(":")
        found = resolve(source.ledger, ref)
        text = found and source.ledger.read(found, path or source.skill_path)
    if text is None:
        raise UsageError(
            f"{word!r} names no skill: it is not a file here, not a git ref that holds "
            f"{source.skill_path}, not a step's number, and not one of {', '.join(_KEPT)}.",
            hint=nearest(word, _KEPT),
        )
    if is_lfs_pointer(text):
        raise UsageError(f"{word!r} is a Git LFS pointer, not the skill.", hint=LFS_REMEDY)
    return NamedSkill(word, text)


def _of_step(reader: RunReader, number: int) -> NamedSkill:
    """The skill after a step, or that of the candidate in flight."""
    reader.step(number)
    place = step_places(reader).get(("step", number))
    text = None if place is None else reader.ledger.read(place.verdict, reader.skill_path)
    if number > reader.state.step:
        text = reader.waiting(reader.skill_path)
    if text is None:
        raise UsageError(
            f"Step {number} is not in the history of this clone any more (a squash merge?).",
            hint=f"`skillopt-ci show {number}` shows what it changed, from its record.",
        )
    return NamedSkill(f"step {number}", text)
