"""The simulated models behind OpenAI's chat-completions protocol, with faults on demand."""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from skillopt_ci.demo.client import MODELS, complete, find_model
from skillopt_ci.demo.world import Dice, content_key
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.chat_server import (
    BadRequestError,
    error_response,
    listening,
    read_body,
    reply_body,
)

FAULTS = ("rate_limited", "server_error", "cut_connection", "truncated_json")
#: A client that tries five times gets its answer.
MOST_FAULTS_IN_A_ROW = 4


def fault_of(content: str, attempt: int, *, seed: int, rate: float) -> str | None:
    """Return the fault that befalls this try (from 0) at this content, None if it is answered."""
    dice = Dice(seed, content)
    streak = 0
    for number in range(attempt + 1):
        unlucky = streak < MOST_FAULTS_IN_A_ROW and dice.chance(f"try {number}", rate)
        streak = streak + 1 if unlucky else 0
    return dice.pick(f"fault {attempt}", FAULTS) if streak else None


@dataclass(slots=True)
class SimulatedServer:
    """Answers requests, and counts them by content.

    ``fault_rate`` is the share of tries that fail; ``latency`` seconds pass before each reply.
    """

    seed: int = 0
    fault_rate: float = 0.0
    latency: float = 0.0
    tries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        match request.method, request.path:
            case "GET", "/stats":
                counts = {
                    "requests": self.tries.total(),
                    "answered": self.answered.total(),
                    "faults": self.faults,
                    "answered_per_content": self.answered,
                }
                return web.json_response(counts)
            case "GET", "/v1/models":
                data = [{"id": name, "object": "model", "owned_by": "simulated"} for name in MODELS]
                return web.json_response({"object": "list", "data": data})
            case "POST", "/v1/chat/completions":
                return await self._complete(request)
            case _:
                return error_response(HTTPStatus.NOT_FOUND, f"there is no {request.path}")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        try:
            model, asked, _ = read_body(await request.read())
            find_model(model)
        except BadRequestError as error:
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        except ModelSetupError as error:
            return error_response(HTTPStatus.NOT_FOUND, str(error), code="model_not_found")
        content = content_key(asked.messages)
        fault = fault_of(content, self.tries[content], seed=self.seed, rate=self.fault_rate)
        self.tries[content] += 1
        await asyncio.sleep(self.latency)
        limit = asked.max_output_tokens
        reply = complete(model, asked.messages, seed=self.seed, limit=limit, tools=asked.tools)
        response = web.json_response(reply_body([reply]))
        connection = request.transport
        if connection is None or connection.is_closing():
            return response  # an answer that nobody reads is none
        (self.faults if fault else self.answered)[fault or content] += 1
        body = response.body
        half = body[: len(body) // 2] if isinstance(body, bytes) else b""
        match fault:
            case "rate_limited":
                said, headers = "too many requests, slow down", {"Retry-After": "0"}
                status = HTTPStatus.TOO_MANY_REQUESTS
                return error_response(status, said, kind="rate_limit_error", headers=headers)
            case "server_error":
                said = "the server had an error"
                return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, said, kind="server_error")
            case "truncated_json":
                response.body = half
            case "cut_connection":
                cut = web.StreamResponse(headers={"Content-Length": str(response.content_length)})
                await cut.prepare(request)
                await cut.write(half)
                connection.close()
                return cut
        return response


def serve(host: str, port: int, server: SimulatedServer) -> None:
    """Print the base URL, then serve until interrupted."""

    async def forever() -> None:
        async with listening(server.respond, host, port) as url:
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(forever())
