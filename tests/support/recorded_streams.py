"""Streams that the real programs wrote, as test data: small, and without what is left to chance."""

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "rollout" / "solvers" / "streams" / "recorded"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z")
_URL = re.compile(r"http://127\.0\.0\.1:\d+")
_MILLISECONDS = re.compile(r'("\w*(?:_ms|Ms|Millis|\bduration)":)[\d.]+')
_LONGEST = 1200


def recorded(name: str) -> str:
    """Return the stream called ``name``."""
    return (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")


def scrubbed(stream: str) -> str:
    """Return ``stream`` without times, identifiers, addresses, long events, and the prompt."""
    kept = [line for line in stream.splitlines() if _worth_keeping(line)]
    text = "".join(f"{line}\n" for line in kept)
    for number, known in enumerate(dict.fromkeys(_UUID.findall(text))):
        text = text.replace(known, f"00000000-0000-0000-0000-{number:012}")
    text = _TIME.sub("2026-01-01T00:00:00.000Z", text)
    return _MILLISECONDS.sub(r"\g<1>1", _URL.sub("http://server", text))


def _worth_keeping(line: str) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return len(line) < _LONGEST
    passing = event.get("ephemeral") and event.get("type") != "model.call_failure"
    is_prompt = event.get("role") == "user" or event.get("type") == "user.message"
    short = len(line) < _LONGEST or event.get("type") == "result"  # Claude Code's grows and grows
    return short and not passing and not is_prompt
