"""Untrusted text as data: inside a Markdown fence that the text itself cannot close."""

import re


def fenced(text: str, info: str = "") -> str:
    """``text`` in a backtick fence longer than any run of backticks inside it (CommonMark 4.5)."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"
