import pytest

from skillopt_ci.skill.regions import LEADING_WORDS, semantic_density


@pytest.mark.parametrize("text", ["", "  \n", "— … !"])
def test_text_without_words_has_none(text: str) -> None:
    assert semantic_density(text) == 0.0


def test_density_is_the_share_of_leading_words_in_any_case() -> None:
    assert semantic_density("You must NEVER do it, only that.") == 3 / 7


def test_regions_do_not_count() -> None:
    text = "Always so\n\n<!-- SLOW_UPDATE_START -->\nMUST MUST\n<!-- SLOW_UPDATE_END -->\n"
    assert semantic_density(text) == 1 / 2


def test_a_lone_marker_is_removed_by_itself() -> None:
    assert semantic_density("<!-- APPENDIX_START -->\nMUST do") == 1 / 2


def test_words_can_be_chosen() -> None:
    assert semantic_density("Check it. Never.", ["CHECK"]) == 1 / 3


def test_every_default_word_counts() -> None:
    assert semantic_density(" ".join(LEADING_WORDS)) == 1.0


def test_parts_of_words_do_not_count() -> None:
    assert semantic_density("mustard onlyness") == 0.0
