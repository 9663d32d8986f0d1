"""The worker's side of other tools, which take seconds to load, opened often by one process."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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


def check_openings(
    module: str, root: Path, cases: Sequence[tuple[Mapping[str, object], str]]
) -> None:
    """Let ``module`` open each of the options in ``cases``; what it says holds what is expected.

    All are opened in forks of one process.
    """
    given = json.dumps([options for options, _ in cases])
    words = [sys.executable, "-P", "-c", _OPEN_EACH, module, given]
    done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('"')]
    assert len(told) == len(cases), told
    for (options, expected), said in zip(cases, told, strict=True):
        assert expected in said, options
