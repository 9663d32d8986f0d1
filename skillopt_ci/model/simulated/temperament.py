"""How good and how wayward the simulated models are: every rate in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Temperament:
    """Probabilities from 0 to 1 per occasion, unless said otherwise."""

    slip: float = 0.02
    """The target breaks a convention that the skill states."""
    bloat_from: int = 5_000
    """Length of the system prompt, in characters, from which the target begins to lose track."""
    bloat_slip: float = 0.01
    """Added to ``slip`` for each further 1 000 characters."""
    contradiction_slip: float = 0.02
    """Added to ``slip`` for each convention about which the skill contradicts itself."""
    torn: float = 0.6
    """The target breaks a convention that the skill both states and contradicts."""
    heedless: float = 0.2
    """Of its slips, those that the target makes also where guidance or a note reminds it."""
    insight: float = 0.2
    """An analyst sees, from one trajectory, the convention behind its failure."""
    vigilance: float = 0.8
    """An analyst sees that a line of the skill is behind a kind of failure."""
    harmful: float = 0.25
    """An analyst proposes something that contradicts the house style."""
    platitude: float = 0.25
    """An analyst proposes something that helps nobody."""
    duplicate: float = 0.3
    """An analyst proposes a rule that the skill has already."""
    missing_target: float = 0.1
    """An analyst wants to change a text that is not there."""
    leak: float = 0.05
    """An analyst gives a reference answer away."""
    link: float = 0.05
    """An analyst sends the target to a web page."""
    malformed: float = 0.06
    """The optimizer's reply is not what was asked for."""
    gullible: float = 0.6
    """A merge keeps an edit that a single patch proposes without any evidence."""
    forgetful: float = 0.1
    """Whoever writes a whole document loses one of its rules."""
    meddlesome: float = 0.25
    """Whoever writes a whole document changes what is not theirs to change."""
    rash: float = 0.1
    """The chosen learning rate is higher than the number of changes."""


STEADY = Temperament()
NOISY = Temperament(slip=0.08)
