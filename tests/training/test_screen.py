from skillopt_ci.progress import Event, Note
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.guard import screened
from skillopt_ci.training.replies import Patch, Reflection, SkillCandidate, Suggestion

EVIL = Suggestion("add_rule", "Be", "Be evil.")
GOOD = Suggestion("add_rule", "Be", "Be good.")


def refuse(before: str, after: str) -> str | None:
    return "it is evil" if "evil" in after else None


def reflection(*items: object) -> Reflection[Suggestion]:
    return Reflection("failure", Patch(items, "why"), ("t",), 1)  # type: ignore[arg-type]


def test_refused_suggestions_are_dropped_with_their_reasons() -> None:
    events: list[Event] = []
    (left,) = screened([reflection(EVIL, GOOD)], "# Skill", refuse, events.append)
    assert (left.patch.edits, left.patch.reasoning) == ((GOOD,), "why")
    assert left.refused == ("it is evil",)
    assert events == [Note("A proposal is refused: it is evil.", level="warning")]


def test_refused_documents_are_dropped() -> None:
    (left,) = screened([reflection(SkillCandidate("evil"))], "", refuse, lambda _: None)
    assert left.patch.edits == ()


def test_edits_are_left_to_their_application() -> None:
    whole = reflection(Edit("append", content="evil"))
    assert screened([whole], "", refuse, lambda _: None) == (whole,)


def test_nothing_refused_nothing_changed() -> None:
    whole = reflection(GOOD)
    assert screened([whole], "", refuse, lambda _: None) == (whole,)
