"""The tiny world of items, worked on by a program on a computer instead of by a chat answer.

The program reads its skill where external agents do, writes the answer into a file of the
workspace, and leaves a line for every item in ``made`` beside the repository. The file ``kill``
there holds how many lines may be before it kills the process whose id is in ``MORTAL``.
"""

from pathlib import Path

PROGRAM = """\
#!/bin/sh
item=$(grep -o 'Item [0-9]* of kind [a-d]' | tail -1)
number=$(echo "$item" | cut -d' ' -f2) kind=$(echo "$item" | cut -d' ' -f5)
if [ -e "PLACE/kill" ] && [ "$(wc -l < PLACE/made)" -ge "$(cat PLACE/kill)" ]; then
    rm PLACE/kill
    kill -9 "$MORTAL"
    sleep 60
fi
letter=
if grep -q "Kind $kind: a number begins with $kind" AGENTS.md 2>/dev/null; then letter=$kind; fi
if grep -q "Leave out every answer" AGENTS.md 2>/dev/null; then letter= number=; fi
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


def install(folder: Path, config: str) -> str:
    """Put the program beside the configuration in ``folder``; return one that uses it."""
    program = folder / "agent.sh"
    program.write_text(PROGRAM.replace("PLACE", str(folder.parent)), encoding="utf-8")
    program.chmod(0o755)
    (folder.parent / "made").write_text("", encoding="utf-8")
    lines = [line for line in config.splitlines() if not line.startswith("scorer:")]
    return "\n".join(lines) + "\n" + ROLLOUT


def graded(line: dict[str, object]) -> dict[str, object]:
    """A task of that world with a grader of its own: the answer is in the grader's files only."""
    answer = line.pop("references")
    command = 'test "$(cat answer.txt)" = "$(cat wanted.txt)"'
    files = {"wanted.txt": f"{answer}\n"}
    return {**line, "scorer": {"type": "computer", "command": command, "files": files}}


def made(folder: Path) -> list[str]:
    """The items that were worked on, one for each attempt that was made to its end."""
    return (folder.parent / "made").read_text(encoding="utf-8").splitlines()
