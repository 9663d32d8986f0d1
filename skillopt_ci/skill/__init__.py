"""The skill document: text, protected regions and edits."""
