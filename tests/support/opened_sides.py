"""The worker's side of other tools, which take seconds to load, opened often by one process."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_OPEN_EACH = """
import json, os, sys
from importlib import import_module
from pathlib import Path
from skillopt_ci.worker import described
module = import_module(sys.argv[1])
for options in json.loads(sys.argv[2]):
    if os.fork() == 0:
        said = "it opened"
        try:
            module.open_side(options, Path.cwd())
        except (Exception, SystemExit) as error:
            said = described(error)
        print(json.dumps(said), flush=True)
        os._exit(0)
    os.wait()
"""


def open_each(module: str, root: Path, given: Sequence[Mapping[str, Any]]) -> list[str]:
    """What ``module`` says as it opens each of ``given``, in forks of one process."""
    words = [sys.executable, "-P", "-c", _OPEN_EACH, module, json.dumps(given)]
    done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('"')]
