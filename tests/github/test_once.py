import pytest

from skillopt_ci.github.client import AnswerLost, Refused, create_once


class Shop:
    """Makes things; some orders are lost before, some after they were carried out."""

    def __init__(self, *fates: str) -> None:
        self.fates = list(fates)
        self.made: list[str] = []
        self.waits: list[float] = []

    def create(self) -> str:
        fate = self.fates.pop(0) if self.fates else "done"
        if fate in ("done", "made"):
            self.made.append("thing")
        if fate != "done":
            raise AnswerLost(fate)
        return "thing"

    def order(self) -> str:
        return create_once(self.create, lambda: next(iter(self.made), None), self.waits.append)


@pytest.mark.parametrize("fates", [(), ("lost",), ("made",), ("lost", "lost"), ("lost", "made")])
def test_exactly_one_is_made(fates: tuple[str, ...]) -> None:
    shop = Shop(*fates)
    assert shop.order() == "thing"
    assert shop.made == ["thing"]
    assert len(shop.waits) == len(fates)


def test_it_is_given_up_after_three_attempts() -> None:
    shop = Shop("lost", "lost", "lost")
    with pytest.raises(AnswerLost):
        shop.order()
    assert shop.made == []


def test_a_refusal_is_final() -> None:
    def refuse() -> str:
        raise Refused("no")

    with pytest.raises(Refused):
        create_once(refuse, lambda: None, [].append)
