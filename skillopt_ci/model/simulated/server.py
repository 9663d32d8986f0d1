"""The simulated models behind an OpenAI-compatible HTTP server, with faults on demand.

``python -m skillopt_ci.model.simulated.server --port 0`` prints its base URL on the first line.
``GET /stats`` tells what was asked, answered and broken, by distinct content.
"""

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from skillopt_ci.model.simulated.endpoint import SimulatedServer
from skillopt_ci.model.simulated.faults import Behaviour

#: How soon a server in a thread notices that it is to stop.
_POLL_SECONDS = 0.02


@contextmanager
def running(
    behaviour: Behaviour, host: str = "127.0.0.1", port: int = 0
) -> Iterator[SimulatedServer]:
    """Run a server in a thread of this process; it is shut down at the end of the block."""
    with SimulatedServer((host, port), behaviour) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def serve(host: str, port: int, behaviour: Behaviour) -> None:
    """Print the base URL, then serve until interrupted."""
    with suppress(KeyboardInterrupt), SimulatedServer((host, port), behaviour) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="Serve simulated models over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fault-rate", type=float, default=0.0, help="share of failing tries")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--retry-after", type=int, default=0, help="seconds that a 429 asks for")
    given = parser.parse_args(arguments)
    behaviour = Behaviour(given.seed, given.fault_rate, given.latency, given.retry_after)
    serve(given.host, given.port, behaviour)


if __name__ == "__main__":
    main()
