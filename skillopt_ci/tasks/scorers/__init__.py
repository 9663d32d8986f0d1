"""Scorers: from a response to a hard score, a soft score and a reason."""
