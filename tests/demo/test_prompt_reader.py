import time

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.optimizer import sections, stage_of
from skillopt_ci.messages import Message, fenced


def test_headings_inside_a_fence_are_data():
    found = sections("## Skill\n\nSee below:\n````md\n## Not a heading\n```\nx\n```\n````\n## Next")
    assert [section.title for section in found] == ["Skill", "Next"]
    assert found[0].data == "## Not a heading\n```\nx\n```"
    assert found[0].text.startswith("See below:")
    assert sections("## A\n~~~\n```\n## B\n~~~")[0].data == "```\n## B"


@given(st.text())
def test_what_is_fenced_comes_back_as_data(text):
    data = f"start\n{text}\nend"
    found = sections(f"## Data\n\n{fenced(data)}\n\n## After\n")
    assert [section.title for section in found] == ["Data", "After"]
    assert found[0].data == data


def test_a_stage_is_looked_for_in_linear_time():
    began = time.process_time()
    assert stage_of([Message("system", "\n" * 50_000 + "## **Stage: rank** ##")]) == "rank"
    assert time.process_time() - began < 1
