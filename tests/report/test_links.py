import pytest
from run_views import REPOSITORY, SHA

from skillopt_ci.report.text import Links


def test_commits_are_linked_by_their_short_hash() -> None:
    assert Links(REPOSITORY).commit(SHA) == f"[{SHA[:7]}]({REPOSITORY}/commit/{SHA})"


def test_branches_are_compared_whatever_their_names() -> None:
    link = Links(REPOSITORY).compare("a b", "skillopt/x", "changes")
    assert link == f"[changes]({REPOSITORY}/compare/a%20b...skillopt%2Fx)"


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        (f"{REPOSITORY}/pull/1#discussion_r2", True),
        ("https://evil.example/", False),
        (f"{REPOSITORY}.evil.example/", False),
        (f"{REPOSITORY}/pull/1) [x](https://evil.example", False),
        (f"{REPOSITORY}/?q=<b>", False),
    ],
)
def test_an_address_from_a_record_is_linked_only_within_the_repository(
    address: str, linked: bool
) -> None:
    assert ("](" in Links(REPOSITORY).within(address, "ada")) is linked


def test_nothing_is_linked_without_an_address() -> None:
    links = Links()
    assert links.commit(SHA) == f"<code>{SHA[:7]}</code>"
    assert links.compare("a", "b", "changes") == "changes"
    assert links.run("workflow run") == ""
