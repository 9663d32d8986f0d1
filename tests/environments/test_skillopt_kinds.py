"""What type an item is of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.integrations.skillopt.adapter import kind_of

TASKS = ["pick_and_place", "pick_two_obj_and_place", "look_at_obj_in_light"]
NAMES = st.text(st.characters(categories=["Ll", "Lu", "Nd"]), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("item", "declared", "expected"),
    [
        ({"task_type": "stated"}, ["qa"], "stated"),
        ({"question": "Where?"}, ["qa"], "qa"),
        ({"gamefile": "x/pick_two_obj_and_place-Mug-1/game.tw"}, TASKS, "pick_two_obj_and_place"),
        (
            {"instruction_type": "Sheet-Level Manipulation"},
            ["cell_level", "sheet_level"],
            "sheet_level",
        ),
        ({"theorem_type": ["Uniqueness", "Existence"]}, ["Existence"] * 2, "Existence"),
        ({"category": "level_2 hard"}, ["level", "level_2"], "level_2"),
        ({"question": "Is pick_and_place a type?"}, TASKS, ""),
        ({"instruction_type": "other"}, ["cell_level", "sheet_level"], ""),
        ({"gamefile": "x"}, [], ""),
    ],
)
def test_the_type_of_an_item(item: dict[str, object], declared: list[str], expected: str) -> None:
    assert kind_of(item, declared) == expected


@given(st.dictionaries(NAMES, NAMES | st.lists(NAMES) | st.integers()), st.lists(NAMES, min_size=2))
def test_a_type_is_stated_or_declared(item: dict[str, object], declared: list[str]) -> None:
    assert kind_of(item, declared) in {"", str(item.get("task_type") or ""), *declared}
