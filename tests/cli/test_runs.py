import pytest
import yaml
from command_line import Cli

from tests.conftest import Checkout


def listed(checkout: Checkout, *runs: tuple[str, str]) -> None:
    """Let the configuration list these runs, each with its skill."""
    file = checkout.folder / "skillopt.yaml"
    whole = yaml.safe_load(file.read_text(encoding="utf-8"))
    common = {key: value for key, value in whole.items() if key not in ("run", "skill")}
    entries = [{"run": run, "skill": skill} for run, skill in runs]
    file.write_text(yaml.safe_dump({**common, "runs": entries}), encoding="utf-8")
    for _, skill in runs:
        checkout.write(skill, "# Items\n")
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "--allow-empty", "-m", "List runs")


def named(checkout: Checkout, cli: Cli, *words: str) -> str:
    done = cli(checkout.folder, *words, "config")
    assert done.code == 0, done.err
    return str(yaml.safe_load(done.out)["run"])


def test_a_second_file_names_a_run_of_its_own(checkout, cli):
    for name in ("one", "two"):
        more = ("-c", f"{name}.yaml", "--skill", f"skills/{name}/SKILL.md")
        assert cli(checkout.folder, "init", "--yes", *more).code == 0
    assert len({named(checkout, cli, "-c", f"{name}.yaml") for name in ("one", "two")}) == 2


def test_a_file_does_not_take_the_name_of_a_run_elsewhere(checkout, cli):
    assert cli(checkout.folder, "init", "--yes", "-c", "demo.yaml", "--skill", "b.md").code == 0
    assert named(checkout, cli, "-c", "demo.yaml") == "demo-2"


CLASHES = {
    "the same skill": (("a", "skills/SKILL.md"), ("b", "skills/SKILL.md")),
    "names that differ in case": (("a", "skills/SKILL.md"), ("A", "skills/other/SKILL.md")),
}


@pytest.mark.parametrize("command", ["check", "estimate", "config"])
@pytest.mark.parametrize("clash", CLASHES)
def test_runs_that_clash_are_refused(checkout, cli, clash, command):
    listed(checkout, *CLASHES[clash])
    assert cli(checkout.folder, "--run", "a", command).code == 2


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(("--run", "b"), "step --run b"), (("-c", "other.yaml"), "step -c other.yaml")],
)
def test_what_is_said_to_come_next_names_the_run(checkout, cli, words, wanted):
    if words[0] == "--run":
        listed(checkout, ("a", "skills/SKILL.md"), ("b", "skills/other/SKILL.md"))
    else:
        checkout.git("mv", "skillopt.yaml", "other.yaml")
        checkout.git("commit", "--quiet", "-m", "Move")
    done = cli(checkout.folder, *words, "check")
    assert done.code == 0, done.err
    assert "Ready to train" in done.out
    assert wanted in done.out
