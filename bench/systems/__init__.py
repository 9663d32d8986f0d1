"""One runner per system; those of other systems run in environments of their own."""
