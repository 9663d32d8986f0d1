"""The floors of docs/architecture.md, held by the imports that the package really has."""

from script_module import ROOT, script


def test_floors_and_size_of_the_house():
    stats = script("stats")
    modules = stats.read(ROOT / stats.PACKAGE, stats.PACKAGE)
    measured = stats.bonds(modules, (ROOT / stats.FLOORS).read_text(encoding="utf-8"))
    assert measured["upward"] == [], f"import the lower floor instead, or move it: {stats.FLOORS}"
    assert measured["circles_at_load"] == []
    # it may not grow past what the plan allows on the way to it
    assert len(modules) <= 225
    assert len(list((ROOT / "skillopt_ci" / "training").glob("*.py"))) <= 37
    assert len(measured["layers_passing_on"]) <= 4
