"""Report -> JUnit XML, for CI systems that draw test results: one test case per rule."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pydantic import JsonValue

from fairaudit.report.model import Report
from fairaudit.report.numbers import gated, written
from fairaudit.report.safe_names import plain
from fairaudit.report.types.verdicts import GateRecord, GateTarget

# Outcome of a rule -> element of its test case.
_ELEMENT = {"fail": "failure", "inconclusive": "error"}
# What the option says that an inconclusive rule counts as -> element of its test case.
_COUNTS_AS = {"fail": "failure", "pass": "skipped"}
# Element -> attribute of the suite that counts it.
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_LONGEST = 4000


def to_junit(report: Report) -> str:
    """The gates as JUnit XML, with inconclusive rules as the report's own option counts them."""
    setting = report.config.get("inconclusive")  # None: the report holds no such option
    return gates_to_junit(report, None if setting is None else setting.value)


def gates_to_junit(report: Report, inconclusive: JsonValue) -> str:
    """The gates as JUnit XML; a report without gates has no test case.

    Args:
        report: With its gates.
        inconclusive: What an inconclusive rule counts as: ``fail`` makes it a failure, ``pass`` a
            skipped case, anything else an error.
    """
    element_of = {**_ELEMENT, "inconclusive": _COUNTS_AS.get(str(inconclusive), "error")}
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite", name=f"fairaudit {plain(report.data.name)}")
    elements = [_case(suite, gate, element_of) for gate in report.gates]
    for element, attribute in _COUNTED.items():
        suite.set(attribute, str(elements.count(element)))
    suite.set("tests", str(len(elements)))
    suite.set("time", "0")  # nothing in a report but its volatile fields tells the time
    indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(suite: Element, gate: GateRecord, element_of: Mapping[str, str]) -> str:
    """Add the test case of a rule to the suite, in place.

    Args:
        suite: Where it is added.
        gate: The rule with its outcome.
        element_of: Outcome -> the element that the case holds where the rule does not pass.

    Returns:
        That element, so that it can be counted; "" where the rule passes.
    """
    case = SubElement(
        suite, "testcase", name=plain(gate.rule, _LONGEST), classname="fairaudit.gate", time="0"
    )
    element = element_of.get(gate.outcome, "")
    if element:
        problem = SubElement(
            case, element, message=plain(f"{gate.outcome}: {gate.words}", _LONGEST)
        )
        if element != "skipped":  # a type is that of a failure or an error
            problem.set("type", gate.outcome)
        lines = []
        if gate.reason:
            lines = [plain(gate.reason, _LONGEST)]
        for target in gate.targets:
            if target.outcome != "pass":
                reason = ""
                if target.reason:
                    reason = f"; {plain(target.reason, 300)}"
                lines.append(f"{target.outcome}: {described(target, gate.unit)}{reason}")
        problem.text = "\n".join(lines)
    if gate.left_out:
        output = SubElement(case, "system-out")
        output.text = f"not judged: {plain('; '.join(gate.left_out), _LONGEST)}"
    return element


def described(target: GateTarget, unit: str) -> str:
    """A number that a rule was held against, as ``dpsgd · sex = F against sgd: 2.9 [1.2, 4.6]``.

    Args:
        target: The number, with its arm, groups and reference; what is "" is left out.
        unit: Of the rule's numbers; a fraction is written in points.
    """
    group = " = ".join(plain(name) for name in (target.grouping, target.group) if name)
    where = " · ".join(words for words in (plain(target.arm), group) if words)
    if target.reference:
        where += f" against {plain(target.reference)}"
    return f"{where}: {written(target, gated(unit))}"
