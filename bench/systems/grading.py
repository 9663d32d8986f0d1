"""Grading a case, for the systems that have no scorer of their own."""

import re

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extracted(response: str) -> str:
    """The code that a response gives, empty if it gives none."""
    found = _ANSWER.findall(response)
    return found[-1].strip() if found else ""
