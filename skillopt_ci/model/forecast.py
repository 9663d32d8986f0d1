"""What a call will consume at most, as far as the calls before it tell."""

import json
import math

from skillopt_ci.model.client import ChatRequest, Role
from skillopt_ci.model.usage import Account, Usage

#: Before a role has answered: English has about four characters a token, other texts fewer.
_CHARACTERS_PER_TOKEN = 3.0
#: Before a stage has answered, and without a limit: the length of a long answer.
_FIRST_ANSWER = 4_096
_TOKENS_PER_PICTURE = 1_600
#: A prompt's frame: roles, separators, the names of tools.
_FRAME = 16


class Forecast:
    """Expects of each call the longest answer of its stage so far, and the densest prompt."""

    def __init__(self) -> None:
        self._longest: dict[Account, int] = {}
        self._density: dict[Role, float] = {}

    def expect(self, request: ChatRequest) -> Usage:
        """An upper estimate of the call's tokens; its cost is not known here."""
        density = self._density.get(request.role, 1 / _CHARACTERS_PER_TOKEN)
        prompt = math.ceil(_characters(request) * density) + _FRAME
        pictures = sum(len(message.images) for message in request.messages)
        limit = request.max_output_tokens or _FIRST_ANSWER
        answer = self._longest.get(Account(request.role, request.stage), limit)
        return Usage(
            calls=1,
            prompt_tokens=prompt + pictures * _TOKENS_PER_PICTURE,
            completion_tokens=answer,
            cost_usd=None,
        )

    def learn(self, request: ChatRequest, usage: Usage) -> None:
        """Take a call's true usage into account."""
        account = Account(request.role, request.stage)
        longest = self._longest.get(account, 0)
        self._longest[account] = max(longest, usage.completion_tokens)
        seen = usage.prompt_tokens / max(1, _characters(request))
        self._density[request.role] = max(self._density.get(request.role, 0.0), seen)


def _characters(request: ChatRequest) -> int:
    said = sum(len(message.content) for message in request.messages)
    asked = sum(len(call.arguments) for one in request.messages for call in one.tool_calls)
    tools = sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in request.tools)
    return said + asked + tools
