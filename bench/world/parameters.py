"""The world's numbers: how much rules matter, and how well the optimizer judges."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameters:
    """Effects are in logits of a task's chance of success, shares and chances from 0 to 1.

    ``weights`` are those of the right practices, one per topic that matters; ``harm`` is the mean
    effect of a harmful practice. ``clutter`` is lost per rule beyond ``free_rules``. ``chance`` is
    the weight of mere chance among the causes that a failure is put down to. ``belief`` is the
    Beta distribution of the optimizer's odds to know a topic's right practice, which rise by
    ``learned`` with each further failure that shows the topic; ``stubborn`` is how often a
    rejected rule is proposed again, ``spurious`` how often a whim takes an idea's place.
    """

    weights: tuple[float, ...] = (
        *(1.9, 1.6, 1.3, 1.1, 0.9, 0.8, 0.7, 0.6),
        *(0.5, 0.5, 0.4, 0.4, 0.3, 0.3, 0.2, 0.2),
    )
    jitter: float = 0.2
    types_per_rule: int = 2
    harm: float = 0.9
    base: float = -1.2
    difficulty_sd: float = 1.0
    floor: float = 0.02
    ceiling: float = 0.98
    free_rules: int = 14
    clutter: float = 0.03
    chance: float = 1.2
    belief: tuple[float, float] = (2.2, 2.0)
    learned: float = 0.07
    stubborn: float = 0.3
    spurious: float = 0.1
    train: int = 80
    selection: int = 40
    test: int = 280
