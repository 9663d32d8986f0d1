"""Commands as lists, and images without containers."""

from __future__ import annotations

import json

import pytest
from command_line import in_process, overrides

COMPUTER = "rollout.computer={type: unconfined}"


@pytest.mark.parametrize(
    "setting",
    [
        'rollout.task={setup: [["true", "all"]]}',
        'rollout.task={submission: {command: ["true"]}}',
        'rollout.task.setup=[["true", "all"]]',
        'rollout.task.submission.command=["true"]',
        'scorer={type: computer, command: ["true"]}',
        'scorer={type: computer, setup: [["true"]], command: "true"}',
        'scorer={type: computer, report: {command: ["true"]}}',
    ],
)
def test_a_command_may_be_a_list_in_an_override(checkout, setting):
    done = in_process(checkout.folder, "config", "--json", *overrides(COMPUTER, setting))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    "block",
    [
        'rollout: {task: {setup: [["true", "all"]]}, computer: {type: unconfined}}\n',
        'rollout: {task: {submission: {command: ["true"]}}, computer: {type: unconfined}}\n',
    ],
)
def test_a_command_may_be_a_list_in_the_configuration(checkout, block):
    text = (checkout.folder / "skillopt.yaml").read_text(encoding="utf-8")
    checkout.write("skillopt.yaml", text + block)
    done = in_process(checkout.folder, "config", "--json")
    assert done.returncode == 0, done.stderr


def test_a_command_may_be_a_list_in_a_scorer_file(checkout):
    checkout.write("scorer.yaml", 'type: computer\ncommand: ["true"]\n')
    done = in_process(checkout.folder, "rescore", "--scorer", "scorer.yaml", "-o", COMPUTER)
    assert "expected a list" not in done.stderr


@pytest.mark.parametrize("kind", ["sandbox", "unconfined"])
def test_an_image_is_refused_where_no_container_is_made(checkout, kind):
    setting = f"rollout.computer={{type: {kind}, image: python}}"
    done = in_process(checkout.folder, "check", "-o", setting)
    assert done.returncode == 2, done.stdout
    assert "image" in done.stdout + done.stderr
