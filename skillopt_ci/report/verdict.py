"""The gate's verdict in plain words."""

_VERDICTS = {
    "accept_new_best": "merged, new best",
    "accept": "merged",
    "accept_notes": "merged, notes only",
    "force_accept": "merged, the gate was open",
    "reject": "reverted",
    "skip_no_patches": "nothing proposed",
    "skip_no_rewrite": "nothing rewritten",
}


def better(action: str, before: float | None, after: float | None) -> bool:
    """Whether something was merged because it was better, not because a gate stood open."""
    if action in ("accept_new_best", "accept"):
        return True
    return "accept" in action and after is not None and after > (before or 0.0)


def verdict(action: str, score_after: float | None) -> str:
    """What became of a step; ``score_after`` is None where no candidate was measured."""
    if action == "reject" and score_after is None:
        return "nothing changed"
    return _VERDICTS.get(action, action)
