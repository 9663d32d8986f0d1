"""A small GitHub over a real bare repository, checked against GitHub's own description."""
