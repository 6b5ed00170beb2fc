"""Results as JUnit XML, which CI systems show: a test suite for each model, a test case for each case.

The elements and attributes are those that the schemas of Jenkins, Ant and GitLab have in common; tokens are
properties of a suite, and each case has its own in `system-out`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from xml.etree import ElementTree as ET

# What XML 1.0 has no form for (section 2.2).
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MAX_MESSAGE: Final = 500
_DEFAULT_NAME: Final = "agent-tests"


def junit_xml(name: str, results: Sequence[Mapping[str, Any]], *, at: datetime) -> bytes:
    """Return the XML of the results of a test, as JSON; `at` is when it began."""
    suites: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        suites.setdefault(result["model"], []).append(result)
    root = ET.Element("testsuites", _attributes(name or _DEFAULT_NAME, results))
    for model, found in suites.items():
        suite = ET.SubElement(
            root,
            "testsuite",
            {
                **_attributes(model, found),
                "skipped": "0",
                "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S"),
                "hostname": "utcp-gateway",
            },
        )
        _add_properties(suite, found)
        for result in found:
            _add_case(suite, result, name or _DEFAULT_NAME)
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _attributes(name: str, results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        "name": _clean(name),
        "tests": str(len(results)),
        "failures": str(sum(_is_failure(result) for result in results)),
        "errors": str(sum(_is_error(result) for result in results)),
        "time": _seconds(sum(result["durationMs"] for result in results)),
    }


def _is_error(result: Mapping[str, Any]) -> bool:
    return not result["passed"] and result.get("error") is not None


def _is_failure(result: Mapping[str, Any]) -> bool:
    return not result["passed"] and result.get("error") is None


def _add_properties(suite: ET.Element, results: Sequence[Mapping[str, Any]]) -> None:
    usages = [result["usage"] for result in results if result.get("usage") is not None]
    values: dict[str, object] = {
        "input_tokens": sum(usage["inputTokens"] for usage in usages),
        "output_tokens": sum(usage["outputTokens"] for usage in usages),
    }
    costs = [usage["cost"] for usage in usages if "cost" in usage]
    if costs:
        currency = next(usage["currency"] for usage in usages if "cost" in usage)
        values |= {"cost": f"{sum(costs):.6f}", "currency": currency}
    properties = ET.SubElement(suite, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", {"name": name, "value": str(value)})


def _add_case(suite: ET.Element, result: Mapping[str, Any], name: str) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {
            "name": _clean(result["testCase"]["name"]),
            "classname": _clean(f"{name}.{result['model']}"),
            "time": _seconds(result["durationMs"]),
        },
    )
    if _is_error(result):
        text = _clean(result["error"])
        error = ET.SubElement(case, "error", {"message": text[:_MAX_MESSAGE], "type": "error"})
        error.text = _details(result)
    elif _is_failure(result):
        failed = [one for one in result.get("assertionDetails", ()) if not one["passed"]]
        first = _clean(failed[0]["message"]) if failed else "The case has not passed often enough."
        kind = failed[0]["type"] if failed else "pass_rate"
        failure = ET.SubElement(case, "failure", {"message": first[:_MAX_MESSAGE], "type": kind})
        failure.text = _details(result)
    output = ET.SubElement(case, "system-out")
    output.text = _output(result)


def _details(result: Mapping[str, Any]) -> str:
    """Return what of a result has failed, a line for each assertion."""
    lines = [] if result.get("error") is None else [result["error"]]
    lines += [
        f"{one['type']}: {one['message']}" for one in result.get("assertionDetails", ()) if not one["passed"]
    ]
    if result["repeat"] > 1:
        passed = round(result["passRate"] * result["repeat"])
        lines.append(f"{passed} of {result['repeat']} repetitions have passed.")
    if result.get("response"):
        lines += ["", "Response:", result["response"]]
    return _clean("\n".join(lines))


def _output(result: Mapping[str, Any]) -> str:
    usage = result.get("usage") or {"inputTokens": 0, "outputTokens": 0}
    lines = [
        f"score: {result['score']:.3f}",
        f"tokens: {usage['inputTokens']} in, {usage['outputTokens']} out",
        f"tools: {', '.join(result.get('toolsUsed', ())) or 'none'}",
    ]
    lines += [f"warning: {warning}" for warning in result.get("warnings", ())]
    return _clean("\n".join(lines))


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
