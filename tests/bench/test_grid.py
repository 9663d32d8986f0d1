from bench.grid import COUNT, Row, cost_of, table, worlds
from bench.world.world import Parameters, make_world


def test_worlds_are_the_same_each_time_and_spread_over_each_dimension():
    drawn = worlds(2)
    assert drawn == worlds(2) != worlds(1)
    assert len(drawn) == COUNT
    # a Latin hypercube has one world in each 24th of a dimension
    assert len({int(one["harmful"] / 0.6 * COUNT) for one in drawn}) == COUNT
    assert len({int((one["harm"] - 0.3) / 1.5 * COUNT) for one in drawn}) == COUNT
    assert all(20 <= one["selection"] <= 200 for one in drawn)


def test_all_right_rules_are_better_than_none_in_every_world():
    for parameters in worlds(2):
        world = make_world(0, Parameters(**parameters))
        assert world.true_score(world.best_skill()) > world.true_score("") + 0.05


def test_a_question_to_the_optimizer_costs_five_attempts_and_tests_are_free():
    calls = {"target/train": 40, "target/selection": 20, "optimizer/merge": 2, "target/test": 99}
    assert cost_of(calls) == 70


def test_the_lead_is_over_the_better_of_the_others_in_each_world():
    def row(system: str, world: int, true: float) -> Row:
        return Row(system, world, seed=0, cost=100, start=0.2, true=true, ceiling=0.9)

    rows = [row("skillopt", 0, 0.5), row("gepa8", 0, 0.4), row("ours", 0, 0.6)]
    rows += [row("skillopt", 1, 0.3), row("gepa8", 1, 0.7), row("ours", 1, 0.6)]
    ours = table(rows).splitlines()[-1].split()
    assert ours[0] == "ours"
    assert [float(cell) for cell in ours[-3:]] == [0.0, 0.2, -0.1]
