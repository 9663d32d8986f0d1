"""Reading of replies that are long on purpose, or by mistake."""

from __future__ import annotations

import json
import time


def test_many_fences_are_read_in_linear_time() -> None:
    from skillopt_ci.training.replies import extract_json

    text = "```\n" * 6_000 + '{"a": 1}\n' * 3_000
    began = time.process_time()
    assert extract_json(text) == {"a": 1}
    # Fifty times what one pass takes, a fifth of what the square does.
    assert time.process_time() - began < 0.2


def test_a_reply_holds_a_limited_number_of_edits() -> None:
    from skillopt_ci.training.replies import EDITS, WireError, parse_analyst

    edits = [{"op": "append", "content": f"- rule {number}"} for number in range(20_000)]
    text = json.dumps({"patch": {"reasoning": "", "edits": edits}})
    try:
        kept = len(parse_analyst(EDITS, text, "failure", 8).patch.edits)
    except WireError:
        kept = 0
    assert kept <= 1_000
