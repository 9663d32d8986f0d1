"""Computers: confined places with a file system, in which an agent works on a task."""
