"""What is known of an attempt under way, put together from its steps."""

from dataclasses import dataclass, field

from skillopt_ci.messages import Message
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.steps import (
    Asked,
    Attempt,
    GradedStep,
    Limit,
    ModelSaid,
    Nudged,
    Step,
    Told,
    ToolUsed,
)
from skillopt_ci.scorers.base import Score


@dataclass(slots=True)
class Transcript:
    """The conversation so far; ``opening`` is what was asked, ``said`` what came of it."""

    opening: tuple[Message, ...]
    said: list[Message] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    progress: list[Score] = field(default_factory=list)
    turns: int = 0
    response: str = ""
    usage: Usage = field(default_factory=Usage)

    def add(self, step: Step) -> None:
        """Take note of ``step``."""
        match step:
            case Asked(messages):
                self.opening = messages
            case ModelSaid(message, usage):
                self.said.append(message)
                self.response = message.content or self.response
                self.turns += 1
                self.usage += usage
            case ToolUsed(call, output):
                self.said.append(Message("tool", output, tool_call_id=call.id))
            case Nudged(text):
                self.said.append(Message("user", text))
            case Told(kind, text):
                self.told.append(f"{kind}: {text}")
            case GradedStep(score):
                self.progress.append(score)

    def attempt(self, limit: Limit | None = None) -> Attempt:
        """Return the attempt that ends here."""
        return Attempt(
            messages=(*self.opening, *self.said),
            response=self.response,
            n_turns=max(1, self.turns),
            trace="\n".join(self.told),
            limit=limit,
            usage=self.usage,
        )
