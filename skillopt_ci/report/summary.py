"""What attempts amount to, as people and as programs read it: pure text and plain values."""

from collections.abc import Iterator, Mapping

from skillopt_ci.report.figures import plural
from skillopt_ci.rollout.metrics import Estimate, Summary
from skillopt_ci.stats import Interval


def estimate_text(found: Estimate) -> str:
    """A mean with its 95 % interval: ``0.625 [0.47, 0.76] n=40``."""
    if found.mean is None:
        return "– n=0"
    interval = found.interval
    within = "" if interval is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
    clusters = "" if found.clusters is None else f" in {plural(found.clusters, 'cluster')}"
    return f"{found.mean:.3f}{within} n={found.n}{clusters}"


def remarks(summary: Summary, *, all_of_them: bool = False) -> Iterator[str]:
    """What is to be said besides the means, a sentence a line; the usual only on demand."""
    lost = summary.attempts - summary.measured
    if not summary.complete:
        yield (
            f"incomplete: {plural(lost, 'attempt')} of {summary.attempts} not measured, and left "
            f"out; counted as failures: {_share(summary.pessimistic_hard)} "
            f"(soft {_share(summary.pessimistic_soft)})"
        )
    for row in summary.errors:
        yield f"  {row.count} × {row.status}: {row.reason}"
    if summary.missing:
        yield f"never measured: {', '.join(summary.missing)}"
    for one in summary.limits:
        of_unsolved = "" if one.of_unsolved is None else f", {one.of_unsolved:.0%} of the unsolved"
        yield f"ended by the limit of {one.limit}: {one.of_all:.0%}{of_unsolved}"
    if summary.pass_at:
        yield f"solved at least once (pass@k): {_by_k(summary.pass_at)}"
        yield f"solved every time (pass^k): {_by_k(summary.pass_hat)}"
    if all_of_them and summary.lengths is not None:
        low, middle, high = summary.lengths.low, summary.lengths.median, summary.lengths.high
        yield f"messages in a conversation: {low:g}, {middle:g}, {high:g} (quartiles)"


def as_values(summary: Summary) -> dict[str, object]:
    """The summary as JSON."""
    lengths = summary.lengths
    return {
        "attempts": summary.attempts,
        "measured": summary.measured,
        "solved": summary.solved,
        "complete": summary.complete,
        "hard_estimate": estimate_values(summary.hard),
        "soft_estimate": estimate_values(summary.soft),
        "pessimistic": {"hard": summary.pessimistic_hard, "soft": summary.pessimistic_soft},
        "missing": list(summary.missing),
        "error_table": [
            {"status": row.status.value, "reason": row.reason, "count": row.count}
            for row in summary.errors
        ],
        "by_type": {
            bucket.task_type: {
                "hard": bucket.hard.mean,
                "tasks": bucket.hard.n,
                "soft": bucket.soft.mean,
                "interval": interval_values(bucket.hard.interval),
            }
            for bucket in summary.by_type
        },
        "limits": {
            one.limit.value: {"of_all": one.of_all, "of_unsolved": one.of_unsolved}
            for one in summary.limits
        },
        "model_ended_of_unsolved": summary.model_ended,
        "lengths": None if lengths is None else [lengths.low, lengths.median, lengths.high],
        "pass_at": {str(k): value for k, value in summary.pass_at.items()},
        "pass_hat": {str(k): value for k, value in summary.pass_hat.items()},
    }


def estimate_values(found: Estimate) -> dict[str, object]:
    """An estimate as JSON."""
    return {
        "mean": found.mean,
        "standard_error": found.standard_error,
        "interval": interval_values(found.interval),
        "tasks": found.n,
        "clusters": found.clusters,
    }


def interval_values(interval: Interval | None) -> list[float] | None:
    """An interval as JSON."""
    return None if interval is None else [interval.low, interval.high]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _by_k(values: Mapping[int, float]) -> str:
    return ", ".join(f"{k}: {value:.3f}" for k, value in values.items())
