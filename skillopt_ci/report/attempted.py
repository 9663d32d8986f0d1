"""Under which version of the skill a step's training tasks were attempted, in words."""

from skillopt_ci.ledger.records import ProposalRecord
from skillopt_ci.report.figures import score_text

_EARLIER = "one version earlier"


def attempted(proposal: ProposalRecord) -> str:
    """When the attempts were made: with `train.staleness`, before the change before this one."""
    return _EARLIER if proposal.skill_attempted else "before the change"


def training_score(proposal: ProposalRecord) -> str:
    """What the attempts came to, and when they were made if that was not just before."""
    rollout = proposal.rollout
    when = f", {_EARLIER}" if proposal.skill_attempted else ""
    return score_text(rollout.hard, rollout.n) + when
