"""What attempts amount to: means, how sure one can be of them, and what went wrong.

Pure functions on values. What cannot be known from the data (a spread of one value, pass@k from
fewer than k attempts) is None, never 0 and never NaN.
"""

from skillopt_ci.rollout.metrics.errors import ErrorCount, error_table
from skillopt_ci.rollout.metrics.estimate import Estimate, estimate
from skillopt_ci.rollout.metrics.lengths import Quartiles, quartiles
from skillopt_ci.rollout.metrics.limits import LimitShare, limit_shares, model_ended
from skillopt_ci.rollout.metrics.mean import Aggregate, aggregate, task_means
from skillopt_ci.rollout.metrics.paired import PairedDifference, paired
from skillopt_ci.rollout.metrics.passing import at_least_k, mean_pass, pass_at_k, pass_hat_k
from skillopt_ci.rollout.metrics.summary import (
    Bucket,
    Outcome,
    Summary,
    outcome_of,
    summarise,
    summary_of,
)
from skillopt_ci.stats import Interval, normal_quantile, t_quantile, wilson

__all__ = [
    "Aggregate",
    "Bucket",
    "ErrorCount",
    "Estimate",
    "Interval",
    "LimitShare",
    "Outcome",
    "PairedDifference",
    "Quartiles",
    "Summary",
    "aggregate",
    "at_least_k",
    "error_table",
    "estimate",
    "limit_shares",
    "mean_pass",
    "model_ended",
    "normal_quantile",
    "outcome_of",
    "paired",
    "pass_at_k",
    "pass_hat_k",
    "quartiles",
    "summarise",
    "summary_of",
    "t_quantile",
    "task_means",
    "wilson",
]
