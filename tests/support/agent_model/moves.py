"""What the scripted model does next: run its one command, then say its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]

#: What agents call the tool that runs a command line.
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")

#: What every answer of the model is said to consume, of which CACHED was read from a cache.
PROMPT, CACHED, COMPLETION = 1000, 400, 20


@dataclass(frozen=True)
class Tool:
    """A tool that the agent offers; ``schema`` is that of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Move:
    """One answer: words, or the use of a tool."""

    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The whole model: ``command`` is run ``times`` over, then ``answer`` is said."""

    command: str = "echo made > made.txt; cat made.txt"
    answer: str = "It is made."
    times: int = 1

    def move(self, tools: Sequence[Tool], results: int) -> Move:
        """Return the next answer in a conversation that has so many results of tools.

        A request without tools is one that the agent makes for itself: titles, summaries.
        """
        shell = next((tool for name in SHELLS for tool in tools if tool.name == name), None)
        if shell is None or results >= self.times:
            return Move(self.answer)
        return Move(tool=shell.name, arguments=_arguments(shell, self.command))


def _arguments(tool: Tool, command: str) -> Body:
    properties = tool.schema.get("properties", {})
    key = "cmd" if "cmd" in properties else "command"
    others = [name for name in tool.schema.get("required", ()) if name != key]
    filled = {name: _anything(properties.get(name, {})) for name in others}
    several = properties.get(key, {}).get("type") == "array"
    return {**filled, key: ["sh", "-c", command] if several else command}


def _anything(schema: Mapping[str, Any]) -> object:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    return {"boolean": False, "integer": 1, "number": 1}.get(kind, "Make it")
