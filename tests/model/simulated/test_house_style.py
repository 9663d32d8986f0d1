import pytest

from skillopt_ci.demo.models import (
    HOUSE_STYLE_BY_NAME,
    LEDGER_CONVENTIONS,
    PLATITUDES,
    Convention,
    Stance,
)

RULES = [(c, rule) for c in LEDGER_CONVENTIONS for rule in c.rules]


def _taken(statement: str) -> dict[str, Stance]:
    stances = {c.name: c.stance(statement) for c in LEDGER_CONVENTIONS}
    return {name: stance for name, stance in stances.items() if stance is not None}


@pytest.mark.parametrize(("convention", "rule"), RULES)
def test_a_rule_speaks_for_its_own_convention_only(convention: Convention, rule: str) -> None:
    assert _taken(rule) == {convention.name: "for"}


@pytest.mark.parametrize("convention", LEDGER_CONVENTIONS, ids=lambda c: c.name)
def test_a_harmful_rule_speaks_against_its_own_convention_only(convention: Convention) -> None:
    assert _taken(convention.harmful) == {convention.name: "against"}


@pytest.mark.parametrize("text", PLATITUDES)
def test_a_platitude_says_nothing(text: str) -> None:
    assert _taken(text) == {}


@pytest.mark.parametrize(
    ("name", "paraphrase"),
    [
        ("separator", "Fields are delimited by a pipe."),
        ("date", "All dates must be ISO 8601"),
        ("vendor", "The SUPPLIER goes in UPPERCASE"),
        ("currency", "The ISO currency symbol precedes the number, not after it."),
        ("decimals", "use 2 decimal places"),
        ("grouping", "Never use thousands separators"),
        ("refund", "money back is booked as a negative number"),
        ("category", "Abbreviate categories"),
        ("reference", "zero-pad refs to 6 digits"),
        ("tax", "Tax rates: VAT19 rather than 19% VAT"),
        ("department", "Use CC for the department"),
        ("quarter", "e.g. Q2"),
    ],
)
def test_paraphrases_are_understood(name: str, paraphrase: str) -> None:
    assert HOUSE_STYLE_BY_NAME[name].stance(paraphrase) == "for"


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("date", "Do not use ISO dates."),
        ("date", "Dates stay as written in the note."),
        ("vendor", "Never write the vendor in capitals."),
        ("currency", "The currency comes after the amount."),
        ("grouping", "Use thousands separators."),
        ("reference", "Leave the reference as given."),
    ],
)
def test_contradictions_are_understood(name: str, statement: str) -> None:
    assert HOUSE_STYLE_BY_NAME[name].stance(statement) == "against"
