"""Read a run as reports see it: its record, and where in git each step is found."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from skillopt_ci.cli.reader import RunReader
from skillopt_ci.git.history import Commit
from skillopt_ci.ledger.inspect import resolve
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.report.view import EventKind, RunView, StepPlace

#: What a verdict's commit is known by. Action and hash belong to it: in the same repository another
#: run may have a step of the same number.
_Key = tuple[str, bool, str, str]
#: So many steps are told with their evidence; a comment holds no more of them.
_NEWEST = 25
#: Commits looked through for the steps, for each of them: candidate, verdict, and some of people's.
_COMMITS_PER_STEP = 6


def view(reader: RunReader, newest: int = _NEWEST) -> RunView:
    """The run as of the commit that ``reader`` looks at, the ``newest`` steps with evidence."""
    steps = [entry.step for entry in reader.history if entry.kind == "step"]
    found = (reader.folder.read_step(reader.read, number) for number in steps[-newest:])
    ends = [entry.epoch for entry in reader.history if entry.kind == "slow_update"][-newest:]
    boundaries = (reader.folder.read_boundary(reader.read, epoch) for epoch in ends)
    return RunView(
        state=reader.state,
        history=reader.history,
        epochs=tuple(record for record in boundaries if record is not None),
        summary=reader.folder.read_summary(reader.read),
        steps=tuple(record for record in found if record is not None),
        places=step_places(reader),
        base=reader.ledger.base,
        base_events=_base_events(reader),
        commit=reader.commit,
    )


def step_places(reader: RunReader) -> Mapping[tuple[EventKind, int], StepPlace]:
    """Where the steps and the epochs' ends of a run are, as far as its history reaches."""
    steps = sum(entry.kind == "step" for entry in reader.history)
    limit = _COMMITS_PER_STEP * (steps + 20)
    return places(reader.history, reader.ledger.log(reader.commit, limit=limit))


def places(
    history: Sequence[HistoryEntry], log: Sequence[Commit]
) -> Mapping[tuple[EventKind, int], StepPlace]:
    """Where each step and each epoch's end is, told by the trailers of the commits."""
    facts = {commit.sha: commit.trailers for commit in log}
    verdicts = {_key_of(facts[commit.sha]): commit for commit in log if facts[commit.sha]}
    return dict(_places(history, verdicts, facts))


def _places(
    history: Sequence[HistoryEntry],
    verdicts: Mapping[_Key, Commit],
    facts: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[tuple[EventKind, int], StepPlace]]:
    for entry in history:
        if entry.kind not in ("step", "slow_update"):
            continue
        commit = verdicts.get(_key(entry))
        if commit is None:
            continue
        named = [sha for sha in commit.parents if _is_candidate(facts.get(sha, {}))]
        place = StepPlace(commit.sha, named[-1] if named else "", _step_seconds(facts[commit.sha]))
        if entry.kind == "step":
            yield ("step", entry.step), place
        else:
            yield ("slow_update", entry.epoch), place


def _key(entry: HistoryEntry) -> _Key:
    return str(entry.step), entry.kind == "slow_update", entry.action, entry.skill_sha256


def _key_of(trailers: Mapping[str, str]) -> _Key:
    return (
        trailers.get("Skillopt-Step", ""),
        "Skillopt-Epoch-End" in trailers,
        trailers.get("Skillopt-Action", ""),
        trailers.get("Skillopt-Skill-Sha256", ""),
    )


def _is_candidate(trailers: Mapping[str, str]) -> bool:
    return trailers.get("Skillopt-Action") == "proposed"


def _step_seconds(trailers: Mapping[str, str]) -> float | None:
    try:
        return float(trailers.get("Skillopt-Seconds", ""))
    except ValueError:
        return None


def _base_events(reader: RunReader) -> int:
    """How much of the history base has, by its own copy of it."""
    commit = _base_commit(reader.ledger)
    if commit is None:
        return 0
    return len(reader.folder.read_history(partial(reader.ledger.read, commit)))


def _base_commit(ledger: Ledger) -> str | None:
    names = (f"refs/remotes/{ledger.remote}/{ledger.base}", ledger.names.base)
    return next(filter(None, (resolve(ledger, name) for name in names)), None)
