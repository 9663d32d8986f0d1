"""What has to be said beside a score: what was not measured, and the number that counts it."""

from skillopt_ci.ledger.records import Measurement
from skillopt_ci.report.figures import plural, score
from skillopt_ci.sanitize import one_line

_MOST_REASONS = 5


def reservations(measurement: Measurement | None) -> tuple[str, ...]:
    """Sentences, none where everything was measured, nothing cut off and all confined."""
    if measurement is None:
        return ()
    return tuple(
        filter(None, (_pessimistic(measurement), _cut_off(measurement), _caveat(measurement)))
    )


def with_pessimistic(text: str, measurement: Measurement) -> str:
    """A score's ``text``, followed by the pessimistic number where it is another one."""
    if measurement.pessimistic_hard is None:
        return text
    return f"{text}, {score(measurement.pessimistic_hard)} if errors count as failed"


def error_rows(measurement: Measurement) -> tuple[tuple[str, str], ...]:
    """Why attempts were not measured, and how many each time: the commonest first."""
    rows = [(one_line(why, 200), f"{count:,}") for why, count in measurement.unmeasured.items()]
    return tuple(rows)


def _pessimistic(measurement: Measurement) -> str:
    if measurement.pessimistic_hard is None:
        return ""
    lost = sum(measurement.unmeasured.values())
    reasons = [
        f"{count} × {one_line(why, 120)}"
        for why, count in [*measurement.unmeasured.items()][:_MOST_REASONS]
    ]
    rest = len(measurement.unmeasured) - len(reasons)
    more = f"; and {plural(rest, 'further reason')}" if rest > 0 else ""
    return (
        f"{plural(lost, 'attempt')} could not be measured. Counted as failed, the mean would be "
        f"{score(measurement.pessimistic_hard)} solved and {score(measurement.pessimistic_soft)} "
        f"with partial credit. Why: {'; '.join(reasons)}{more}."
    )


def _cut_off(measurement: Measurement) -> str:
    if not measurement.limits:
        return ""
    parts = ", ".join(f"{count} by {limit}" for limit, count in measurement.limits.items())
    count = plural(sum(measurement.limits.values()), "attempt")
    return f"{count} ended at a limit and were graded as they were: {parts}."


def _caveat(measurement: Measurement) -> str:
    return one_line(measurement.caveat, 300)
