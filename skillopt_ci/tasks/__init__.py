"""Tasks, on which a skill is trained and measured."""
