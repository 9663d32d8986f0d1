import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from script_module import script

from skillopt_ci.action.inputs import Command, Inputs, read_inputs
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.cli.main import COMMANDS
from skillopt_ci.config.loading import load
from skillopt_ci.skill.validation import problems
from skillopt_ci.tasks.loading import load_splits

ROOT = Path(__file__).parents[2]


def read(name: str | Path) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_generated_parts_are_up_to_date():
    for name, text in script("action_manifests").files(ROOT).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, "scripts/action_manifests.py"


INPUTS = read("action.yml")["inputs"]


@pytest.mark.parametrize("name", ["action.yml", "composite/action.yml", "docker/action.yml"])
def test_a_manifest_has_the_inputs_and_outputs_of_the_code(name):
    assert list(read(name)["inputs"]) == [one.name for one in fields(Inputs)]
    assert list(read(name)["outputs"]) == list(Outputs().by_name())


def test_the_defaults_and_commands_of_the_code_are_those_of_the_manifest():
    given = {f"INPUT_{name.upper()}": one["default"] for name, one in INPUTS.items()}
    # only the runner can evaluate an expression
    assert given.pop("INPUT_TOKEN") == "${{ github.token }}"
    assert read_inputs(given) == Inputs()
    assert set(Command) - COMMANDS.keys() == {Command.PROPOSE}  # which is a step
    assert [name for name in Command if f"`{name}`" not in INPUTS["command"]["description"]] == []


def test_the_marketplace_gets_its_branding_and_a_shell_its_inputs():
    assert set(read("action.yml")["branding"]) == {"icon", "color"}
    assert len(read("action.yml")["description"]) <= 125
    # a shell would lose dashes
    assert all(name.isidentifier() for name in INPUTS)
    assert len(INPUTS) <= 12


# Our own skill can be trained by our own workflow.

FOLDER = ROOT / ".agents" / "skills" / "operate-skillopt-ci"


def test_it_is_in_order_and_the_workflow_has_the_key_that_it_asks_for():
    loaded = load(FOLDER / "skillopt.yaml")
    splits = load_splits(loaded.config.tasks, loaded.root)
    assert loaded.warnings == ()
    assert min(map(len, (splits.train, splits.selection, splits.test))) >= 10
    skill = FOLDER / loaded.config.skill
    assert problems(skill.read_text(encoding="utf-8"), skill) == ()
    steps = read(".github/workflows/train-own-skill.yml")["jobs"]["train"]["steps"]
    ours = next(step for step in steps if step.get("uses") == "./")
    assert ROOT / ours["with"]["config"] == FOLDER / "skillopt.yaml"
    assert loaded.config.model.target.api_key_env in ours["env"]


# The workflows that users start from, and our own.

EXAMPLES = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = "skillopt-ci/skillopt-ci@v0"


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in read(file)["jobs"].values() for step in job["steps"]]


def named(files: list[Path]) -> Any:
    return pytest.mark.parametrize("file", files, ids=lambda file: file.name)


@named(EXAMPLES)
def test_an_example_gives_inputs_and_reads_outputs_that_exist(file):
    ours = [step for step in steps(file) if step.get("uses") == ACTION]
    assert ours
    for step in ours:
        assert set(step["with"]) <= set(INPUTS)
        command = step["with"].get("command", "step")
        assert command.startswith("${{") or command in list(Command)
    outputs = r"steps\.(?:plan|train|report)\.outputs\.([\w-]+)"
    named = re.findall(outputs, file.read_text(encoding="utf-8"))
    assert set(named) <= set(Outputs().by_name())
    kept = [one["with"] for one in steps(file) if "/upload-artifact@" in one.get("uses", "")]
    # what an earlier attempt kept is replaced
    assert all(given["overwrite"] is True for given in kept if "name" in given)


@named(EXAMPLES + OWN)
def test_every_job_has_least_permissions_and_a_timeout(file):
    workflow = read(file)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"]
        assert job["timeout-minutes"] <= 180


@named(EXAMPLES + OWN)
def test_every_other_action_is_pinned_to_a_commit_and_no_checkout_leaves_a_token(file):
    for line in file.read_text(encoding="utf-8").splitlines():
        if "uses:" in line and not any(own in line for own in (ACTION, "uses: ./ ", "$/")):
            assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    checkouts = [step for step in steps(file) if "actions/checkout@" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@named([file for file in EXAMPLES if file.name not in ("evaluate.yml", "pages.yml")])
def test_what_trains_queues_and_is_never_cancelled(file):
    workflow = read(file)
    queue = workflow.get("concurrency") or workflow["jobs"]["command"]["concurrency"]
    assert workflow["jobs"].get("command", {"cache-mode": "write"})["cache-mode"] == "write"
    assert "skillopt-train" in queue["group"]
    assert (queue["cancel-in-progress"], queue["queue"]) == (False, "max")


@named([file for file in EXAMPLES if "train.outputs" in file.read_text(encoding="utf-8")])
def test_the_page_is_kept_as_it_is_and_linked(file):
    by_name = {step.get("name"): step for step in steps(file)}
    kept, linked = by_name["Keep the run as a page"], by_name["Link the page"]
    assert kept["with"]["path"] == "${{ steps.train.outputs.page }}"
    assert kept["with"]["archive"] is False
    assert kept["if"].startswith("always()")
    assert "${{" not in linked["run"]


def test_pages_are_published_by_a_job_that_can_do_nothing_else():
    page = read("examples/workflows/pages.yml")
    scheduled = [one["name"] for one in map(read, EXAMPLES) if "schedule" in one[True]]
    # YAML 1.1 takes `on` for a boolean
    assert sorted(page[True]["workflow_run"]["workflows"]) == sorted(scheduled)
    found = page["jobs"]
    assert found["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert found["report"]["permissions"] == {"contents": "read"}
    assert not any("checkout" in step["uses"] for step in found["publish"]["steps"])


@pytest.mark.parametrize("folder", ["examples", ".github"])
def test_a_site_is_named_after_the_attempt_that_made_it(folder):
    # what an earlier attempt left stays; two of a name cannot be published
    jobs = read(f"{folder}/workflows/pages.yml")["jobs"]
    name = "github-pages-${{ github.run_attempt }}"
    assert jobs["report"]["outputs"]["site"] == name
    assert jobs["report"]["steps"][-1]["with"]["name"] == name
    deploy = jobs["publish"]["steps"][-1]["with"]
    assert deploy == {"artifact_name": "${{ needs.report.outputs.site }}"}


def test_runs_that_train_side_by_side_share_no_queue_and_no_cache():
    text = (ROOT / "examples" / "workflows" / "train-many.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["train"]
    # one configuration that cannot be read stops no other; GitHub fails at a matrix without jobs
    assert job["if"].startswith("!cancelled() && needs.discover.outputs.matrix && ")
    assert job["if"].endswith("matrix).include[0] != null")
    queue = job["concurrency"]
    assert queue["group"] == "skillopt-train-${{ matrix.run }}"
    assert (queue["cancel-in-progress"], queue["queue"]) == (False, "max")
    # as no run is called: a job that waits for its own workflow run is cancelled
    assert yaml.safe_load(text)["concurrency"]["group"] == "skillopt-train/all"
    keys = re.findall(r"(?:restore-keys|key): (\S+)", text)
    assert len(keys) == 3
    assert all(key.startswith("skillopt-calls-${{") for key in keys)
    # A prefix that no other run's name goes on with.
    assert text.count("skillopt-calls-${{ matrix.run }}/") == 3
    text = (ROOT / ".github" / "workflows" / "train.yml").read_text(encoding="utf-8")
    assert text.count("skillopt-calls-${{ inputs.config }}/${{ inputs.run }}/") == 5


def test_a_pull_requests_head_is_never_checked_out():
    for file in EXAMPLES:
        assert "head.sha" not in file.read_text(encoding="utf-8")
    evaluate = steps(ROOT / "examples" / "workflows" / "evaluate.yml")
    base = "${{ github.event.pull_request.base.sha || github.event.merge_group.base_sha }}"
    assert evaluate[0]["with"]["ref"] == base


def test_what_works_for_training_may_ask_whether_it_is_paused():
    jobs = [
        job
        for file in EXAMPLES
        for job in read(file)["jobs"].values()
        for step in job.get("steps", ())
        if (command := step.get("with", {}).get("command")) in list(Command)
        and Command(command).works_for_training
    ]
    assert len(jobs) > 5
    assert all("pull-requests" in job["permissions"] for job in jobs)


def test_every_pull_request_and_merge_group_gets_the_check_that_is_required():
    events = read("examples/workflows/evaluate.yml")[True]
    assert events["merge_group"] is None
    # GitHub's own three, and another base
    changed = {"opened", "synchronize", "reopened", "edited"}
    assert set(events["pull_request"]["types"]) == changed
    assert set(events["pull_request_target"]["types"]) == changed | {"labeled"}
