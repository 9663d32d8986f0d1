"""Reports for people, rendered from the records as text, without I/O."""
