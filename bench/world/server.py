"""The world as an OpenAI-compatible HTTP server.

``python -m bench.world.server --seed 3 --latency 0.2`` prints its base URL on the first line.
``GET /stats`` returns the calls and tokens by phase, ``GET /trace`` the phase of each call and the
seconds of its arrival and its answer; ``POST /reset`` forgets both.
"""

import argparse
import asyncio
import json
import time
from contextlib import suppress

from aiohttp import web

from bench.world.answering import Oracle
from bench.world.world import Parameters, make_world
from skillopt_ci.model.chat_server import read_body, reply_body
from skillopt_ci.model.types import ChatReply, Usage


async def _complete(request: web.Request) -> web.Response:
    model, asked, _ = read_body(await request.read())
    oracle = request.app[_ORACLE]
    arrived = time.monotonic()
    try:
        answered = oracle.answer([{"role": m.role, "content": m.content} for m in asked.messages])
    except Exception:
        oracle.calls["failed"] += 1
        raise
    await asyncio.sleep(request.app[_LATENCY])
    request.app[_TRACE].append((answered.phase, arrived, time.monotonic()))
    usage = Usage(1, answered.prompt_tokens, answered.completion_tokens)
    return web.json_response(reply_body([ChatReply(answered.text, "stop", model, usage)]))


async def _stats(request: web.Request) -> web.Response:
    oracle = request.app[_ORACLE]
    return web.json_response({"calls": oracle.calls, "tokens": oracle.tokens})


async def _trace(request: web.Request) -> web.Response:
    return web.json_response(request.app[_TRACE])


async def _reset(request: web.Request) -> web.Response:
    oracle = request.app[_ORACLE]
    oracle.calls.clear()
    oracle.tokens.clear()
    request.app[_TRACE].clear()
    return web.json_response({})


_ORACLE = web.AppKey("oracle", Oracle)
_TRACE = web.AppKey("trace", list)
_LATENCY = web.AppKey("latency", float)


def application(oracle: Oracle, latency: float) -> web.Application:
    """The server's application; every answer takes ``latency`` seconds."""
    app = web.Application(client_max_size=64 * 2**20)
    app[_ORACLE], app[_LATENCY], app[_TRACE] = oracle, latency, []
    app.router.add_post("/v1/chat/completions", _complete)
    app.router.add_get("/stats", _stats)
    app.router.add_get("/trace", _trace)
    app.router.add_post("/reset", _reset)
    return app


async def serve(oracle: Oracle, latency: float, port: int) -> None:
    """Print the base URL, then serve until cancelled."""
    runner = web.AppRunner(application(oracle, latency), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}/v1", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Serve a noisy world over HTTP.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per answer")
    parser.add_argument("--world", type=json.loads, default={}, help="parameters, as JSON")
    given = parser.parse_args()
    oracle = Oracle(make_world(given.seed, Parameters(**given.world)))
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(oracle, given.latency, given.port))


if __name__ == "__main__":
    main()
