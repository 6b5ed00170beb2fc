"""Tools of a gateway in the loop: what its client is asked for, and what becomes of its results."""

import asyncio
import json

import pytest
from model_peers import DIALECTS, NATIVE, ModelServer, Turn, results
from tool_gateway import APPROVAL, KEY, ToolGateway

from utcp_gateway_client.gateway import GatewayError
from utcp_gateway_client.loop import (
    ApprovalRequired,
    CallFinished,
    CallStarted,
    GatewayTools,
    Hooks,
    Limits,
    run,
    run_sync,
    stream,
)
from utcp_gateway_client.tools import ToolCollection

VOLUME = {"value": "9780140328721"}
NAME = "openlibrary_volumes"


@pytest.fixture
def library():
    with ToolGateway() as gateway:
        yield gateway


def calling(dialect, arguments, name=NAME):
    """Return the turn in which a model of the dialect makes a call."""
    if dialect == "json-prompt":
        return Turn(f"Let me see: {json.dumps({'tool_name': name, 'arguments': arguments})}")
    return Turn(calls=((name, arguments),))


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_prompt_is_searched_and_the_found_tool_called(dialect, library):
    turns = [calling(dialect, VOLUME), Turn("It is Matilda.")]
    with ModelServer(turns) as server:
        async with library.client() as gateway:
            result = await run("Which book has this ISBN?", model=server.model(dialect), tools=gateway)
    assert result.text == "It is Matilda."
    assert [(each["q"], each["format"]) for each in library.exports] == [
        (["Which book has this ISBN?"], [dialect])
    ]
    assert "A volume by its ISBN" in json.dumps(server.requests[0])
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [("Volume 9780140328721", False)]
    assert [(one.preview, one.is_error) for one in result.calls] == [("Volume 9780140328721", False)]
    assert library.paths == ["/tools/export", "/tool-calls"]


def test_a_blocking_client_is_used_in_code_that_is_not_async(library):
    turns = [calling("openai-chat", VOLUME), Turn("End")]
    with ModelServer(turns) as server, library.blocking_client("desk") as gateway:
        for _ in range(2):
            # The client of the caller stays open.
            server.requests.clear()
            result = run_sync("Which book?", model=server.model("openai-chat"), tools=[gateway, add])
            assert [one.preview for one in result.calls] == ["Volume 9780140328721"]
    assert library.paths == ["/toolsets/desk/export", "/toolsets/desk/tool-calls"] * 2


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({"names": ["a.b", "a.c"]}, {"names": ["a.b", "a.c"]}),
        ({"query": "volumes", "limit": 3}, {"q": ["volumes"], "limit": ["3"]}),
        ({"search": False}, {}),
        # The beginning of the prompt, as far as a URL may be long.
        ({}, {"q": ["\N{SNOWMAN}" * 444]}),
    ],
)
async def test_tools_are_those_of_names_of_a_search_or_all_of_a_toolset(options, query, library):
    with ModelServer([Turn("End")]) as server:
        async with library.client("desk") as gateway:
            tools = GatewayTools(gateway, **options)
            await run("\N{SNOWMAN}" * 9_000, model=server.model("openai-chat"), tools=tools)
    assert library.paths == ["/toolsets/desk/export"]
    assert library.exports == [{"format": ["openai-chat"], "strict": ["auto"], **query}]


@pytest.mark.parametrize("dialect", NATIVE)
async def test_local_and_remote_calls_of_a_turn_are_answered_in_order(dialect, library):
    calls = ((NAME, {"value": "1"}), ("add", {"a": 1, "b": 2}), (NAME, {"valeu": "2"}), (f"{NAME}s", {}))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        async with library.client() as gateway:
            tools = [ToolCollection([add]), GatewayTools(gateway, names=["openlibrary.volumes"])]
            events = [one async for one in stream("Both", model=server.model(dialect), tools=tools)]
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [
        ("Volume 1", False),
        ("3", False),
        ("/value is missing", True),
        (f"unknown tool '{NAME}s'. The nearest names are {NAME}.", True),
    ]
    # The gateway gets its calls of the turn as one request.
    assert len(library.bodies) == 1
    records = [one.record for one in events if isinstance(one, CallFinished)]
    assert sorted((one.call.name, one.is_error, one.preview) for one in records)[:3] == [
        ("add", False, "3"),
        (NAME, False, "Volume 1"),
        (NAME, True, "/value is missing"),
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_calls_that_are_not_approved_are_not_sent(dialect, library):
    async def approve(call):
        return False

    with ModelServer([calling(dialect, VOLUME), Turn("End")]) as server:
        async with library.client() as gateway:
            await run("x", model=server.model(dialect), tools=gateway, hooks=Hooks(approve=approve))
    assert library.bodies == []
    assert results(dialect, server.requests[-1])[0][1:] == ("The call was not approved.", True)


async def test_results_that_were_there_in_time_are_not_lost(library):
    dialect = "anthropic"
    calls = ((NAME, {"value": "wait"}), (NAME, {"value": "1"}))
    finished = []
    hooks = Hooks(after_call=lambda _call, answer: finished.append(answer.text))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        async with library.client() as gateway:
            result = await run(
                "x", model=server.model(dialect), tools=gateway, hooks=hooks, limits=Limits(call_seconds=1)
            )
    assert result.text == "End"
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [
        ("timed out after 1 s", True),
        ("Volume 1", False),
    ]
    assert finished == ["Volume 1", "timed out after 1 s"]
    # The gateway cancels what nobody waits for.
    assert await asyncio.to_thread(library.disconnected.wait, 60)


async def test_calls_run_at_once_up_to_the_limit_and_identical_ones_in_one_request(library):
    calls = tuple((NAME, {"value": value}) for value in ("1", "2", "1", "3", "4", "5"))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        async with library.client() as gateway:
            await run("x", model=server.model("openai-chat"), tools=gateway, limits=Limits(parallel_calls=2))
    assert [one[1] for one in results("openai-chat", server.requests[-1])] == [
        "Volume 1", "Volume 2", "Volume 1", "Volume 3", "Volume 4", "Volume 5",
    ]  # fmt: skip
    sent = [
        [json.loads(each["function"]["arguments"])["value"] for each in body["tool_calls"]]
        for body in library.bodies
    ]
    assert sent == [["1", "2", "1"], ["3", "4"], ["5"]]
    # Of the three calls of the first request, the gateway makes two.
    assert library.most == 3


async def test_a_gateway_that_fails_is_an_error_result(library, caplog):
    calls = ((NAME, {"value": "end"}), (NAME, {"value": "2"}))
    with ModelServer([Turn(calls=calls), Turn(calls=calls), Turn("End")]) as server:
        async with library.client() as gateway:
            first = await run(
                "x", model=server.model("openai-chat"), tools=gateway, limits=Limits(max_iterations=1)
            )
            library.status = 403
            second = await run(
                "x", model=server.model("openai-chat"), tools=gateway, limits=Limits(max_iterations=1)
            )
    assert [one.preview for one in first.calls] == [
        "The gateway has failed. The stream ended before its last event. The call may have been made."
    ] * 2
    assert [one.preview for one in second.calls] == [
        "The gateway has failed. 403 forbidden: The key lacks the scope tools:call."
    ] * 2
    assert all(one.is_error for one in [*first.calls, *second.calls])
    assert KEY not in caplog.text


async def test_a_gateway_without_a_response_ends_the_run_before_it_begins(library):
    with ModelServer([Turn("End")]) as server:
        async with library.client(retries=0) as gateway:
            library.__exit__()
            with pytest.raises(GatewayError):
                await run(
                    "x", model=server.model("openai-chat"), tools=gateway, limits=Limits(run_seconds=60)
                )
        library.__enter__()
    assert server.requests == []


async def test_closing_the_events_ends_the_request(library):
    with ModelServer([calling("openai-chat", {"value": "wait"})]) as server:
        async with library.client() as gateway:
            events = stream("x", model=server.model("openai-chat"), tools=gateway)
            async for event in events:
                if isinstance(event, CallStarted):
                    break
            assert await asyncio.to_thread(library.arrived.wait, 60)
            async with asyncio.timeout(60):
                await events.aclose()
    assert await asyncio.to_thread(library.disconnected.wait, 60)


async def test_a_run_ends_at_its_limit_while_a_gateway_searches(library):
    library.slow_export = True
    with ModelServer([Turn("End")]) as server:
        async with library.client() as gateway:
            model = server.model("openai-chat")
            result = await run("x", model=model, tools=gateway, limits=Limits(run_seconds=0.1))
        library.released.set()
    assert (result.stopped, result.text, result.iterations, server.requests) == ("time", "", 0, [])
    assert result.history == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_call_that_requires_approval_is_an_event_and_its_url_a_result(dialect, library):
    turns = [calling(dialect, {"value": "approve"}), Turn("Ask for it.")]
    with ModelServer(turns) as server:
        async with library.client() as gateway:
            events = [one async for one in stream("x", model=server.model(dialect), tools=gateway)]
    (required,) = [one for one in events if isinstance(one, ApprovalRequired)]
    assert (required.iteration, required.pending.id) == (1, str(APPROVAL))
    assert required.pending.approval.subject.name == "openlibrary.volumes"
    assert required.pending.url == f"{library.url}/approvals/{APPROVAL}"
    assert required.pending.call.name == NAME
    (found,) = results(dialect, server.requests[-1])
    assert found[1:] == (f"Approve it at {library.url}/approvals/{APPROVAL}", True)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("state", "text", "is_error"),
    [
        ("executed", '{"volume": "approved"}', False),
        ("rejected", "The approval of the call is rejected. Not today.", True),
        ("pending", "Approve it at ", True),
    ],
)
async def test_a_hook_waits_for_the_decision(dialect, state, text, is_error, library):
    library.state = state
    hooks = Hooks(approval_required=lambda pending: pending.wait(timeout=0))
    with ModelServer([calling(dialect, {"value": "approve"}), Turn("End")]) as server:
        async with library.client() as gateway:
            await run("x", model=server.model(dialect), tools=gateway, hooks=hooks)
    ((_, found, flag),) = results(dialect, server.requests[-1])
    assert found.startswith(text)
    assert flag is is_error


@pytest.mark.parametrize(
    ("decision", "text", "is_error"),
    [
        ("approve", '{"volume": "approved"}', False),
        ("reject", "The approval of the call is rejected. Not today.", True),
    ],
)
async def test_a_hook_decides_itself(decision, text, is_error, library):
    async def decide(pending):
        await getattr(pending, decision)("By the user.")
        return await pending.wait()

    with ModelServer([calling("anthropic", {"value": "approve"}), Turn("End")]) as server:
        async with library.client() as gateway:
            model = server.model("anthropic")
            await run("x", model=model, tools=gateway, hooks=Hooks(approval_required=decide))
    assert results("anthropic", server.requests[-1])[0][1:] == (text, is_error)
    assert f"/approvals/{APPROVAL}/{decision}" in library.paths


@pytest.mark.parametrize("dialect", NATIVE)
async def test_a_hook_is_asked_once_for_an_approval_and_says_a_text(dialect, library):
    asked = []

    def say(pending):
        asked.append(pending.id)
        return "Go on without it."

    calls = ((NAME, {"value": "approve"}), (NAME, {"value": "1"}), (NAME, {"value": "approve"}))
    with ModelServer([Turn(calls=calls), Turn("End")]) as server:
        async with library.client() as gateway:
            result = await run(
                "x", model=server.model(dialect), tools=gateway, hooks=Hooks(approval_required=say)
            )
    assert asked == [str(APPROVAL)]
    assert [one[1:] for one in results(dialect, server.requests[-1])] == [
        ("Go on without it.", False),
        ("Volume 1", False),
        ("Go on without it.", False),
    ]
    assert len(result.calls) == 3


async def test_waiting_for_a_decision_ends_with_the_run_and_not_with_the_call(library):
    waited = []

    async def wait(pending):
        waited.append(pending.id)
        await asyncio.Event().wait()

    limits = Limits(call_seconds=1, run_seconds=2)
    with ModelServer([calling("openai-chat", {"value": "approve"})]) as server:
        async with library.client() as gateway:
            result = await run(
                "x",
                model=server.model("openai-chat"),
                tools=gateway,
                limits=limits,
                hooks=Hooks(approval_required=wait),
            )
    assert waited == [str(APPROVAL)]
    assert result.stopped == "time"
    assert result.calls[0].preview.startswith("Approve it at ")
    assert result.calls[0].seconds > limits.call_seconds


async def test_of_two_tools_with_one_name_the_first_is_offered(caplog):
    with (
        ModelServer([Turn(calls=(("add", {"a": 1, "b": 2}),)), Turn("End")]) as server,
        ToolGateway("add") as other,
    ):
        async with other.client() as gateway:
            await run("x", model=server.model("openai-chat"), tools=[add, gateway])
    assert [one["function"]["name"] for one in server.requests[0]["tools"]] == ["add"]
    assert results("openai-chat", server.requests[-1])[0][1] == "3"
    assert "Two tools are called add" in caplog.text


async def test_a_search_needs_words(library):
    async with library.client() as gateway:
        with pytest.raises(ValueError, match="name the tools"):
            await run(None, model="gpt-x", tools=gateway, history=[{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tool_name": "add", "arguments": {"a": 1, "b": 2}}', ("3", False)),
        (
            '{"x": 1} then {"arguments": {"a": 1, "b": 2}, "tool_name": "add"} {"tool_name": "no"}',
            ("3", False),
        ),
        ('{"tool_name": "add"}', None),
        ('{"tool_name": "add", "arguments": {"a": 1', None),
    ],
)
async def test_the_first_json_object_with_a_tool_is_the_call(text, expected):
    with ModelServer([Turn(text), Turn("End")]) as server:
        await run("x", model=server.model("json-prompt"), tools=add)
    ((_, found, is_error),) = results("json-prompt", server.requests[-1])
    if expected is None:
        assert is_error
        assert "pointer" in found
    else:
        assert (found, is_error) == expected
