#!/usr/bin/env python3
"""A stand-in for an agent's program. No model is asked, so nothing is paid.

It reads the skill where agents look for it, works on an order for a job script as far as it knows
the rules, and tells of its work in the events of `claude -p --output-format stream-json`. What it
makes of an order depends on the rules that the skill states, and on nothing else.
"""

import json
import re
import sys
from pathlib import Path

PLACES = (".claude/skills/*/SKILL.md", ".agents/skills/*/SKILL.md", "AGENTS.md", "CLAUDE.md")
RULES = {
    "shebang": r"#!/bin/sh",
    "place": r"\bjobs/",
    "dashes": r"\bname.*\bdashes",
    "strict": r"\bset -eu\b",
    "owner": r"# Owner:",
    "locale": r"\bLC_ALL=C\b",
    "progress": r"standard error",
    "result": r"\bout/",
    "missing": r"\bstatus 3\b",
    "executable": r"\bexecutable\b",
}
AGAINST = re.compile(r"\b(?:leave|without|never|avoid)\b", re.IGNORECASE)
COMMANDS = {"counts": "grep -c ''", "lists": "sort -u", "shows": "tail -n 1"}


def known_rules() -> set[str]:
    """Return the names of the rules that the installed skill states."""
    texts = [file.read_text() for place in PLACES for file in sorted(Path().glob(place))]
    lines = [line for text in texts for line in text.splitlines() if not AGAINST.search(line)]
    text = "\n".join(lines)
    return {name for name, rule in RULES.items() if re.search(rule, text, re.IGNORECASE)}


def script_for(order: str, rules: set[str]) -> tuple[Path, list[str]]:
    """Return where the script stands, and its lines."""
    named = re.search(r"job `([a-z ]+)` (?:that )?(\w+) .*?`([\w./-]+)`", order)
    if named is None:
        sys.exit("this is no order for a job script")
    job, verb, source = named.groups()
    folder = re.search(r"folder `([\w-]+)`", order)
    owner = re.search(r"(?:belongs to|ordered by) (\w+ \w+)", order)
    message = re.search(r"(?:announces|it says) `([\w ]+)`", order)
    kept = re.search(r"result is kept|keep its result", order)
    name = job.replace(" ", "-" if "dashes" in rules else "_")
    place = folder[1] if folder else "jobs" if "place" in rules else "."
    work = f"{COMMANDS[verb]} {source}"
    lines = [
        "#!/bin/sh" if "shebang" in rules else "#!/usr/bin/env bash",
        "set -eu" if "strict" in rules and "first error" in order else "",
        f"# Owner: {owner[1]}" if owner and "owner" in rules else "",
        "export LC_ALL=C" if verb == "lists" and "locale" in rules else "",
        f"[ -f {source} ] || exit {3 if 'missing' in rules else 1}" if "fail" in order else "",
        f"echo '{message[1]}'{' >&2' if 'progress' in rules else ''}" if message else "",
        f"mkdir -p out\n{work} > out/{name}.txt" if kept and "result" in rules else work,
    ]
    return Path(place, f"{name}.sh"), [line for line in lines if line]


def tell(kind: str, **event: object) -> None:
    """Print one event."""
    print(json.dumps({"type": kind, **event}))


def tell_tool(number: int, name: str, given: dict[str, str], result: str) -> None:
    """Print the use of a tool, and what it gave back."""
    key = f"tool_{number}"
    usage = {"input_tokens": 100, "output_tokens": 20}
    call = {"type": "tool_use", "id": key, "name": name, "input": given}
    tell("assistant", message={"id": f"m{number}", "content": [call], "usage": usage})
    back = {"type": "tool_result", "tool_use_id": key, "content": result}
    tell("user", message={"role": "user", "content": [back]})


def main() -> None:
    """Work on the order on standard input."""
    order, rules = sys.stdin.read(), known_rules()
    tell("system", subtype="init", model="stand-in")
    path, lines = script_for(order, rules)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    tell_tool(1, "Write", {"file_path": str(path), "content": path.read_text()}, "written")
    if "executable" in rules and "directly" in order:
        path.chmod(0o755)
        tell_tool(2, "Bash", {"command": f"chmod +x {path}"}, "")
    answer = f"The script is written: {path}"
    words = {"type": "text", "text": answer}
    tell("assistant", message={"id": "m3", "content": [words], "usage": {"output_tokens": 10}})
    usage = {"input_tokens": 300, "output_tokens": 50}
    ending = {"subtype": "success", "is_error": False, "num_turns": 3, "total_cost_usd": 0.0}
    tell("result", result=answer, usage=usage, **ending)


if __name__ == "__main__":
    main()
