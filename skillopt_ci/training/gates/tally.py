"""Tally: what attempts at one task came to, and what that counts for in the gate's metric."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.training.gate import exact, gate_score


@dataclass(frozen=True, slots=True)
class Tally:
    """Mean scores over ``count`` measured attempts at a task under one skill."""

    hard: float
    soft: float
    count: int = 1

    def plus(self, hard: float, soft: float) -> "Tally":
        """The tally with one more attempt."""
        count = self.count + 1
        return Tally(
            (self.hard * self.count + hard) / count, (self.soft * self.count + soft) / count, count
        )


#: Tallies by task; a task that could not be measured is not there.
Tallies = Mapping[str, Tally]

#: What a tally is worth, from 0 to 1.
Worth = Callable[[Tally], Fraction]


def worth_in(evaluation: Evaluation) -> Worth:
    """What a tally is worth in the metric of the gate, as an exact number."""
    metric, weight = evaluation.gate_metric, exact(evaluation.gate_mixed_weight)

    def worth(tally: Tally) -> Fraction:
        return gate_score(exact(tally.hard), exact(tally.soft), metric, weight)

    return worth


def tallies(measurement: Measurement) -> dict[str, Tally]:
    """The tallies that a measurement consists of."""
    return {
        task: Tally(hard, soft, measurement.attempts.get(task, 1))
        for task, (hard, soft) in measurement.tasks.items()
    }
