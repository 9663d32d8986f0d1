"""The simulated ranking: what most trajectories back comes first."""

from collections.abc import Sequence

from skillopt_ci.model.simulated.brief import PoolEntry


def rank(pool: Sequence[PoolEntry], limit: int) -> dict[str, object]:
    """Return the choice of ``limit`` edits by support; the earlier of two equals."""
    ranked = sorted(pool, key=lambda entry: (-entry.support, entry.index))
    return {
        "reasoning": "Edits that answer the most failures come first.",
        "selected_indices": [entry.index for entry in ranked[:limit]],
    }
