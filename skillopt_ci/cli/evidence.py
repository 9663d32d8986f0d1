"""Gather all that git knows of a run: its records, the skill texts of its commits, its times."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from skillopt_ci.cli.reader import RunReader
from skillopt_ci.git.history import Commit
from skillopt_ci.git.objects import read_texts
from skillopt_ci.integrations.skillopt.export import Evidence
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.skill.document import sha256

#: Generations by which a shallow clone is deepened, one after another; 0 is all there are.
_GENERATIONS = (50, 500, 0)


def gather(reader: RunReader) -> Evidence:
    """Read a run; a shallow clone is deepened as far as skill texts are missing."""
    steps = {
        entry.step: reader.step(entry.step) for entry in reader.history if entry.kind == "step"
    }
    boundaries = {
        entry.epoch: record
        for entry in reader.history
        if entry.kind == "slow_update"
        and (record := reader.folder.read_boundary(reader.read, entry.epoch)) is not None
    }
    wanted = {entry.skill_sha256 for entry in reader.history}
    wanted |= {record.proposal.skill_after for record in steps.values()}
    wanted |= {record.skill_after for record in boundaries.values()}
    commits, texts = _with_texts(reader, wanted)
    return Evidence(
        state=reader.state,
        history=reader.history,
        steps=steps,
        boundaries=boundaries,
        summary=reader.folder.read_summary(reader.read),
        texts=texts,
        seconds=dict(_stage_seconds(commits)),
        baseline=_baseline(reader, commits),
    )


def _with_texts(reader: RunReader, wanted: set[str]) -> tuple[Sequence[Commit], Mapping[str, str]]:
    commits, texts = _read(reader)
    for generations in _GENERATIONS:
        if wanted <= texts.keys() or not reader.ledger.deepen(generations):
            break
        commits, texts = _read(reader)
    return commits, texts


def _read(reader: RunReader) -> tuple[Sequence[Commit], dict[str, str]]:
    """The run's commits, newest first, and every skill text that is in them."""
    ledger, folder = reader.ledger, reader.folder
    commits = ledger.log(reader.commit, paths=(folder.path,))
    kept = (reader.read(path) for path in (folder.initial_skill, folder.best_skill))
    found = read_texts(ledger.git, [(commit.sha, reader.state.skill) for commit in commits])
    return commits, {sha256(text): text for text in (*kept, *found) if text is not None}


def _stage_seconds(commits: Sequence[Commit]) -> Iterator[tuple[int, float]]:
    for commit in reversed(commits):
        trailers = commit.trailers
        # an epoch's end has seconds too, but no edits
        if "Skillopt-Seconds" in trailers and "Skillopt-Edits" in trailers:
            yield int(trailers["Skillopt-Step"]), float(trailers["Skillopt-Seconds"])


def _baseline(reader: RunReader, commits: Sequence[Commit]) -> Measurement | None:
    started = (one for one in commits if one.trailers.get("Skillopt-Action") == "start")
    first = next(started, None)
    if first is None:
        return None
    state = reader.folder.read_state(partial(reader.ledger.read, first.sha))
    return None if state is None else state.current.measurement
