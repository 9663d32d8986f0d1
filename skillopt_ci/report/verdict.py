"""The gate's verdict in plain words."""

_VERDICTS = {
    "accept_new_best": "merged, new best",
    "accept": "merged",
    "reject": "reverted",
    "skip_no_patches": "nothing proposed",
}


def verdict(action: str, score_after: float | None) -> str:
    """What became of a step; ``score_after`` is None where no candidate was measured."""
    if action == "reject" and score_after is None:
        return "nothing changed"
    return _VERDICTS.get(action, action)
