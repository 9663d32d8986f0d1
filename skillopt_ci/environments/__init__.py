"""Environments: the user's own classes, and bridges to what other tools call tasks."""
