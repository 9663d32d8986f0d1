"""Train agent skills in a repository's own CI."""

__version__ = "0.1.0"
