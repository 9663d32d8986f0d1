"""A number that is not known yet: the least and the most that it can be, and what is likely."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """``low`` ≤ ``likely`` ≤ ``high``."""

    low: int = 0
    likely: int = 0
    high: int = 0

    @classmethod
    def exactly(cls, count: int) -> "Spread":
        """A number that is known."""
        return cls(count, count, count)

    @classmethod
    def up_to(cls, likely: int, high: int | None = None) -> "Spread":
        """Perhaps nothing, likely ``likely``, at most ``high`` (by default no more than that)."""
        return cls(0, likely, likely if high is None else high)

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, factor: int) -> "Spread":
        return Spread(self.low * factor, self.likely * factor, self.high * factor)
