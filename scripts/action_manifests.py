"""Repeat what `action.yml` says of inputs and outputs in its twins and in the documentation.

`action.yml` is where they are written; the other manifests and `docs/action.md` repeat them between
markers. Run it after a change; a test compares, also with the code.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def main(root: Path = ROOT) -> int:
    """Write every file whose text is not up to date."""
    for name, text in files(root).items():
        if (root / name).read_text(encoding="utf-8") != text:
            (root / name).write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 0


def files(root: Path) -> dict[str, str]:
    """What each file should say."""
    found = {
        name: (root / name).read_text(encoding="utf-8")
        for name in ("action.yml", "composite/action.yml", "docs/action.md")
    }
    docker, composite, manual = found
    own = found[docker]
    declared = yaml.safe_load(own)
    return {
        # for `uses: $/docker`, which needs a folder: our workflows run the action of their commit
        "docker/action.yml": own.replace(
            "image: Dockerfile", "image: ../Dockerfile # zizmor: ignore[unpinned-images]"
        ),
        composite: between(
            between(found[composite], "#", interface(declared)),
            "        #",
            environment(declared),
            name="environment",
        ),
        manual: between(
            between(found[manual], "<!--", input_table(declared), name="inputs"),
            "<!--",
            output_table(declared),
            name="outputs",
        ),
    }


def between(text: str, comment: str, content: str, *, name: str = "interface") -> str:
    """`text` with `content` between the markers called `name`."""
    close = " -->" if comment == "<!--" else ""
    first, last = f"{comment} {name}: generated{close}\n", f"{comment} end of {name}{close}\n"
    before, _, rest = text.partition(first)
    after = rest.partition(last)[2]
    return f"{before}{first}{content}{last}{after}"


def interface(declared: dict[str, Any]) -> str:
    """Inputs and outputs as a composite action declares them."""
    lines = ["inputs:"]
    for name, entry in declared["inputs"].items():
        lines += [
            f"  {name}:",
            f"    description: {_yaml(entry['description'])}",
            "    required: false",
            f"    default: {_yaml(entry['default'])}",
        ]
    lines += ["", "outputs:"]
    for name, entry in declared["outputs"].items():
        lines += [
            f"  {name}:",
            f"    description: {_yaml(entry['description'])}",
            f"    value: ${{{{ steps.run.outputs.{name} }}}}",
        ]
    return "\n".join(lines) + "\n"


def environment(declared: dict[str, Any]) -> str:
    """The variables by which the composite action hands its inputs on, as Docker's runner does."""
    lines = [
        f"        INPUT_{name.upper()}: ${{{{ inputs.{name} }}}}" for name in declared["inputs"]
    ]
    return "\n".join(lines) + "\n"


def input_table(declared: dict[str, Any]) -> str:
    """The inputs as a Markdown table."""
    rows = [
        f"| `{name}` | {_code(one['default'])} | {one['description']} |"
        for name, one in declared["inputs"].items()
    ]
    return "\n".join(["| input | default | meaning |", "| --- | --- | --- |", *rows, ""])


def output_table(declared: dict[str, Any]) -> str:
    """The outputs as a Markdown table."""
    rows = [f"| `{name}` | {one['description']} |" for name, one in declared["outputs"].items()]
    return "\n".join(["| output | meaning |", "| --- | --- |", *rows, ""])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _yaml(text: str) -> str:
    """A text in JSON, which YAML reads as the same text."""
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
