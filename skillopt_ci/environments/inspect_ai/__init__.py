"""Tasks of Inspect AI (https://inspect.aisi.org.uk)."""
