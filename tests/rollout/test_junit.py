import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.rollout.graders import read_report
from skillopt_ci.scorers.base import GraderError

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="t" name="test_a" time="0.01"/>
<testcase classname="t" name="test_b"><failure message="x">assert</failure></testcase>
<testcase classname="t" name="test_c"><error message="y">boom</error></testcase>
<testcase classname="t" name="test_d"><skipped/></testcase>
</testsuite></testsuites>"""


def test_passed_failed_and_broken_tests_are_counted_and_skipped_ones_are_not():
    assert read_report(PYTEST) == (1, ["test_b", "test_c"])


def test_a_single_suite_is_a_report_too():
    assert read_report(b"<testsuite><testcase name='a'/></testsuite>") == (1, [])


def test_a_test_without_a_name_counts():
    passed, failed = read_report(b"<testsuite><testcase><failure/></testcase></testsuite>")
    assert (passed, len(failed)) == (0, 1)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no XML"),
        (b"<testsuite>", "no XML"),
        (b"<html/>", "<html>"),
        (b"\xff\xfe<", "UTF-8"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>', "document type"),
        ('<?xml version="1.0" encoding="utf-16"?><testsuite/>'.encode("utf-16"), "UTF-8"),
    ],
)
def test_what_is_no_report_is_the_graders_fault(content, why):
    with pytest.raises(GraderError, match=why):
        read_report(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_a_grader_error(content):
    try:
        passed, _ = read_report(b"<testsuite><testcase name='a'/>" + content + b"</testsuite>")
    except GraderError:
        return
    assert passed >= 1
