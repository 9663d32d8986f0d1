"""Text from outside, made fit for a terminal and for the log of a CI job."""

import re

from skillopt_ci.report.untrusted import visible

# GitHub's runner obeys a line that starts with `::` and a `##[` anywhere in it
_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)


def harmless(text: str) -> str:
    """``text`` without control characters and without commands to a CI runner."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", visible(text))


def harmless_line(text: str) -> str:
    """``text`` on one line, otherwise as :func:`harmless`."""
    return harmless(" ".join(text.split()))
