"""The command line: one module per command; it parses, builds the parts, calls and prints."""
