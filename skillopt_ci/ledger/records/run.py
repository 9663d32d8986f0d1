"""Where training stands, and what happened so far."""

from typing import Literal

from pydantic import JsonValue

from skillopt_ci.ledger.records.base import RECORD_VERSION, Record
from skillopt_ci.ledger.records.measurement import Snapshot
from skillopt_ci.ledger.records.usage import AccountRecord, UsageRecord


class HistoryEntry(Record):
    """One line of ``history.jsonl``: what happened, in the order in which it happened.

    ``kind`` is ``start`` (first measurement), ``step``, ``measure`` (the skill, the tasks or the
    configuration changed under way and the current skill was measured anew) or ``set_aside`` (a
    candidate whose ground had changed), ``notes`` (of a step whose edits were rejected),
    ``slow_update`` (the end of an epoch) or ``finish`` (the end of the run).
    """

    kind: Literal["start", "step", "notes", "measure", "set_aside", "slow_update", "finish"]
    step: int
    epoch: int
    action: str
    reason: str = ""
    score_before: float | None = None
    score_after: float | None = None
    best_score: float | None = None
    tasks: int = 0
    edits: int = 0
    skill_sha256: str = ""
    """The current skill after this entry."""
    candidate_sha256: str = ""
    candidate_reading: str = ""
    """Hash of what the target reads of the candidate, spacing apart."""
    planned: int = 0
    """Tasks that were to be measured, where fewer settled the verdict: the score is partial."""
    words: int = 0
    """Length of the current skill."""
    config_sha256: str = ""
    usage: UsageRecord = UsageRecord()
    simulated: bool = False


class Basis(Record):
    """What a step was proposed under, so that the next one can name what has changed.

    ``config`` is what of the configuration influences training, ``train_size`` the number of
    training tasks and ``train_sha256`` a hash over them.
    """

    config: dict[str, JsonValue]
    train_size: int
    train_sha256: str


class State(Record):
    """``state.json``: where training stands.

    ``measured_under`` is the fingerprint of everything that a score depends on besides the skill
    (target model, prompts, scorers, selection tasks, metric): scores are compared only under the
    same one. ``usage`` is the whole run's so far.
    """

    version: int = RECORD_VERSION
    run: str
    skill: str
    step: int
    epoch: int
    current: Snapshot
    best: Snapshot
    boundary: int = 0
    """The last epoch whose end has been worked on (slow update, meta skill)."""
    measured_under: str
    config_sha256: str
    basis: Basis | None = None
    """What the last step was proposed under."""
    heard_notes: tuple[str, ...] = ()
    """Ids of the reviewers' notes that some step was given: none is given twice."""
    usage: UsageRecord = UsageRecord()
    accounts: tuple[AccountRecord, ...] = ()
    """What of `usage` each role consumed in each stage; the rest is from before this was kept."""
    simulated: bool = False
