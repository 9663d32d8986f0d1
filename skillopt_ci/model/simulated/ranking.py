"""The simulated ranking: what reviewers ask for, then what most trajectories back."""

from collections.abc import Sequence

from skillopt_ci.model.simulated.brief import PoolEntry


def rank(pool: Sequence[PoolEntry], limit: int) -> dict[str, object]:
    """Return the choice of ``limit`` edits by support, reviewers' wishes first."""
    ranked = sorted(pool, key=lambda entry: (not entry.wished, -entry.support, entry.index))
    return {
        "reasoning": "Edits that answer the most failures come first.",
        "selected_indices": [entry.index for entry in ranked[:limit]],
    }
