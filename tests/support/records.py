"""Records of a run, of which a test says only what it is about."""

from skillopt_ci.ledger.evidence import ProposalRecord, RolloutRecord
from skillopt_ci.ledger.records import Snapshot, State


def proposal_record(**facts: object) -> ProposalRecord:
    """One patch of failures, which led to one edit."""
    usual: dict[str, object] = {
        "rollout": RolloutRecord(hard=0.5, soft=0.5, n=2, errors=0),
        "n_failure_patches": 1,
        "n_success_patches": 0,
        "n_edits_merged": 1,
        "edit_budget": 4,
        "selection": "untouched",
        "skill_before": "a",
        "skill_after": "b",
        "config_sha256": "c",
    }
    return ProposalRecord.model_validate(usual | facts)


def state_of(current: Snapshot, **facts: object) -> State:
    """Where a run stands whose ``current`` skill is its best."""
    usual: dict[str, object] = {
        "run": "demo",
        "skill": "SKILL.md",
        "step": current.step,
        "epoch": min(current.step, 1),
        "current": current,
        "best": current,
        "measured_under": "m",
        "config_sha256": "c",
    }
    return State.model_validate(usual | facts)
