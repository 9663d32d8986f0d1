"""The trailers of commit messages: which there are is read from the code that writes them."""

import ast
from pathlib import Path
from typing import get_args

from reference_pages.markdown import table
from skillopt_ci.ledger.records import Action

_PREFIX = "Skillopt-"
_MEANINGS = {
    "Skillopt-Step": "Number of the step; 0 before the first.",
    "Skillopt-Epoch": "Number of the epoch.",
    "Skillopt-Epoch-End": "`true` on the commits of an epoch's end.",
    "Skillopt-Action": "What the commit is: `proposed` on a candidate; on a verdict the gate's "
    "action, one of {actions}; otherwise what happened, such as `start`, `measure` or `finish`.",
    "Skillopt-Score-Before": "Score of the current skill, in the gate's metric; six digits.",
    "Skillopt-Score-After": "Score of the candidate; `none` where nothing was measured. "
    "Of `finish`, both are scores on the test tasks: of the first skill and of the best.",
    "Skillopt-Tasks": "Number of tasks that the scores were compared on.",
    "Skillopt-Edits": "Number of changes that went into the candidate.",
    "Skillopt-Skill-Sha256": "SHA-256 of the skill as it is after this commit.",
    "Skillopt-Config-Sha256": "SHA-256 of the configuration that the work was done under.",
    "Skillopt-Tokens": "Prompt and completion tokens that the work took.",
    "Skillopt-Cost-Usd": "US dollars that it took; `unknown` if a price is not known.",
    "Skillopt-Simulated": "`true` if a model was simulated; absent otherwise.",
    "Skillopt-Seconds": "Wall-clock seconds from proposal to verdict. The only fact that depends "
    "on the clock.",
}
_HEAD = """\
# Commit trailers

Every commit of training carries its facts as git trailers, for programs. Text from models cannot
forge them: whatever looks like a trailer in a message's body is indented.

```sh
git log --first-parent --format='%(trailers:key=Skillopt-Action,valueonly)' skillopt/quickstart
```

"""


def page(package: Path) -> str:
    """The page; raises ValueError where code and meanings differ."""
    written = {name for file in package.rglob("*.py") for name in _names(file)}
    if written != _MEANINGS.keys():
        odd = ", ".join(sorted(written ^ _MEANINGS.keys()))
        raise ValueError(f"trailers that are written or explained, but not both: {odd}")
    actions = ", ".join(f"`{action}`" for action in get_args(Action))
    rows = [(f"`{name}`", text.replace("{actions}", actions)) for name, text in _MEANINGS.items()]
    return _HEAD + table(("trailer", "meaning"), rows)


def _names(file: Path) -> list[str]:
    """The trailers that a module writes or reads."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(_PREFIX)
        and node.value.replace("-", "").isalnum()
    ]
