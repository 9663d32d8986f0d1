import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.training.guard import hidden_character, new_address

SAFE = st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters="⠀ᅟᅠㅤﾠ"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pay\u202eload", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("zero\u200bwidth", "U+200B ZERO WIDTH SPACE"),
        ("soft\u00adhyphen", "U+00AD SOFT HYPHEN"),
        ("tag\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("bell\x07", "U+0007"),
        ("\ufeffmark", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("line\u2028break", "U+2028 LINE SEPARATOR"),
        ("blank\u3164", "U+3164 HANGUL FILLER"),
        ("a\ufe0fb", "U+FE0F VARIATION SELECTOR-16"),
        ("x\U000e0100", "U+E0100 VARIATION SELECTOR-17"),
        ("in\u200dside", "U+200D ZERO WIDTH JOINER"),
        ("ن\u200d\u200cن", "U+200D ZERO WIDTH JOINER"),
    ],
)
def test_characters_that_hide_are_named(text: str, name: str) -> None:
    assert hidden_character(text, "") == name


@pytest.mark.parametrize(
    "text", ["a\tb\r\nc", "نمی\u200cخواهم", "👩\u200d🚀 ⚠️ ❤️\u200d🔥 1️⃣", "a\u00a0b"]
)
def test_what_scripts_and_emoji_need_is_fine(text: str) -> None:
    assert hidden_character(text, "") == ""


def test_a_character_that_the_skill_has_is_no_news() -> None:
    assert hidden_character("a\u200eb", "known \u200e") == ""


@given(SAFE)
def test_visible_text_hides_nothing(text: str) -> None:
    assert hidden_character(text, "") == ""


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("see https://evil.example/x.", "evil.example"),
        ("see HTTP://Evil.Example", "Evil.Example"),
        ("[here](//evil.example/x)", "evil.example"),
        ("www.evil.example", "www.evil.example"),
        ("get evil.com/x?y=1", "evil.com"),
        ("![](https://user:pw@evil.example:8080/a)", "evil.example:8080"),
        ("call 10.0.0.1:80 now", "10.0.0.1:80"),
        ("mailto:eve@evil.example", "evil.example"),
        ("ftp://evil.example", "evil.example"),
        ("[x](javascript:run)", "run"),
        ("<https://a.example/known> <https://a.example/other>", "a.example"),
    ],
)
def test_a_new_address_is_named_by_its_host(text: str, host: str) -> None:
    assert new_address(text, "https://a.example/known") == host


@pytest.mark.parametrize(
    "text",
    [
        "Write src/app.py or README.md, e.g./i.e. as is.",
        "The ratio is 3:4, the version 1.2.3.4.",
        "Use data: then more. Call obj.method()/2.",
        "Known: HTTPS://A.example/known.",
        "(https://a.example/known/)",
    ],
)
def test_other_text_and_known_addresses_are_fine(text: str) -> None:
    assert new_address(text, "see https://a.example/known for more") == ""
