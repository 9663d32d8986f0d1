"""Commands in comments: `/skillopt step`, in the first line and alone there."""

import re

#: What people may ask for in a comment.
REQUESTS = ("step", "eval", "slow-update", "status", "note")

# From the very first character: a quotation or a code block is no command.
_COMMAND = re.compile(r"/skillopt[ \t]+([a-z-]+)(?:[ \t]+(\S.*))?[ \t]*", re.ASCII)


def requested(comment: str) -> str:
    """Return the word after `/skillopt`, one of :data:`REQUESTS`; empty if there is no command.

    All but a note stand alone in their line, and a note says something.
    """
    first, *rest = comment.splitlines() or [""]
    found = _COMMAND.fullmatch(first)
    if found is None or found[1] not in REQUESTS:
        return ""
    said = found[2] or ""
    if found[1] == "note":
        return "note" if said or any(line.strip() for line in rest) else ""
    return "" if said else found[1]
