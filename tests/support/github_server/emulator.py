"""Another GitHub, by other people: the npm package `emulate`. It has no GraphQL and no git."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODULES = Path(__file__).parents[3] / "node_modules"
#: npm is not among what a fresh machine must have; CI has it.
INSTALLED = (_MODULES / "emulate").is_dir()
_SEED = {
    "github": {
        "users": [{"login": "ada", "name": "Ada", "email": "ada@example.org"}],
        "repos": [{"owner": "ada", "name": "skills", "auto_init": True}],
    }
}


@contextmanager
def emulating(folder: Path) -> Iterator[str]:
    """Run the emulator with a repository ada/skills; gives the root of its API."""
    seed = folder / "seed.json"
    seed.write_text(json.dumps(_SEED), encoding="utf-8")
    script = _MODULES / "emulate" / "dist" / "index.js"
    with socket.socket() as held:  # nobody else gets this port; node, which shares it, can listen
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        options = ["start", "-s", "github", "-p", str(port), "--seed", str(seed), "--base-url", url]
        command = [_MODULES / ".bin" / "node", script, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
            assert process.stdout is not None
            try:
                assert any("Ready" in line for line in process.stdout), "the emulator did not start"
                yield url
            finally:
                process.terminate()
