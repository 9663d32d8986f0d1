from skillopt_ci.config.reference import changed_keys


def test_nothing_changed() -> None:
    assert changed_keys({"a": {"b": [1]}}, {"a": {"b": [1]}}) == ()


def test_keys_are_named_with_both_values() -> None:
    before = {"train": {"batch_size": 16, "seed": 1}, "scorer": None}
    after = {"train": {"batch_size": 8, "seed": 1}, "scorer": {"type": "exact"}}
    assert changed_keys(before, after) == (
        "scorer.type (none → exact)",
        "train.batch_size (16 → 8)",
    )


def test_a_key_that_came_or_went_has_no_other_value() -> None:
    assert changed_keys({}, {"a": True}) == ("a (none → true)",)


def test_a_long_value_is_not_shown() -> None:
    assert changed_keys({"a": "x" * 100}, {"a": "y"}) == ("a",)
