import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from bench.outcome import Outcome
from bench.serving import ROOT


def a_run(system: str, true: float) -> dict[str, object]:
    return asdict(
        Outcome(
            system=system,
            seed=0,
            start=0.3,
            true=true,
            accepted=1,
            worse_accepted=0,
            rejected=1,
            better_rejected=0,
            ungated=0,
            worse_ungated=0,
            calls={"target/train": 40},
            tokens={},
            seconds=1.0,
        )
    )


def verdicts(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.verdicts", *map(str, arguments)]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.integration
def test_the_other_systems_runs_can_be_taken_from_an_earlier_report(tmp_path):
    runs = [a_run("skillopt", 0.5), a_run("gepa", 0.6), a_run("strict", 0.9)]
    earlier = tmp_path / "verdicts.json"
    earlier.write_text(json.dumps({"runs": runs}))
    out = tmp_path / "out"
    done = verdicts("--out", out, "--reuse", earlier, "--without-ours")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["skillopt", "1"],
        ["gepa", "1"],
    ]
    assert [one["true"] for one in json.loads((out / "verdicts.json").read_text())["runs"]] == [
        0.5,
        0.6,
    ]


@pytest.mark.integration
def test_ours_is_run_in_the_variants_that_are_named(tmp_path):
    settings = json.dumps({"train": {"num_epochs": 1, "batch_size": 80}})
    done = verdicts(
        "--out", tmp_path, "--without-others", "--seeds", 1, "--ours", f"quick={settings}"
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "verdicts.json").read_text())["runs"]
    assert (run["system"], run["seed"]) == ("quick", 0)
    assert 0 < run["true"] < 1


@pytest.mark.integration
def test_the_worlds_own_parameters_can_be_set(tmp_path):
    quick = json.dumps({"train": {"num_epochs": 1, "batch_size": 80}})
    easy = json.dumps({"base": 4.0, "difficulty_sd": 0.1})
    done = verdicts(
        "--out", tmp_path, "--without-others", "--seeds", 1, "--ours", f"a={quick}",
        "--world", easy, "--http",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "verdicts.json").read_text())["runs"]
    assert run["start"] > 0.9
