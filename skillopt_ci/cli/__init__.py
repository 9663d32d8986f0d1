"""The command line: `main.COMMANDS` has the module of each; it parses, builds, calls and prints."""
