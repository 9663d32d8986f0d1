from skillopt_ci.config.config import Config, Train
from skillopt_ci.config.reference import choices, fields, homes, locate
from skillopt_ci.config.scorers import ContainsScorer, JsonScorer


def test_a_location_leaves_out_the_branches_of_unions() -> None:
    place = locate(("scorer", "all", "of", 1, "contains", "contains", 0))
    assert place.path == ("scorer", "of", 1, "contains", 0)
    assert place.section is ContainsScorer


def test_a_location_knows_its_field() -> None:
    place = locate(("train", "seed"))
    assert (place.section, place.field) == (Train, Train.model_fields["seed"])


def test_an_unknown_key_has_no_field() -> None:
    assert locate(("train", "sed")).field is None
    assert locate(("nothing", "below")).path == ("nothing", "below")


def test_fields_go_by_the_names_that_users_write() -> None:
    assert "schema" in fields(JsonScorer)


def test_homes_are_all_places_of_a_key() -> None:
    assert homes("seed") == (
        "model.target.seed",
        "model.optimizer.seed",
        "model.judge.seed",
        "train.seed",
    )
    assert homes("nowhere") == ()


def test_choices_are_found_behind_none() -> None:
    effort = Config.model_fields["model"].annotation
    assert choices(effort) == ()
    assert choices(fields(ContainsScorer)["match"].annotation) == ("all", "any")
