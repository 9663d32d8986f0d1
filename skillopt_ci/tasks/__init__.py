"""Tasks: what a skill is trained and measured on."""
