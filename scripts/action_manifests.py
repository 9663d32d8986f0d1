"""Write what the action's inputs and outputs are into its manifests and its documentation.

`skillopt_ci/action/inputs.py` and `outputs.py` say what they are; `action.yml`, its composite twin
and `docs/action.md` repeat it between markers. Run it after a change; a test compares.
"""

import json
import sys
from pathlib import Path

from skillopt_ci.action.inputs import INPUTS
from skillopt_ci.action.outputs import output_texts

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
    own = between(found[docker], "#", f"{inputs()}\n{outputs(composite=False)}")
    return {
        docker: own,
        # for `uses: $/docker`, which needs a folder: our workflows run the action of their commit
        "docker/action.yml": own.replace(
            "image: Dockerfile", "image: ../Dockerfile # zizmor: ignore[unpinned-images]"
        ),
        composite: between(
            between(found[composite], "#", f"{inputs()}\n{outputs(composite=True)}"),
            "        #",
            environment(),
            name="environment",
        ),
        manual: between(
            between(found[manual], "<!--", input_table(), name="inputs"),
            "<!--",
            output_table(),
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


def inputs() -> str:
    """The `inputs` section of a manifest."""
    lines = ["inputs:"]
    for entry in INPUTS:
        lines += [
            f"  {entry.name}:",
            f"    description: {_yaml(entry.text)}",
            "    required: false",
            f"    default: {_yaml(entry.default)}",
        ]
    return "\n".join(lines) + "\n"


def outputs(*, composite: bool) -> str:
    """The `outputs` section of a manifest."""
    lines = ["outputs:"]
    for name, text in output_texts().items():
        lines += [f"  {name}:", f"    description: {_yaml(text)}"]
        if composite:
            lines.append(f"    value: ${{{{ steps.run.outputs.{name} }}}}")
    return "\n".join(lines) + "\n"


def environment() -> str:
    """The variables by which the composite action hands its inputs on, as Docker's runner does."""
    lines = [
        f"        INPUT_{entry.name.upper()}: ${{{{ inputs.{entry.name} }}}}" for entry in INPUTS
    ]
    return "\n".join(lines) + "\n"


def input_table() -> str:
    """The inputs as a Markdown table."""
    rows = [
        f"| `{entry.name}` | {f'`{entry.default}`' if entry.default else ''} | {entry.text} |"
        for entry in INPUTS
    ]
    return "\n".join(["| input | default | meaning |", "| --- | --- | --- |", *rows, ""])


def output_table() -> str:
    """The outputs as a Markdown table."""
    rows = [f"| `{name}` | {text} |" for name, text in output_texts().items()]
    return "\n".join(["| output | meaning |", "| --- | --- |", *rows, ""])


def _yaml(text: str) -> str:
    """A text in JSON, which YAML reads as the same text."""
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
