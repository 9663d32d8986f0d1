"""What is believed of single edits, by all comparisons of the run."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EditEffect:
    """What an edit adds to the mean score, give or take, by what was measured up to ``step``.

    ``helpful`` is the probability that it adds anything.
    """

    step: int
    mean: float
    sd: float
    helpful: float


#: The effects of an edit, oldest first, by the step that proposed it and its number from 0.
Effects = Mapping[tuple[int, int], tuple[EditEffect, ...]]


def effect_text(mean: float, sd: float, helpful: float) -> str:
    """An effect in words: ``+0.042 ± 0.031, helps with 91 %``."""
    return f"{mean:+.3f} ± {sd:.3f}, helps with {helpful:.0%}".replace("%", " %")
