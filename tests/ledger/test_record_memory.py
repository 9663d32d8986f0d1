import pytest
from pydantic import ValidationError

from skillopt_ci.ledger.folder import RecordMemory
from skillopt_ci.ledger.records import Record


class Apple(Record):
    weight: int


class Pear(Record):
    weight: int


TEXT = Apple(weight=3).model_dump_json()


def test_a_text_is_read_once() -> None:
    memory = RecordMemory()
    first = memory.read(Apple, TEXT)
    assert memory.read(Apple, TEXT) is first
    assert first == Apple(weight=3)


def test_another_text_is_another_record() -> None:
    memory = RecordMemory()
    assert memory.read(Apple, TEXT).weight == 3
    assert memory.read(Apple, TEXT.replace("3", "4")).weight == 4


def test_the_same_text_may_be_a_record_of_another_kind() -> None:
    memory = RecordMemory()
    kinds = [type(memory.read(kind, TEXT)) for kind in (Apple, Pear, Apple)]
    assert kinds == [Apple, Pear, Apple]


def test_what_is_no_record_is_refused_each_time() -> None:
    memory = RecordMemory()
    for _ in range(2):
        with pytest.raises(ValidationError, match="weight"):
            memory.read(Apple, "{}")


def test_the_oldest_record_goes_where_there_is_no_room() -> None:
    texts = [Apple(weight=number).model_dump_json() for number in (1, 2, 3)]
    memory = RecordMemory(room=2 * len(texts[0]))
    first = [memory.read(Apple, text) for text in texts]
    again = [memory.read(Apple, text) for text in texts[1:]]
    assert all(one is other for one, other in zip(first[1:], again, strict=True))
    assert memory.read(Apple, texts[0]) is not first[0]
