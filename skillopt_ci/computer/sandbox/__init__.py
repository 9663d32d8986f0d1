"""Computers out of Linux namespaces, made with bubblewrap."""
