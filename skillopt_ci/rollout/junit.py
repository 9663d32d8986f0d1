"""Test reports in JUnit's XML: how many tests there were, and how many of them passed."""

from dataclasses import dataclass
from xml.etree import ElementTree as ET

from skillopt_ci.scorers.base import GraderBroke

_NOT_PASSED = ("failure", "error")


@dataclass(frozen=True, slots=True)
class TestCounts:
    """``failed`` names the tests that did not pass; skipped ones are not counted at all."""

    __test__ = False

    passed: int
    failed: tuple[str, ...]

    @property
    def total(self) -> int:
        """The tests that were run."""
        return self.passed + len(self.failed)


def read_report(content: bytes) -> TestCounts:
    """Count the test cases of a report.

    It was written where an agent's code ran: document types, with which XML can be made to grow,
    are refused. Raises :class:`~skillopt_ci.scorers.base.GraderBroke` for what is no report.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GraderBroke(f"the test report is not UTF-8: {error}") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise GraderBroke("the test report has a document type")
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entities without a document type
    except (ET.ParseError, ValueError) as error:
        raise GraderBroke(f"the test report is no XML: {error}") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise GraderBroke(f"the test report begins with <{root.tag[:40]}>, not with <testsuites>")
    return _count(root)


def _count(root: ET.Element) -> TestCounts:
    passed, failed = 0, list[str]()
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        if any(case.find(tag) is not None for tag in _NOT_PASSED):
            failed.append(case.get("name") or "a test without a name")
        else:
            passed += 1
    return TestCounts(passed, tuple(failed))
