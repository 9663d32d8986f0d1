"""The simulated models behind a line that fails: 429, 500, cut connections, truncated JSON."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web
from simulated_server import SimulatedServer

from skillopt_ci.demo.world import Dice
from skillopt_ci.model.chat_server import error_response

FAULTS = ("rate_limited", "server_error", "cut_connection", "truncated_json")
#: A client that tries five times gets its answer.
MOST_FAULTS_IN_A_ROW = 4


def fault_of(content: str, attempt: int, *, seed: int, rate: float) -> str | None:
    """The fault that befalls this try (from 0) at this content, None if it is answered."""
    dice = Dice(seed, content)
    streak = 0
    for number in range(attempt + 1):
        unlucky = streak < MOST_FAULTS_IN_A_ROW and dice.chance(f"try {number}", rate)
        streak = streak + 1 if unlucky else 0
    return dice.pick(f"fault {attempt}", FAULTS) if streak else None


@dataclass
class FaultyServer:
    """Lets the share ``rate`` of tries fail, by the content of what is asked; counts the faults."""

    rate: float
    seed: int = 0
    server: SimulatedServer = field(default_factory=SimulatedServer)
    tries: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        content = hashlib.sha256(await request.read()).hexdigest()
        fault = fault_of(content, self.tries[content], seed=self.seed, rate=self.rate)
        self.tries[content] += 1
        if fault is None:
            return await self.server.respond(request)
        self.faults[fault] += 1
        match fault:
            case "rate_limited":
                said, headers = "too many requests, slow down", {"Retry-After": "0"}
                status = HTTPStatus.TOO_MANY_REQUESTS
                error = {"message": said, "type": "rate_limit_error"}
                return web.json_response({"error": error}, status=status, headers=headers)
            case "server_error":
                said = "the server had an error"
                return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, said)
            case "truncated_json":
                return web.Response(text='{"choices": [', content_type="application/json")
        cut = web.StreamResponse(headers={"Content-Length": "1000"})
        await cut.prepare(request)
        await cut.write(b'{"choices": [')
        if request.transport is not None:
            request.transport.close()
        return cut
