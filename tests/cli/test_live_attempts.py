"""What a run is at, by the record that it is writing."""

import json
from pathlib import Path

from skillopt_ci.cli.report import LiveAttempts


def ended(stage: str, hard: float) -> str:
    return json.dumps({"v": 1, "type": "attempt_ended", "stage": stage, "hard": hard}) + "\n"


def test_without_a_record_nothing_is_told(tmp_path: Path) -> None:
    assert LiveAttempts(tmp_path / "none").told() == ""


def test_attempts_are_counted_as_they_are_written(tmp_path: Path) -> None:
    file, live = tmp_path / "1.jsonl", LiveAttempts(tmp_path)
    file.write_text(ended("rollout", 1.0) + ended("rollout", 0.5), encoding="utf-8")
    assert live.told() == "2 attempts at training tasks (1 solved)"
    line = ended("selection", 1.0)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"type": "asked"}\n[1, "attempt_ended"]\n{"attempt_ended"\n' + line[:20])
    assert live.told() == "2 attempts at training tasks (1 solved)"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(line[20:])
    assert live.told() == (
        "2 attempts at training tasks (1 solved), 1 attempt at selection tasks (1 solved)"
    )


def test_the_next_piece_of_work_is_counted_from_zero(tmp_path: Path) -> None:
    live = LiveAttempts(tmp_path)
    (tmp_path / "1.jsonl").write_text(ended("rollout", 1.0), encoding="utf-8")
    assert live.told()
    (tmp_path / "2.jsonl").write_text(ended("race", 0.0), encoding="utf-8")
    assert live.told() == "1 attempt at races of edits (0 solved)"
