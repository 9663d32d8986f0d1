"""The tiny world of items, worked on by a program on a computer instead of by a chat answer.

The program reads its skill where external agents do, writes the answer into a file of the
workspace, and leaves a line for every item in ``made`` beside the repository. The file ``kill``
there holds how many lines may be before it kills the process whose id is in ``MORTAL``.
"""

import json
from pathlib import Path

from tests.conftest import Checkout, Workshop

PROGRAM = """\
#!/bin/sh
while read -r line || [ -n "$line" ]; do
    case $line in *"Item "*" of kind "[a-d]) item="Item ${line##*Item }" ;; esac
done
set -- $item
number=$2 kind=$5
if [ -e "PLACE/kill" ] && [ "$(wc -l < PLACE/made)" -ge "$(cat PLACE/kill)" ]; then
    rm PLACE/kill
    kill -9 "$MORTAL"
    sleep 60
fi
letter=
case "$(cat AGENTS.md 2>/dev/null)" in
    *"Leave out every answer"*) number= ;;
    *"Kind $kind: a number begins with $kind"*) letter=$kind ;;
esac
echo "$letter$number" > answer.txt
echo "wrote answer.txt"
echo "$item" >> PLACE/made
"""

ROLLOUT = """\
rollout:
  solver:
    type: external
    agent: command
    command: ["{root}/agent.sh"]
    skill_as: agents
    env: [MORTAL]
  computer: {type: unconfined}
  programs_can_read_secrets: true # attempts are counted outside of their folders
"""


def checkout_with(workshop: Workshop, name: str, more: str = "") -> Checkout:
    """A repository ``name`` whose target is the program, with ``more`` at the program's start.

    In that, ``PLACE`` is the folder around the repository.
    """
    (workshop.folder / name).mkdir()
    checkout = workshop.checkout(f"{name}/repository")
    place = checkout.folder.parent
    (place / "made").write_text("", encoding="utf-8")
    head, _, rest = PROGRAM.partition("\n")
    program = checkout.folder / "agent.sh"
    program.write_text(f"{head}\n{more}{rest}".replace("PLACE", str(place)), encoding="utf-8")
    program.chmod(0o755)
    config = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8").splitlines()
    kept = [line for line in config if not line.startswith("scorer:")]
    checkout.write("skillopt.yaml", "\n".join(kept) + "\n" + ROLLOUT)
    for split in ("train", "selection", "test"):
        lines = (checkout.folder / f"tasks/{split}.jsonl").read_text("utf-8").splitlines()
        tasks = [json.dumps(graded(json.loads(line))) for line in lines]
        checkout.write(f"tasks/{split}.jsonl", "\n".join(tasks) + "\n")
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "-m", "Let an agent work")
    return checkout


def graded(line: dict[str, object]) -> dict[str, object]:
    """A task of that world with a grader of its own: the answer is in the grader's files only."""
    answer = line.pop("references")
    command = 'test "$(cat answer.txt)" = "$(cat wanted.txt)"'
    files = {"wanted.txt": f"{answer}\n"}
    return {**line, "scorer": {"type": "computer", "command": command, "files": files}}


def made(folder: Path) -> list[str]:
    """The items that were worked on, one for each attempt that was made to its end."""
    return (folder.parent / "made").read_text(encoding="utf-8").splitlines()
