"""The simulated models behind OpenAI's chat-completions protocol."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from weakref import WeakSet

from aiohttp import web

from skillopt_ci.demo.client import MODELS, complete, find_model
from skillopt_ci.demo.world import content_key
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.chat_server import BadRequestError, error_response, read_body, reply_body


@dataclass(slots=True)
class SimulatedServer:
    """Answers requests after ``latency`` seconds, and counts those that somebody waited for."""

    seed: int = 0
    latency: float = 0.0
    answered: Counter[str] = field(default_factory=Counter)
    connections: WeakSet[asyncio.Transport] = field(default_factory=WeakSet)

    @property
    def idle(self) -> bool:
        """Whether all who asked are gone, so that nothing is counted any more."""
        return all(one.is_closing() for one in list(self.connections))

    async def respond(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self.connections.add(request.transport)
        match request.method, request.path:
            case "GET", "/v1/models":
                data = [{"id": name, "object": "model", "owned_by": "simulated"} for name in MODELS]
                return web.json_response({"object": "list", "data": data})
            case "POST", "/v1/chat/completions":
                return await self._complete(request)
            case _:
                return error_response(HTTPStatus.NOT_FOUND, f"there is no {request.path}")

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            model, asked, _ = read_body(await request.read())
            find_model(model)
        except BadRequestError as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        except ModelSetupError as error:
            return error_response(HTTPStatus.NOT_FOUND, str(error))
        await asyncio.sleep(self.latency)
        reply = complete(model, asked.messages, seed=self.seed, tools=asked.tools)
        if request.transport is not None and not request.transport.is_closing():
            self.answered[content_key(asked.messages)] += 1
        return web.json_response(reply_body([reply]))
