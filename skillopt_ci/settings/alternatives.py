"""Which of several shapes a mapping was meant to have."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from skillopt_ci.settings.base import Section


def choose_alternative(value: object, shapes: Sequence[type[Section]]) -> str | None:
    """Name the shape whose keys are closest to those of ``value``, misspelt ones included.

    Among equals the first wins; None if ``value`` is neither a mapping nor one of the shapes.
    """
    if isinstance(value, Section):
        return type(value).__name__
    if not isinstance(value, Mapping):
        return None
    return max(shapes, key=lambda shape: _resemblance(value, shape)).__name__


def _resemblance(value: Mapping[str, object], shape: type[Section]) -> float:
    return sum(
        max(SequenceMatcher(None, key, field).ratio() for field in shape.model_fields)
        for key in value
    )
