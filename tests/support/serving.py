"""The simulated models' server in a thread of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from skillopt_ci.demo.server import Behaviour, SimulatedServer


@contextmanager
def running(behaviour: Behaviour) -> Iterator[SimulatedServer]:
    """Run a server on a free port; it is shut down at the end of the block."""
    with SimulatedServer(("127.0.0.1", 0), behaviour) as server:
        # The number is how soon it notices, in seconds, that it is to stop.
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
