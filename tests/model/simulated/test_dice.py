from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import Dice, content_key
from skillopt_ci.messages import Message


@given(st.integers(), st.text(), st.text())
def test_a_roll_lies_between_0_and_1_and_can_be_repeated(seed: int, key: str, name: str) -> None:
    roll = Dice(seed, key).roll(name)
    assert 0 <= roll < 1
    assert roll == Dice(seed, key).roll(name)


def test_seed_key_and_name_each_change_the_roll() -> None:
    rolls = {Dice(0, "k").roll("n"), Dice(1, "k").roll("n"), Dice(0, "l").roll("n")}
    assert len({*rolls, Dice(0, "k").roll("m")}) == 4


def test_chances_come_about_as_often_as_they_should() -> None:
    dice = Dice(0, "many")
    hits = sum(dice.chance(str(number), 0.2) for number in range(5_000))
    assert 900 < hits < 1_100


def test_every_option_gets_picked() -> None:
    dice = Dice(0, "picks")
    assert {dice.pick(str(number), "abc") for number in range(50)} == set("abc")


def test_the_key_depends_on_roles_texts_and_attempt() -> None:
    asked = (Message("user", "hello"),)
    keys = {
        content_key(asked),
        content_key(asked, attempt=1),
        content_key((Message("system", "hello"),)),
        content_key((Message("user", "hello!"),)),
        content_key((*asked, *asked)),
    }
    assert len(keys) == 5
