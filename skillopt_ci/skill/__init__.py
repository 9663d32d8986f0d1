"""The skill document: its text, its protected regions and the edits applied to it."""
