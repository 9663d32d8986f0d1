"""What the skills branch remembers, in ``.skillopt/<run>/``: state, history, evidence per step.

These files are read back from a branch that people can push to, so they are validated. Nothing
in them depends on the clock or on which calls were answered from the cache: an interrupted step
and an uninterrupted one write the same bytes.
"""

from skillopt_ci.ledger.records.base import RECORD_VERSION, Record
from skillopt_ci.ledger.records.epoch import (
    BoundaryRecord,
    MetaSkillRecord,
    PairRecord,
    PairSide,
    SlowUpdateRecord,
)
from skillopt_ci.ledger.records.gate import GateRecord
from skillopt_ci.ledger.records.measurement import Measurement, Snapshot
from skillopt_ci.ledger.records.proposal import (
    EditRecord,
    LearningRateRecord,
    NotesRecord,
    PatternRecord,
    ProposalRecord,
    RefusedNote,
    ReviewerNoteRecord,
    SuggestionRecord,
)
from skillopt_ci.ledger.records.race import ArmRecord, EffectRecord, HeatRecord, RaceRecord
from skillopt_ci.ledger.records.rollout import BatchRecord, RolloutRecord, TaskOutcome
from skillopt_ci.ledger.records.run import Basis, HistoryEntry, State
from skillopt_ci.ledger.records.step import Action, Decision, StepRecord
from skillopt_ci.ledger.records.summary import (
    DifferenceRecord,
    EpochSummary,
    FinalSkill,
    Summary,
    TypeScore,
)
from skillopt_ci.ledger.records.usage import (
    AccountRecord,
    UsageRecord,
    account_records,
    accounts_of,
    with_accounts,
)

__all__ = [
    "RECORD_VERSION",
    "AccountRecord",
    "Action",
    "ArmRecord",
    "Basis",
    "BatchRecord",
    "BoundaryRecord",
    "Decision",
    "DifferenceRecord",
    "EditRecord",
    "EffectRecord",
    "EpochSummary",
    "FinalSkill",
    "GateRecord",
    "HeatRecord",
    "HistoryEntry",
    "LearningRateRecord",
    "Measurement",
    "MetaSkillRecord",
    "NotesRecord",
    "PairRecord",
    "PairSide",
    "PatternRecord",
    "ProposalRecord",
    "RaceRecord",
    "Record",
    "RefusedNote",
    "ReviewerNoteRecord",
    "RolloutRecord",
    "SlowUpdateRecord",
    "Snapshot",
    "State",
    "StepRecord",
    "SuggestionRecord",
    "Summary",
    "TaskOutcome",
    "TypeScore",
    "UsageRecord",
    "account_records",
    "accounts_of",
    "with_accounts",
]
