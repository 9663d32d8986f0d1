"""The floors of docs/architecture.md, held by the imports that the package really has."""

import re

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


def test_the_trainer_s_first_page_names_all_its_modules():
    folder = ROOT / "skillopt_ci" / "training"
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    page = (folder / "__init__.py").read_text(encoding="utf-8")
    assert {*re.findall(r"``(\w+)``", page)} == modules
