"""A skill text on the selection tasks."""

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from skillopt_ci.ledger.records.base import Record

#: What is left out of the file where it is so: a record without errors stays what it always was.
_USUAL: Mapping[str, object] = MappingProxyType(
    {
        "planned": 0,
        "attempts": {},
        "first_attempt": 0,
        "attempts_each": 1,
        "pessimistic_hard": None,
        "pessimistic_soft": None,
        "unmeasured": {},
        "limits": {},
        "caveat": "",
    }
)


class Measurement(Record):
    """One skill text on the selection tasks.

    ``score`` is in the gate's metric; ``tasks`` maps each measured task to (hard, soft), the means
    of its measured attempts; ``errors`` names the tasks that infrastructure or the grader kept from
    being measured in any. ``density`` is the text's share of leading words (0 where that counts for
    nothing), ``words`` its length as the target reads it. ``planned`` is the number of tasks that
    were to be measured, where measuring stopped before all of them were (0 elsewhere): such a score
    is partial, and compares with no other. ``pessimistic_hard`` and ``pessimistic_soft`` count what
    was not measured as 0 (None where everything was), and ``unmeasured`` says why it was not: how
    many attempts for each reason. ``limits`` says how many attempts each limit ended. ``caveat`` is
    what the computers of the attempts did not guarantee.
    """

    hard: float
    soft: float
    score: float
    density: float = 0.0
    words: int = 0
    tasks: dict[str, tuple[float, float]] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()
    planned: int = 0
    attempts: dict[str, int] = Field(default_factory=dict)
    """Rounds of attempts that a task's scores are the mean of, where there were several."""
    first_attempt: int = 0
    """Number of the first round that counts: earlier ones were put aside."""
    attempts_each: int = 1
    """Attempts at each task in one round."""
    pessimistic_hard: float | None = None
    pessimistic_soft: float | None = None
    unmeasured: dict[str, int] = Field(default_factory=dict)
    limits: dict[str, int] = Field(default_factory=dict)
    caveat: str = ""

    @model_serializer(mode="wrap")
    def _without_the_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        content: dict[str, object] = handler(self)
        return {key: one for key, one in content.items() if _USUAL.get(key, ...) != one}

    @property
    def partial(self) -> bool:
        """Whether some tasks were left out because the verdict was clear without them."""
        return self.planned > 0

    @property
    def next_attempt(self) -> int:
        """Number of a round of attempts that was made at no task yet."""
        return self.first_attempt + max(self.attempts.values(), default=1)

    @property
    def n(self) -> int:
        """Number of measured tasks."""
        return len(self.tasks)


class Snapshot(Record):
    """A skill text that was measured: ``origin`` says where it came from, in words."""

    sha256: str
    step: int
    origin: str
    measurement: Measurement
