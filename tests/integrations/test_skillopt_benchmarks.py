"""SkillOpt's own six benchmarks on generated data: all are loaded, five are attempted.

ALFWorld's simulator (the packages alfworld and textworld, and its game files) is not installed with
the extra: its items become tasks, its rollout tells what is missing.
"""

import base64
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from environments import OpenEnvironment, attempt_now
from openpyxl import Workbook

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.model.types import ChatRequest

pytest.importorskip("skillopt", reason="the extra `skillopt` is not installed")
pytestmark = pytest.mark.integration

PROMPTS = {
    **{
        f"{name}/rollout_system.md": "Work.\n{skill_section}Use <answer></answer>."
        for name in ("searchqa", "docvqa", "livemathematicianbench", "officeqa")
    },
    "spreadsheetbench/codegen_system.md": "Write Python.",
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CODE = """```python
import openpyxl
book = openpyxl.load_workbook(INPUT_PATH)
book.active["B1"] = 4
book.save(OUTPUT_PATH)
```"""


def searchqa(folder: Path, n: int) -> None:
    items = [{"id": f"s{n}", "question": "Where?", "context": "[DOC] Rome.", "answers": ["Rome"]}]
    (folder / "items.json").write_text(json.dumps(items), encoding="utf-8")


def docvqa(folder: Path, n: int) -> None:
    picture = folder / "page.png"
    picture.write_bytes(PIXEL)
    row = {"questionId": f"d{n}", "question": "Which?", "answer": "['Rome']", "topic": "letters"}
    with (folder / "items.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*row, "image_path"])
        writer.writeheader()
        writer.writerow({**row, "image_path": str(picture)})


def livemath(folder: Path, n: int) -> None:
    choices = [{"label": label, "text": f"choice {label}"} for label in "ABC"]
    item = {
        "id": f"2026-01:{n}",
        "question": "Which choice?",
        "choices": choices,
        "correct_choice": {"label": "B", "text": "choice B"},
        "theorem_type": ["Existence", "Uniqueness"][: 1 + n % 2],
    }
    (folder / "items.json").write_text(json.dumps([item]), encoding="utf-8")


def officeqa(folder: Path, n: int) -> None:
    item = {"uid": f"o{n}", "question": "Where?", "ground_truth": "Rome", "category": "easy"}
    (folder / "items.json").write_text(json.dumps([item]), encoding="utf-8")
    (folder.parent.parent / "docs").mkdir(exist_ok=True)
    (folder.parent.parent / "docs" / "bulletin.txt").write_text("Rome.", encoding="utf-8")


def spreadsheets(folder: Path, n: int) -> None:
    where = folder.parent.parent / "books" / f"b{n}"
    where.mkdir(parents=True)
    for name, value in (("1_input.xlsx", None), ("1_answer.xlsx", 4)):
        book = Workbook()
        book.active["A1"], book.active["B1"] = 2, value
        book.save(where / name)
    item = {
        "id": f"b{n}",
        "instruction": "Put the double of A1 into B1.",
        "instruction_type": "Cell-Level Manipulation",
        "answer_position": "B1",
        "spreadsheet_path": str(where),
    }
    (folder / "items.json").write_text(json.dumps([item]), encoding="utf-8")


def alfworld(folder: Path, n: int) -> None:
    kind = ["pick_and_place", "pick_heat_then_place_in_recep"][n % 2]
    item = {"id": f"a{n}", "gamefile": f"games/{n}/game.tw-pddl", "task_type": kind}
    (folder / "items.json").write_text(json.dumps([item]), encoding="utf-8")


Fill = Callable[[Path, int], None]

ANSWERED: dict[str, tuple[str, Fill, Mapping[str, Any]]] = {
    "searchqa": ("qa", searchqa, {}),
    "docvqa": ("letters", docvqa, {}),
    "livemathematicianbench": ("Existence", livemath, {}),
    "officeqa": ("easy", officeqa, {"use_local_tools": False, "data_dirs": "ROOT/docs"}),
    "spreadsheetbench": ("Cell-Level Manipulation", spreadsheets, {"data_root": "."}),
}


@pytest.fixture
def bench(tmp_path: Path, opened: OpenEnvironment) -> Callable[..., Any]:
    def open_one(adapter: str, fill: Fill, more: Mapping[str, Any]) -> Any:
        for name, text in PROMPTS.items():
            path = tmp_path / "prompts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for number, split in enumerate(("train", "val", "test")):
            folder = tmp_path / "data" / split
            folder.mkdir(parents=True)
            fill(folder, number)
        placed = {
            key: value.replace("ROOT", str(tmp_path)) if isinstance(value, str) else value
            for key, value in more.items()
        }
        config = {"split_mode": "split_dir", "split_dir": "data", **placed}
        made = {"adapter": adapter, "config": config, "prompt_files": "prompts"}
        return opened({"type": "skillopt", **made})

    return open_one


def answer(request: ChatRequest) -> str:
    """Solve whatever is asked, having read the skill."""
    text = request.messages[-1].content
    assert "# Skill" in request.messages[0].content
    if "Python" in request.messages[0].content:
        return CODE
    letter = next((line[0] for line in text.splitlines() if line.endswith("choice B")), "Rome")
    return f"<answer>{letter}</answer>"


@pytest.mark.parametrize("adapter", ANSWERED)
def test_a_benchmark_is_attempted_and_solved(bench, adapter):
    kind, fill, more = ANSWERED[adapter]
    found = bench(adapter, fill, more)
    task = found.tasks("train")[0]
    assert task.task_type == kind
    made = attempt_now(found, task, answer)
    assert (made.score.hard, made.score.soft) == (1, 1), made.score.reason
    assert len(found.tasks("selection")) == len(found.tasks("test")) == 1


def test_pictures_reach_the_target(bench):
    found = bench("docvqa", docvqa, {})
    made = attempt_now(found, found.tasks("selection")[0], answer, stage="selection")
    (picture,) = made.attempt.messages[1].images
    assert base64.b64decode(picture.data) == PIXEL


def test_alfworlds_items_have_the_types_of_their_games(bench):
    found = bench("alfworld", alfworld, {})
    kinds = [found.tasks(split)[0].task_type for split in ("train", "selection", "test")]
    assert kinds == ["pick_and_place", "pick_heat_then_place_in_recep", "pick_and_place"]
    with pytest.raises(EnvironmentFailure, match=r"No module named '(alf|omega|gym)"):
        attempt_now(found, found.tasks("train")[0], answer)
