"""What the target did, as far as this machine remembers it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said or done; ``kind`` is ``assistant``, ``tool``, ``user``, …"""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a task; ``outcome`` says in words how it ended."""

    task: str
    stage: str
    attempt: int
    outcome: str
    solved: bool | None
    turns: tuple[Turn, ...]
