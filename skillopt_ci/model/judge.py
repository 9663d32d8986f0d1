"""The judge model as scorers see it: a question in, a text out."""

from dataclasses import dataclass

from skillopt_ci.messages import Message
from skillopt_ci.model.client import ChatClient, ChatRequest, Role


@dataclass(frozen=True, slots=True)
class ChatJudge:
    """The judge role of ``client``, in the shape that scorers ask for."""

    client: ChatClient

    async def __call__(self, prompt: str) -> str:
        """Answer ``prompt``; raises what :meth:`ChatClient.complete` raises."""
        request = ChatRequest(
            role=Role.JUDGE, stage="judge", messages=(Message(role="user", content=prompt),)
        )
        return (await self.client.complete(request)).text
