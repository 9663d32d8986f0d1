"""What a simulated model says in one turn."""

from dataclasses import dataclass

from skillopt_ci.messages import ToolCall


@dataclass(frozen=True, slots=True)
class Said:
    """Text, and tools that the model wants used."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
