"""The training log: records in commits of the skills branch, never in the user's checkout."""
