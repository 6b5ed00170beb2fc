"""Compares a run with the assertions about it: each gets a sentence, and the score is the part that hold."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.agents.tests import assertion_models as models
from app.agents.tests.assertion_models import Assertion, compiled_pattern
from app.core import exact_json
from app.core.text import preview, split_pointer
from app.formats.json_schema.validator import OutputValidator

_FENCED: Final = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_MAX_BLOCKS: Final = 100
_MAX_POINTERS: Final = 5
_MISSING: Final = object()
_NO_JSON: Final = "The response has no JSON, alone or in a fenced block."


@dataclass(frozen=True, slots=True)
class AssertedCall:
    """A call as assertions see it: `names` are all names of its tool, and the one that the model wrote;
    `shown` are its arguments with secrets masked, for messages.
    """

    names: frozenset[str]
    arguments: Any = field(repr=False)
    shown: Any = field(default=None, repr=False)
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class AssertedRun:
    """What a run was, as far as there are assertions about it."""

    response: str = field(repr=False)
    calls: Sequence[AssertedCall] = ()
    stopped: str = "done"
    tokens: int = 0
    duration_ms: int = 0
    mask: Callable[[str], str] = str
    """Applied to what a message quotes of the response, before it is cut."""


@dataclass(frozen=True, slots=True)
class AssertionOutcome:
    """Whether an assertion holds, and a sentence about it."""

    assertion: Assertion
    passed: bool
    message: str


def check_assertions(run: AssertedRun, assertions: Sequence[Assertion]) -> list[AssertionOutcome]:
    """Return the outcome of each assertion, in their order."""
    return [AssertionOutcome(one, *_CHECKS[type(one)](one, run)) for one in assertions]


def score_of(outcomes: Sequence[AssertionOutcome]) -> float:
    """Return the part of the assertions that hold, by their weights; 1.0 without any."""
    total = sum(one.assertion.weight for one in outcomes)
    return sum(one.assertion.weight for one in outcomes if one.passed) / total if total else 1.0


_Checked = tuple[bool, str]


def _contains(one: models.ContainsAssertion, run: AssertedRun) -> _Checked:
    found = _folded(one.value, one.ignore_case) in _folded(run.response, one.ignore_case)
    verb = "contains" if found else "does not contain"
    return found, f"The response {verb} {_quoted(one.value)}."


def _not_contains(one: models.NotContainsAssertion, run: AssertedRun) -> _Checked:
    found = _folded(one.value, one.ignore_case) in _folded(run.response, one.ignore_case)
    verb = "contains" if found else "does not contain"
    return not found, f"The response {verb} {_quoted(one.value)}."


def _equals(one: models.EqualsAssertion, run: AssertedRun) -> _Checked:
    expected, actual = (_folded(text.strip(), one.ignore_case) for text in (one.value, run.response))
    if expected == actual:
        return True, f"The response is {_quoted(one.value)}."
    return False, f"The response is {_quoted(run.mask(run.response.strip()))}, not {_quoted(one.value)}."


def _regex(one: models.RegexAssertion, run: AssertedRun) -> _Checked:
    compiled = compiled_pattern(one.pattern, ignore_case=one.ignore_case)
    text = run.response.encode("utf-8", "replace").decode()
    found = compiled is not None and compiled.search(text) is not None
    verb = "matches" if found else "does not match"
    return found, f"The response {verb} /{preview(one.pattern, limit=200)}/."


def _json_pointer(one: models.JsonPointerAssertion, run: AssertedRun) -> _Checked:
    values = _json_values(run.response)
    if not values:
        return False, _NO_JSON
    found = [_at(value, one.pointer) for value in values]
    if any(value is not _MISSING and exact_json.are_equal(value, one.equals) for value in found):
        return True, f"{_place(one.pointer)} is {_shown(one.equals)}."
    actual = next((value for value in found if value is not _MISSING), _MISSING)
    if actual is _MISSING:
        return False, f"The JSON of the response has nothing at {_place(one.pointer)}."
    return False, f"{_place(one.pointer)} is {_shown(actual, mask=run.mask)}, not {_shown(one.equals)}."


def _json_schema(one: models.JsonSchemaAssertion, run: AssertedRun) -> _Checked:
    values = _json_values(run.response)
    if not values:
        return False, _NO_JSON
    validator = OutputValidator(one.schema_)
    values = [value for value in values if validator.can_validate(value)]
    if not values:
        return False, "The JSON of the response has too many values to be validated with the schema."
    found = [validator.find_violations(value, max_pointers=_MAX_POINTERS) for value in values]
    if any(not each.count for each in found):
        return True, "The JSON of the response is valid for the schema."
    where = ", ".join(at or "the root" for at in found[0].pointers)
    return False, f"The JSON of the response is not valid for the schema: see {where}."


def _tool_called(one: models.ToolCalledAssertion, run: AssertedRun) -> _Checked:
    calls = [call for call in run.calls if one.tool in call.names]
    if not calls:
        return False, f"{one.tool} was not called."
    if one.is_error is not None:
        calls = [call for call in calls if call.is_error is one.is_error]
        if not calls:
            return False, f"No call of {one.tool} {'failed' if one.is_error else 'succeeded'}."
    if one.arguments is None:
        return True, f"{one.tool} was called."
    matches = exact_json.are_equal if one.match == "equals" else is_subset
    if any(matches(one.arguments, call.arguments) for call in calls):
        return True, f"{one.tool} was called with {_shown(one.arguments)}."
    given = "; ".join(_shown(call.shown, limit=200) for call in calls[:3])
    return False, f"{one.tool} was called with {given}, not with {_shown(one.arguments)}."


def _tool_not_called(one: models.ToolNotCalledAssertion, run: AssertedRun) -> _Checked:
    count = _count(one.tool, run)
    return not count, f"{one.tool} was called {_times(count)}." if count else f"{one.tool} was not called."


def _call_count(one: models.CallCountAssertion, run: AssertedRun) -> _Checked:
    count = len(run.calls) if one.tool is None else _count(one.tool, run)
    least = one.min if one.exact is None else one.exact
    most = one.max if one.exact is None else one.exact
    passed = (least is None or count >= least) and (most is None or count <= most)
    expected = f"exactly {one.exact}" if one.exact is not None else _range(least, most)
    subject = "Tools were" if one.tool is None else f"{one.tool} was"
    return passed, f"{subject} called {_times(count)}; expected: {expected}."


def _call_order(one: models.CallOrderAssertion, run: AssertedRun) -> _Checked:
    calls = iter(run.calls)
    for name in one.tools:
        if not any(name in call.names for call in calls):
            return False, f"The calls are not in the order {' > '.join(one.tools)}: {name} is missing."
    return True, f"The calls are in the order {' > '.join(one.tools)}."


def _stopped(one: models.StoppedAssertion, run: AssertedRun) -> _Checked:
    return run.stopped == one.value, f"The run ended by `{run.stopped}`; expected: `{one.value}`."


def _max_tokens(one: models.MaxTokensAssertion, run: AssertedRun) -> _Checked:
    return run.tokens <= one.value, f"The run took {run.tokens} tokens; expected: at most {one.value}."


def _max_duration(one: models.MaxDurationAssertion, run: AssertedRun) -> _Checked:
    taken = run.duration_ms
    return taken <= one.value, f"The run took {taken} ms; expected: at most {one.value} ms."


_CHECKS: Final[Mapping[type, Callable[[Any, AssertedRun], _Checked]]] = {
    models.ContainsAssertion: _contains,
    models.NotContainsAssertion: _not_contains,
    models.EqualsAssertion: _equals,
    models.RegexAssertion: _regex,
    models.JsonPointerAssertion: _json_pointer,
    models.JsonSchemaAssertion: _json_schema,
    models.ToolCalledAssertion: _tool_called,
    models.ToolNotCalledAssertion: _tool_not_called,
    models.CallCountAssertion: _call_count,
    models.CallOrderAssertion: _call_order,
    models.StoppedAssertion: _stopped,
    models.MaxTokensAssertion: _max_tokens,
    models.MaxDurationAssertion: _max_duration,
}


def is_subset(expected: Any, actual: Any) -> bool:
    """Return whether a JSON value has what is expected: objects may have further members, lists may not have
    further items.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(name in actual and is_subset(value, actual[name]) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(is_subset, expected, actual))
    return exact_json.are_equal(expected, actual)


def _json_values(text: str) -> list[Any]:
    """Return the JSON value that a text is, or those of its fenced blocks that are JSON."""
    candidates = [text]
    if "```" in text:
        candidates += [found[1] for found in list(_FENCED.finditer(text))[:_MAX_BLOCKS]]
    values = []
    for candidate in candidates:
        try:
            values.append(orjson.loads(candidate.strip()))
        except orjson.JSONDecodeError:
            continue
    return values


def _at(value: Any, pointer: str) -> Any:
    for part in split_pointer(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            if part != str(int(part)):
                return _MISSING
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _folded(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text


def _count(tool: str, run: AssertedRun) -> int:
    return sum(tool in call.names for call in run.calls)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"


def _quoted(text: str) -> str:
    return f'"{preview(text, limit=200)}"'


def _shown(value: Any, *, limit: int = 500, mask: Callable[[str], str] = str) -> str:
    try:
        return preview(mask(exact_json.dumps(value, default=str).decode()), limit=limit)
    except orjson.JSONEncodeError:
        return "a value that is no JSON"


def _place(pointer: str) -> str:
    return pointer or "The whole JSON"
