"""Repairs of arguments in calls of each interface: real calls of an upstream that notes what it was sent."""

import pytest

from app.calls import describe
from app.calls.options import CallOptions
from app.calls.request import CallRequest
from app.calls.results import read_result
from app.core.errors import InvalidArguments
from tests.harness.cases import for_each
from tests.integration.calls.results.conftest import principal


@for_each(
    ("fields", "is_repaired"),
    [
        pytest.param({"interface": "mcp"}, True, id="mcp"),
        pytest.param({"interface": "tool-calls"}, True, id="tool-calls"),
        pytest.param({"interface": "rest"}, False, id="rest"),
        pytest.param({"interface": "utcp"}, False, id="utcp"),
        pytest.param({"interface": "rest", "argument_repair": "safe"}, True, id="toolset"),
        pytest.param({"interface": "mcp", "argument_repair": "off"}, False, id="toolset-off"),
        pytest.param({"interface": "mcp", "who": principal(argument_repair="off")}, False, id="key-off"),
        pytest.param(
            {"interface": "mcp", "argument_repair": "off", "who": principal(argument_repair="on")}, True, id="key-on"
        ),
        pytest.param(
            {"who": principal(argument_repair="off"), "options": CallOptions(repair="on")}, True, id="preference"
        ),
    ],
)  # fmt: skip
async def test_the_mode_is_that_of_the_client_the_key_the_toolset_or_the_interface(
    call, upstream, fields, is_repaired
) -> None:
    upstream.requests.clear()
    outcome = await call(arguments={"n": "42"}, **fields)
    assert upstream.requests == (["/read?n=42"] if is_repaired else [])
    assert isinstance(outcome.error, InvalidArguments) is not is_repaired
    assert [one.pointer for one in outcome.repairs] == (["/n"] if is_repaired else [])


@pytest.mark.parametrize(
    ("tool", "mode", "is_repaired"),
    [
        ("p.read", "safe", True),
        ("p.write", "safe", False),
        ("p.write", "on", True),
        ("p.search", "safe", True),
    ],
)
async def test_safe_repairs_only_types_of_tools_with_effects(call, upstream, tool, mode, is_repaired) -> None:
    await call(tool, {"color": "Red"}, argument_repair=mode)
    assert len(upstream.requests) == is_repaired
    await call(tool, {"n": "3"}, argument_repair=mode)
    assert len(upstream.requests) == is_repaired + 1


async def test_each_repair_is_named_in_the_result(call, upstream) -> None:
    result = await read_result(await call(arguments={"n": "42", "Color": "red"}))
    assert result.text.startswith("{}\n\nNote: Argument ")
    assert len(result.notes) == 2
    assert all(f"Note: {note}" in result.text for note in result.notes)
    upstream.status = 404
    result = await read_result(await call(arguments={"n": "42"}))
    assert result.is_error
    assert "Note: Argument /n was repaired" in result.text


async def test_the_description_of_a_call_has_the_repaired_arguments(call, services, upstream) -> None:
    request = CallRequest(principal(), "p.read", "test", "mcp", arguments={"n": "42"})
    described = await describe(request, services.calls)
    assert described["url"].endswith("/read?n=42")
    with pytest.raises(InvalidArguments):
        await describe(CallRequest(principal(), "p.read", "test", arguments={"n": "42"}), services.calls)
    assert upstream.requests == []
