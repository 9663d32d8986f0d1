"""The simulated models as a chat client, in process."""

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.simulated.completion import complete, find_model
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage


class SimulatedClient:
    """Answers as the simulated model that ``role_config`` names; nothing is paid."""

    def __init__(self, role_config: ModelRole, role: Role) -> None:
        """Choose the model; raises ``ModelSetupError`` when there is none of that name."""
        find_model(role_config.model, where=f"model.{role}.model")
        self._config = role_config

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; the reply depends on its content and the configured seed alone."""
        limits = (request.max_output_tokens, self._config.max_output_tokens)
        completion = complete(
            self._config.model,
            request.messages,
            seed=self._config.seed,
            attempt=request.attempt,
            limit=min((limit for limit in limits if limit is not None), default=None),
            tools=request.tools,
        )
        return ChatReply(
            text=completion.text,
            finish_reason=completion.finish_reason,
            model=self._config.model,
            usage=Usage(
                calls=1,
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
            ),
            tool_calls=completion.tool_calls,
        )
