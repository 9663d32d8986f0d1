"""The training log in git: objects and refs, never the user's checkout."""
