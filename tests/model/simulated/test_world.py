from collections import Counter

from skillopt_ci.demo.models import (
    LEDGER_HOUSE_STYLE,
    LedgerTask,
    generate_notes,
    ledger_exercised,
    ledger_line,
    read_note,
)


def _exercised(task: LedgerTask) -> tuple[str, ...]:
    note = read_note(task.prompt)
    assert note is not None
    return ledger_exercised(note)


def test_notes_and_ids_are_distinct() -> None:
    tasks = generate_notes(7, 300)
    assert len({task.prompt for task in tasks}) == len({task.id for task in tasks}) == 300


def test_more_tasks_begin_with_the_same_tasks() -> None:
    assert generate_notes(7, 40)[:10] == generate_notes(7, 10)


def test_another_seed_gives_other_tasks() -> None:
    shared = {task.prompt for task in generate_notes(1, 100)} & {
        t.prompt for t in generate_notes(2, 100)
    }
    assert len(shared) < 3


def test_references_follow_from_what_the_prompt_says() -> None:
    for task in generate_notes(3, 200):
        note = read_note(task.prompt)
        assert note is not None
        assert ledger_line(note, LEDGER_HOUSE_STYLE) == task.reference


def test_tasks_differ_in_difficulty_and_cover_every_convention() -> None:
    shown = [_exercised(task) for task in generate_notes(3, 200)]
    assert {len(names) for names in shown} == {1, 2, 3, 4, 5, 6}
    counts = Counter(name for names in shown for name in names)
    assert counts.keys() == LEDGER_HOUSE_STYLE
    assert min(counts.values()) >= 20
