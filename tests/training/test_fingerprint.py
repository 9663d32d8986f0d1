"""Which settings make scores incomparable."""

from __future__ import annotations

import pytest

from skillopt_ci.training import final_evaluation


@pytest.mark.parametrize(
    "override",
    [
        "model.target.model=other",
        "model.target.temperature=0",
        "model.target.max_output_tokens=100",
        "model.target.reasoning_effort=low",
        "model.target.extra_body={top_p: 0.5}",
        "model.target.api=responses",
        "scorer.answer=last_line",
        "evaluation.gate_metric=mixed",
        "evaluation.gate_mixed_weight=0.25",
        "evaluation.sel_env_num=4",
        "prompts=prompts",
    ],
)
def test_way_of_measuring_is_part_of_it(checkout, override):
    checkout.write("prompts/target.md", "Read this first.\n\n{skill}\n")
    assert checkout.session(override).measured_under != checkout.session().measured_under


@pytest.mark.parametrize(
    "override",
    [
        "model.target.timeout=5",
        "model.target.retries=1",
        "model.target.max_concurrency=1",
        "model.target.price={input: 1, output: 2}",
        "model.target.structured_output=off",
        "model.target.token_limit_field=max_tokens",
        "model.optimizer.model=other",
        "optimizer.learning_rate=9",
        "train.batch_size=1",
        "budget.run.calls=1",
        "tasks.test=null",
    ],
)
def test_rest_is_not(checkout, override):
    assert checkout.session(override).measured_under == checkout.session().measured_under


def test_judge_counts_where_there_is_a_rubric(checkout):
    graded = "scorer={type: rubric, rubric: 'Is the number right?'}"
    other = "model.optimizer.temperature=1"
    one, two = checkout.session(graded), checkout.session(graded, other)
    assert one.measured_under != two.measured_under


def test_the_files_of_a_graders_folder_count(checkout):
    checkout.write("grader/check.sh", "grep -q done out")
    settings = (
        "scorer={type: all, of: [{type: computer, command: sh check.sh, folder: grader}]}",
        "rollout.computer={type: unconfined}",
    )

    def under() -> tuple[str, str]:
        session = checkout.session(*settings)
        return session.measured_under, final_evaluation.tested_under(session)

    before = under()
    assert under() == before
    checkout.write("grader/__pycache__/helper.pyc", "compiled")
    assert under() == before
    checkout.write("grader/check.sh", "grep -qx done out")
    changed = under()
    assert all(one != other for one, other in zip(changed, before, strict=True))
    (checkout.folder / "grader/check.sh").rename(checkout.folder / "grader/other.sh")
    assert under()[0] not in (before[0], changed[0])
