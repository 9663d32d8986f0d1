"""Something wrong with a document."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """An ``error`` breaks the document for its readers, a ``warning`` deserves a look.

    ``line`` counts from 1; None where no single line is at fault.
    """

    severity: Severity
    message: str
    line: int | None = None
