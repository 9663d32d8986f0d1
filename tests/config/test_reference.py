from collections.abc import Iterator

import pytest
from jsonschema import Draft202012Validator

from skillopt_ci.config import reference
from skillopt_ci.config.base import Section, meanings
from skillopt_ci.config.config import Config, Evaluation, GateConfig, Train
from skillopt_ci.config.reference import choices, fields, homes, influences, json_schema, locate
from skillopt_ci.config.scorers import ContainsScorer, JsonScorer
from skillopt_ci.util import sha256_of_json


def test_a_location_leaves_out_the_branches_of_unions():
    path, section, _ = locate(("scorer", "all", "of", 1, "contains", "contains", 0))
    assert (path, section) == (("scorer", "of", 1, "contains", 0), ContainsScorer)
    seed = Train.model_fields["seed"]
    assert locate(("train", "seed")) == (("train", "seed"), Train, seed)
    assert locate(("train", "sed")) == (("train", "sed"), Train, None)
    assert locate(("nothing", "below"))[0] == ("nothing", "below")


def test_fields_go_by_the_names_that_users_write():
    assert "schema" in fields(JsonScorer)


def test_homes_are_all_places_of_a_key():
    assert homes("seed") == (
        "model.target.seed",
        "model.optimizer.seed",
        "model.judge.seed",
        "train.seed",
    )
    assert homes("nowhere") == ()


def test_choices_are_found_behind_none():
    assert choices(Config.model_fields["model"].annotation) == ()
    assert choices(fields(ContainsScorer)["match"].annotation) == ("all", "any")


SCHEMA = Draft202012Validator(json_schema())


def described(section: type[Section], seen: frozenset = frozenset()) -> Iterator[tuple[str, bool]]:
    """Every key with whether it (or the section it holds) explains itself."""
    meant = meanings(section)
    for name, field in fields(section).items():
        inner = [s for s in reference.sections(field.annotation) if s not in seen]
        yield f"{section.__name__}.{name}", bool(meant.get(name) or inner or name == "type")
        for below in inner:
            yield from described(below, seen | {section, *inner})


def test_it_is_a_valid_schema():
    validator = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    assert [*validator.iter_errors(json_schema())] == []


@pytest.mark.parametrize(
    ("file", "valid"),
    [
        ({"_base_": "base.yaml"}, True),
        ({"model": {"target": {"model": "m"}}}, True),
        ({"tasks": {"path": "a"}, "scorer": {"type": "f1"}}, True),
        ({"_base_": ["a", "b"]}, False),
        ({"trian": {}}, False),
        ({"train": {"batch_size": 0}}, False),
        ({"tasks": {"path": "a", "selection": "b"}}, False),
        ({"scorer": {"type": "f2"}}, False),
        ({"scorer": {"type": "f1", "pattern": "x"}}, False),
    ],
)
def test_parts_that_a_base_completes_are_accepted_and_slips_are_marked(file, valid):
    assert SCHEMA.is_valid(file) is valid


def test_every_key_is_described():
    assert [name for name, explained in described(Config) if not explained] == []


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, ()),
        (
            {"train": {"batch_size": 16, "seed": 1}, "scorer": None},
            {"train": {"batch_size": 8, "seed": 1}, "scorer": {"type": "exact"}},
            ("scorer.type (none → exact)", "train.batch_size (16 → 8)"),
        ),
        ({}, {"a": True}, ("a (none → true)",)),
        ({"a": "x" * 100}, {"a": "y"}, ("a",)),
        ({"rollout": {"attempts": 2, "nudges": 0}}, {}, ("rollout.attempts (2 → 1)",)),
    ],
)
def test_changed_keys_are_named_with_both_values_unless_they_are_long(before, after, named):
    assert reference.changed_keys(before, after) == named


@pytest.mark.parametrize(
    "override",
    [
        "train.seed=1",
        "model.target.model=other",
        "model.target.temperature=0.5",
        "model.judge={provider: simulated, model: m}",
        "optimizer.learning_rate=5",
        "scorer={type: f1}",
        "tasks.limit=3",
        "prompts=folder",
        "rollout.attempts=2",
        "rollout.limits.steps=5",
        "rollout.solver={type: scripted}",
    ],
)
def test_what_influences_training_changes_it(load_with, override):
    assert influences(load_with("", override).config) != influences(load_with().config)


class LongerGate(GateConfig):
    margin: float = 0.0


class LongerEvaluation(Evaluation):
    gate: LongerGate = LongerGate()


class LongerConfig(Config):
    evaluation: LongerEvaluation = LongerEvaluation()


def test_a_new_option_of_the_gate_influences_training_where_it_is_set(load_with):
    """So that `replay` knows it, and hashes of configurations without it stay."""
    before = load_with().config
    after = LongerConfig.model_validate(before.model_dump(by_alias=True))
    assert sha256_of_json(influences(after)) == sha256_of_json(influences(before))
    after = after.model_copy(update={"evaluation": LongerEvaluation(gate=LongerGate(margin=0.1))})
    assert influences(after)["evaluation"]["gate"]["margin"] == 0.1


@pytest.mark.parametrize(
    "override",
    [
        "cache.enabled=false",
        "git.remote=null",
        "budget.run.calls=3",
        "gradient.analyst_workers=2",
        "rollout.retries=9",
        "rollout.events=false",
        "rollout.attempts=1",
        "train.seed=42",
        "model.target.timeout=1",
        "model.optimizer.retries=1",
        "model.target.max_concurrency=1",
        "model.target.api_key_env=KEY",
        "model.target.price={input: 1, output: 2}",
    ],
)
def test_what_does_not_leaves_it(load_with, override):
    assert influences(load_with("", override).config) == influences(load_with().config)


@pytest.mark.parametrize(
    "override", ["train.staleness=1", "schedule.ahead=likely", "evaluation.gate.subset=4"]
)
def test_retired_keys_warn_and_do_nothing(load_with, override):
    loaded = load_with("", override)
    assert loaded.config == load_with().config
    assert [override.partition("=")[0] in warning for warning in loaded.warnings] == [True]
