"""A world's server in a process of its own, for as long as a run lasts."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.outcome import Call

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    base_url: str

    def stats(self) -> dict[str, dict[str, int]]:
        """Calls and tokens by phase, as the server counted them."""
        counted: dict[str, dict[str, int]] = self._get("/stats")
        return counted

    def trace(self) -> list[Call]:
        """The answered calls, in the order of their answers."""
        return [(phase, arrived, answered) for phase, arrived, answered in self._get("/trace")]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.base_url.removesuffix("/v1") + path) as reply:
            return json.load(reply)


@contextmanager
def served(seed: int, latency: float, world: Mapping[str, Any] | None = None) -> Iterator[Served]:
    """Run the server of the world of ``seed``, with the parameters ``world`` over its own."""
    command = [sys.executable, "-m", "bench.world.server"]
    arguments = ["--seed", str(seed), "--latency", str(latency)]
    arguments += ["--world", json.dumps(dict(world or {}))]
    with subprocess.Popen(
        [*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Served(process.stdout.readline().strip())
        finally:
            process.terminate()
