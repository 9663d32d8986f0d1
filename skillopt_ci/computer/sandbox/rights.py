"""Whom the sandbox's processes belong to on the host."""

import os
import secrets
from dataclasses import dataclass

#: Numbers that no distribution gives to anybody: above systemd's containers, below 2³¹.
_FIRST, _COUNT = 1_900_000_000, 200_000_000


@dataclass(frozen=True, slots=True)
class Rights:
    """The user as whom everything inside runs.

    Root never goes inside: it becomes a user that owns nothing, a different one each time.
    """

    #: The user to become, None to remain who we are.
    become: int | None

    @property
    def is_root(self) -> bool:
        """Whether we are root on the host."""
        return self.become is not None


def own_rights() -> Rights:
    """Return the rights for a new sandbox of this process."""
    return Rights(_FIRST + secrets.randbelow(_COUNT) if os.geteuid() == 0 else None)
