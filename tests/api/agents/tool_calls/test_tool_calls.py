"""`POST /tool-calls`: what a model responded goes in, and the messages to append come out."""

import asyncio
import json

import pytest

from app.catalog.feed import ChangeNotice
from app.core.rate_limit import RateLimit
from tests.api.agents.tool_calls.conftest import PDF, PNG
from tests.harness.cases import for_each
from tests.stored import store_provider, store_tool


def chat(*calls, finish="tool_calls"):
    made = [
        {"id": f"c{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made, "unknown": {"kept": 1}}
    return {"id": "x", "choices": [{"index": 0, "finish_reason": finish, "message": message}]}


async def run(client, body, **parameters):
    response = await client.post("/tool-calls", json=body, params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


async def test_calls_run_and_the_messages_are_those_to_append(client, upstream) -> None:
    got = await run(client, chat(("p_read", '{"n": 1}'), ("p.read", '{"n": 2}'), ("p_write", "{}")))
    assert got["format"] == "openai-chat"
    assert [(one["role"], one["tool_call_id"]) for one in got["messages"]] == [
        ("tool", "c0"), ("tool", "c1"), ("tool", "c2"),
    ]  # fmt: skip
    assert [json.loads(one["content"])["path"] for one in got["messages"]] == [
        "/read?n=1", "/read?n=2", "/write",
    ]  # fmt: skip
    assert [(one["id"], one["tool"], one["is_error"], one["status"]) for one in got["results"]] == [
        ("c0", "p.read", False, 200), ("c1", "p.read", False, 200), ("c2", "p.write", False, 200),
    ]  # fmt: skip
    assert sorted(upstream.requests) == ["GET /read?n=1", "GET /read?n=2", "POST /write"]


async def test_the_models_own_message_is_repeated_untouched_where_that_is_asked_for(client) -> None:
    body = chat(("p_read", "{}"))
    got = await run(client, body, assistant="true")
    assert got["messages"][0] == body["choices"][0]["message"]
    assert got["messages"][1]["tool_call_id"] == "c0"


async def test_what_calls_nothing_has_no_messages(client) -> None:
    got = await run(
        client, {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}]}
    )
    assert got == {"format": "openai-chat", "messages": [], "results": [], "cut": None}


async def test_an_error_of_a_meta_tool_has_its_status_and_link(client) -> None:
    got = await run(client, chat(("read_more", '{"continuation": "c_unknown"}')))
    (result,) = got["results"]
    assert (result["status"], result["error"]["status"]) == (404, 404)
    assert result["error"]["documentation_url"] == "https://gateway.example/problems/not-found"


@for_each(
    ("name", "arguments", "status", "text"),
    [
        pytest.param("p_raed", "{}", 404, "p_read", id="unknown-name-nearest"),
        pytest.param("not a name", "{}", 404, "There is no tool", id="impossible-name"),
        pytest.param("p_read", '{"n": "x"}', 422, "/n: ", id="invalid-arguments"),
        pytest.param("p_read", '{"n": 1', 422, "not valid JSON (line 1, column 8)", id="broken-json"),
        pytest.param("p_read", '{"n": 1, "n": 2}', 422, "more than once", id="repeated-name"),
        pytest.param("p_read", "[1]", 422, "are a list", id="no-object"),
        pytest.param("p_fail", "{}", 404, 'HTTP 404 from p: {"detail":"no such book"}', id="upstream-error"),
        pytest.param("p_approved", "{}", 202, "https://gateway.example/approvals/", id="approval"),
    ],
)  # fmt: skip
async def test_whatever_goes_wrong_is_the_result_of_that_call(
    client, upstream, name, arguments, status, text
) -> None:
    got = await run(client, chat((name, arguments), ("p_text", "{}")))
    failed, other = got["messages"]
    assert failed["tool_call_id"] == "c0"
    assert failed["content"].startswith("Error: ")
    assert text in failed["content"]
    assert (got["results"][0]["is_error"], got["results"][0]["status"]) == (True, status)
    assert (other["tool_call_id"], other["content"]) == ("c1", "café")


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("entirely_different", "{}", "Search for the tool with find_tools."),
        ("call_tool", '{"name": "entirely_different"}', "Search for the tool with find_tools."),
        ("call_tool", '{"name": "find_tools"}', "Call it directly."),
    ],
    ids=["direct", "meta-tool", "nested"],
)
async def test_a_model_reads_what_it_can_do_about_an_unknown_tool(client, name, arguments, hint) -> None:
    got = await run(client, chat((name, arguments)))
    assert got["messages"][0]["content"].endswith(hint)


async def test_a_schema_is_shown_to_a_model_that_writes_broken_json(client) -> None:
    got = await run(client, chat(("p_read", "{n: 1}")))
    assert '"minimum":1' in got["messages"][0]["content"].replace(" ", "")


async def test_a_time_out_of_the_client_becomes_a_result(client, upstream) -> None:
    response = await client.post(
        "/tool-calls", json=chat(("p_slow", "{}"), ("p_read", "{}")), headers={"X-Timeout-Ms": "400"}
    )
    results = response.json()["results"]
    assert [(one["status"], one["is_error"]) for one in results] == [(504, True), (200, False)]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_calls_of_an_output_that_was_cut_are_not_made(client, upstream, finish) -> None:
    got = await run(client, chat(("p_read", "{}"), ("p_write", '{"n": 1}'), finish=finish))
    assert upstream.requests == []
    assert [one["is_error"] for one in got["results"]] == [True, True]
    assert [one["tool_call_id"] for one in got["messages"]] == ["c0", "c1"]
    assert got["cut"] == finish


async def test_identical_calls_of_a_read_only_tool_run_once_and_are_all_answered(client, upstream) -> None:
    got = await run(client, chat(("p_read", '{"n":1,"color":"red"}'), ("p.read", '{"color": "red", "n": 1}')))
    assert len(upstream.requests) == 1
    first, second = got["messages"]
    assert (first["content"], first["tool_call_id"], second["tool_call_id"]) == (
        second["content"],
        "c0",
        "c1",
    )


async def test_identical_calls_with_effects_are_skipped_and_say_so(client, upstream) -> None:
    got = await run(client, chat(*[("p_write", '{"n": 1}')] * 3, ("p_write", '{"n": 2}')))
    assert sorted(upstream.requests) == ["POST /write?n=1", "POST /write?n=2"]
    assert [one["content"] == "Duplicate tool call skipped." for one in got["messages"]] == [
        False, True, True, False,
    ]  # fmt: skip


async def test_an_id_is_answered_once_even_where_a_model_repeats_it(client, upstream) -> None:
    body = chat(("p_read", '{"n": 1}'), ("p_write", '{"n": 2}'))
    for call in body["choices"][0]["message"]["tool_calls"]:
        call["id"] = "same"
    got = await run(client, body)
    assert [one["tool_call_id"] for one in got["messages"]] == ["same"]
    assert [one["is_error"] for one in got["results"]] == [False, True]
    assert upstream.requests == ["GET /read?n=1"]


async def test_a_call_that_was_not_made_for_its_id_has_no_duplicates(client, upstream) -> None:
    body = chat(
        *(("p_write", f'{{"n": {n}}}') for n in (1, 2, 2)), *(("p_read", f'{{"n": {n}}}') for n in (3, 3))
    )
    ids = ["same", "same", "other", "same", "another"]
    for call, call_id in zip(body["choices"][0]["message"]["tool_calls"], ids, strict=True):
        call["id"] = call_id
    got = await run(client, body)
    assert sorted(upstream.requests) == ["GET /read?n=3", "POST /write?n=1", "POST /write?n=2"]
    assert [(one["tool_call_id"], json.loads(one["content"])["path"]) for one in got["messages"]] == [
        ("same", "/write?n=1"), ("other", "/write?n=2"), ("another", "/read?n=3"),
    ]  # fmt: skip


async def test_a_call_by_a_meta_tool_is_identical_to_that_of_its_tool(client, upstream) -> None:
    inner = {name: json.dumps({"name": name, "arguments": {"n": 1}}) for name in ("p_read", "p.write")}
    got = await run(
        client,
        chat(
            ("p_write", '{"n": 1}'), ("call_tool", inner["p.write"]), ("call_tool", inner["p.write"]),
            ("call_read_tool", inner["p_read"]), ("p_read", '{"n": 1}'),
        ),
    )  # fmt: skip
    assert sorted(upstream.requests) == ["GET /read?n=1", "POST /write?n=1"]
    assert [one["content"] == "Duplicate tool call skipped." for one in got["messages"]] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert [one["tool"] for one in got["results"]] == ["p.write"] * 3 + ["p.read"] * 2


async def test_one_call_in_two_forms_is_two_results_but_one_effect(client, upstream) -> None:
    def call(name, **wanted):
        return json.dumps({"name": name, "arguments": {"n": 1}, **wanted})

    forms = [{}, {"fields": ["/path"]}, {"fields": ["/sent"]}]
    got = await run(
        client,
        chat(
            *(("call_read_tool", call("p_read", **form)) for form in forms),
            *(("call_tool", call("p_write", **form)) for form in forms),
        ),
    )
    read = [json.loads(one["content"]) for one in got["messages"][:3]]
    assert read == [{"path": "/read?n=1", "sent": ""}, {"path": "/read?n=1"}, {"sent": ""}]
    assert [one["content"] for one in got["messages"][4:]] == ["Duplicate tool call skipped."] * 2
    assert sorted(upstream.requests) == ["GET /read?n=1"] * 3 + ["POST /write?n=1"]


async def test_what_a_call_wants_of_its_result_goes_before_what_the_request_wants(client) -> None:
    calls = [{"name": "p_read", "arguments": {"n": 1}, **wanted} for wanted in ({}, {"fields": ["/sent"]})]
    got = await run(client, chat(*(("call_tool", json.dumps(one)) for one in calls)), fields="/path")
    assert [json.loads(one["content"]) for one in got["messages"]] == [{"path": "/read?n=1"}, {"sent": ""}]


async def test_the_repairs_of_a_call_are_not_said_of_an_identical_one(client, upstream) -> None:
    got = await run(client, chat(("p_read", '{"n": 1,}'), ("p_read", '{"n": 1}')))
    repaired, other = got["messages"]
    assert "comma" in repaired["content"]
    assert "comma" not in other["content"]
    assert [one["notes"] for one in got["results"]][1] == []
    assert upstream.requests == ["GET /read?n=1"]


async def test_calls_run_side_by_side_up_to_the_setting(client, upstream) -> None:
    upstream.wanted = 4
    calls = [("p_slow", f'{{"n": {n}}}') for n in range(1, 7)]
    pending = asyncio.create_task(run(client, chat(*calls)))
    async with asyncio.timeout(10):
        await upstream.arrived.wait()
    upstream.released.set()
    got = await pending
    assert upstream.most == 4
    assert [json.loads(one["content"])["path"] for one in got["messages"]] == [
        f"/slow?n={n}" for n in range(1, 7)
    ]


async def test_a_client_that_disconnects_cancels_its_calls(client, upstream, application) -> None:
    pending = asyncio.create_task(
        client.post("/tool-calls", json=chat(("p_slow", "{}"), ("p_slow", '{"n": 2}')))
    )
    async with asyncio.timeout(10):
        await upstream.arrived.wait()
        pending.cancel()
        await asyncio.wait([pending])
        await upstream.cancelled.wait()


async def test_each_call_is_recorded_with_its_interface(client, application) -> None:
    got = await run(client, chat(("p_read", "{}"), ("p_read", "{broken"), ("p_unknown", "{}")))
    await application.services.call_log.flush()
    records = (await client.get("/calls")).json()["items"]
    assert {one["id"]: (one["interface"], one["outcome"]) for one in records} == {
        got["results"][0]["call_id"]: ("tool-calls", "ok"),
        got["results"][1]["call_id"]: ("tool-calls", "invalid-arguments"),
        got["results"][2]["call_id"]: ("tool-calls", "not-found"),
    }


async def test_a_repeated_request_with_an_idempotency_key_makes_no_call_again(client, upstream) -> None:
    body = chat(("p_write", '{"n": 1}'), ("p_write", '{"n": 2}'))
    responses = [
        await client.post("/tool-calls", json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2)
    ]
    assert responses[0].json()["messages"] == responses[1].json()["messages"]
    assert sorted(upstream.requests) == ["POST /write?n=1", "POST /write?n=2"]


async def test_the_rate_limit_of_the_key_counts_each_call(application, tools) -> None:
    limited = await application.client("tools:call", rate=RateLimit(2, 60, 2))
    got = await run(limited, chat(*[("p_read", f'{{"n": {n}}}') for n in (1, 2, 3)]))
    assert sorted(one["status"] for one in got["results"]) == [200, 200, 429]
    assert [one["retry_after"] > 0 for one in got["results"] if one["is_error"]] == [True]


async def test_a_tool_that_the_key_may_not_see_is_unknown(application, tools, upstream) -> None:
    restricted = await application.client("tools:call", providers=["other"])
    got = await run(restricted, chat(("p_read", "{}"), ("p_raed", "{broken")))
    assert [one["is_error"] for one in got["results"]] == [True, True]
    assert "p_read" not in got["messages"][1]["content"]
    assert "minimum" not in json.dumps(got)
    assert upstream.requests == []


async def test_numbers_keep_their_digits(client) -> None:
    for body, path in (
        (
            {"candidates": [{"content": {"parts": [{"functionCall": {"name": "p_precise", "args": {}}}]}}]},
            b'"output":{"n": 1.10}',
        ),
        ([{"toolUse": {"toolUseId": "t", "name": "p_precise", "input": {}}}], b'{"json":{"n": 1.10}}'),
    ):
        response = await client.post("/tool-calls", json=body)
        assert path in response.content


async def test_binary_results_have_the_form_of_the_dialect(client) -> None:
    use = [
        {"type": "tool_use", "id": "t1", "name": "p_image", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "p_pdf", "input": {}},
    ]
    (message,) = (await run(client, {"stop_reason": "tool_use", "content": use}))["messages"]
    kinds = [[block["type"] for block in result["content"]] for result in message["content"]]
    assert kinds == [["text", "image"], ["text", "document"]]
    assert message["content"][0]["content"][1]["source"]["media_type"] == "image/png"
    text_only = await run(client, chat(("p_image", "{}")))
    assert "takes no image/png" in text_only["messages"][0]["content"]
    assert len(PNG) + len(PDF) > 0


@for_each(
    ("body", "parameters", "status", "pointers"),
    [
        pytest.param(b"", {}, 400, [""], id="empty"),
        pytest.param(b"{", {}, 400, [""], id="no-json"),
        pytest.param(b"{}", {}, 422, [""], id="no-dialect"),
        pytest.param(b"[]", {"format": "openai-chat", "stream": "maybe"}, 422, ["#/query/stream"], id="query-value"),
        pytest.param(b"[]", {"format": "klingon"}, 422, ["#/query/format"], id="unknown-format"),
        pytest.param(b"[]", {"max_bytes": "3"}, 422, ["#/query/max_bytes"], id="budget-too-small"),
        pytest.param(b"[]", {"nonsense": "3"}, 422, ["#/query/nonsense"], id="unknown-parameter"),
        pytest.param(b'{"choices": []}', {}, 422, ["/choices"], id="no-choice"),
        pytest.param(b'{"content": [1]}', {"format": "anthropic"}, 422, ["/content/0"], id="no-block"),
        pytest.param(b'{"tool_calls": [{}]}', {"format": "mistral"}, 422, ["/tool_calls/0/function"], id="no-call"),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_read_gets_a_problem_with_pointers(
    client, body, parameters, status, pointers
) -> None:
    response = await client.post(
        "/tool-calls", content=body, params=parameters, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert [one["pointer"] for one in response.json()["errors"]] == pointers


async def test_more_calls_than_a_request_may_have_are_413(client, upstream) -> None:
    response = await client.post("/tool-calls", json=chat(*[("p_read", "{}")] * 129))
    assert (response.status_code, response.json()["limit"]) == (413, 128)
    assert upstream.requests == []


async def test_the_scope_of_calls_is_needed(application, tools) -> None:
    reader = await application.client("tools:read")
    assert (await reader.post("/tool-calls", json=chat(("p_read", "{}")))).status_code == 403


async def test_an_unknown_toolset_is_404(client) -> None:
    response = await client.post("/toolsets/nowhere/tool-calls", json=chat(("p_read", "{}")))
    assert response.status_code == 404


async def test_meta_tools_are_called_like_tools(client, upstream) -> None:
    inner = json.dumps({"name": "p_read", "arguments": {"n": 3}})
    got = await run(
        client, chat(("find_tools", '{"query": "read"}'), ("call_read_tool", inner), ("call_tool", "{broken"))
    )
    assert [(one["is_error"], one["status"]) for one in got["results"]] == [
        (False, 200),
        (False, 200),
        (True, 422),
    ]
    assert "p_read" in got["messages"][0]["content"]
    assert upstream.requests == ["GET /read?n=3"]


async def test_a_result_over_the_budget_is_cut_and_the_rest_is_read_without_another_call(
    client, upstream
) -> None:
    upstream.listed = [{"n": n, "text": "x" * 20} for n in range(100)]
    got = await run(client, chat(("p_many", "{}")), max_bytes="600")
    (result,) = got["results"]
    assert len(got["messages"][0]["content"]) < 1_200
    assert result["continuation"] in got["messages"][0]["content"]
    more = json.dumps({"continuation": result["continuation"]})
    rest = await run(client, chat(("read_more", more)), max_bytes="20000")
    assert '"n":99' in rest["messages"][0]["content"].replace(" ", "")
    assert upstream.requests == ["GET /many"]


async def test_what_an_export_changed_is_undone(client, upstream) -> None:
    body = chat(("p_read", '{"n": 4, "color": null}'))
    plain = await run(client, body, strict="false")
    assert "null" in plain["results"][0]["notes"][0]
    strict = await run(client, body, format="openai-chat", strict="true")
    # An export with `strict` asks for the null, so that there is nothing to repair.
    assert strict["results"][0]["notes"] == []
    assert [one["results"][0]["status"] for one in (plain, strict)] == [200, 200]
    assert upstream.requests == ["GET /read?n=4"] * 2


async def test_a_name_that_an_arguments_object_has_twice_is_an_error_of_that_call_alone(
    client, upstream
) -> None:
    body = b"""[{"type": "tool_use", "id": "t1", "name": "p_read", "input": {"n": 1, "n": 2}},
                {"type": "tool_use", "id": "t2", "name": "p_read", "input": {"n": 3}}]"""
    response = await client.post("/tool-calls", content=body, headers={"Content-Type": "application/json"})
    assert [one["status"] for one in response.json()["results"]] == [422, 200]
    assert upstream.requests == ["GET /read?n=3"]


@pytest.mark.parametrize("number", [1, 2])
async def test_arguments_that_are_nested_too_deeply_are_an_error_of_their_call(client, number) -> None:
    deep = '{"n": ' + "[" * 400 + "]" * 400 + "}"
    got = await run(client, chat(*[("p_read", deep)] * number, ("p_write", "{}")))
    *rejected, made = got["results"]
    assert [(one["status"], one["error"]["detail"]) for one in rejected] == [
        (422, "The arguments are nested too deeply.")
    ] * number
    assert made["status"] == 200


async def test_the_results_of_a_request_share_what_they_may_have(client, upstream) -> None:
    upstream.listed = [{"n": n, "text": "x" * 100} for n in range(3_000)]
    got = await run(client, chat(*[("p_many", "{}")] * 100), max_bytes=str(16 << 20))
    assert all(len(one["content"]) < (16 << 20) // 100 for one in got["messages"])


async def test_images_of_all_results_are_bounded_together(client) -> None:
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "p_large", "input": {}} for n in range(4)]
    got = await run(client, calls)
    assert [len(str(block["content"])) > 5_000_000 for block in got["messages"][0]["content"]] == [
        True, True, True, False,
    ]  # fmt: skip
    assert "left out" in got["results"][3]["notes"][0]


async def test_a_tool_with_the_name_of_a_meta_tool_gets_none_of_its_calls(
    application, client, upstream
) -> None:
    services = application.services
    provider = await store_provider(services.database, "call")
    template = {"call_template_type": "http", "http_method": "POST", "url": f"{upstream.url}/taken"}
    await store_tool(services.database, provider, "tool", call_template=template, agent_name="call_tool")
    await services.feed.catch_up()
    for reader in (services.search, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    await run(client, chat(("call_tool", '{"name": "p_read", "arguments": {"n": 1}}'), ("call.tool", "{}")))
    assert sorted(upstream.requests) == ["GET /read?n=1", "POST /taken"]


NULLABLE = {
    "type": "object",
    "properties": {
        "body": {
            "type": "object",
            "properties": {
                "note": {"type": ["string", "null"], "default": None},
                "title": {"type": "string"},
            },
            "additionalProperties": False,
        }
    },
    "required": ["body"],
    "additionalProperties": False,
}


@pytest.fixture
async def nullable(application, upstream, tools) -> str:
    """A tool whose body has a member that may be null; upstreams clear members so."""
    services = application.services
    provider = await store_provider(services.database, "nulls")
    template = {
        "call_template_type": "http", "http_method": "POST", "url": f"{upstream.url}/change", "body_field": "body",
    }  # fmt: skip
    await store_tool(
        services.database, provider, "change", call_template=template, inputs=NULLABLE, agent_name="nulls_change"
    )  # fmt: skip
    await services.feed.catch_up()
    for reader in (services.search, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    return "nulls_change"


def calls_by_dialect(name, arguments):
    """Return a call in the form of each dialect whose form tells it."""
    text = json.dumps(arguments)
    return {
        "openai-chat": chat((name, text)),
        "openai-responses": {"output": [{"type": "function_call", "call_id": "c", "name": name, "arguments": text}]},
        "anthropic": {"content": [{"type": "tool_use", "id": "c", "name": name, "input": arguments}], "stop_reason": "tool_use"},
        "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"name": name, "args": arguments}}]}}]},
        "bedrock": {"output": {"message": {"content": [{"toolUse": {"toolUseId": "c", "name": name, "input": arguments}}]}}},
        "cohere": {"message": {"tool_calls": chat((name, text))["choices"][0]["message"]["tool_calls"]}, "finish_reason": "TOOL_CALL"},
        "ollama": {"message": {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}, "done": True},
        "ai-sdk": {"toolCalls": [{"toolCallId": "c", "toolName": name, "input": arguments}]},
        "langchain": {"type": "ai", "content": "", "tool_calls": [{"name": name, "args": arguments, "id": "c"}]},
        "mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}},
        "utcp": {"tool_name": name, "arguments": arguments},
        "json-prompt": json.dumps({"tool_name": name, "arguments": arguments}),
    }  # fmt: skip


@for_each("dialect", calls_by_dialect("", {}))
@for_each("arguments", [{"note": None}, {"title": "a", "note": None}, {"title": "a"}])
async def test_null_is_sent_where_the_tool_accepts_it_and_no_format_is_given(
    client, nullable, dialect, arguments
) -> None:
    body = calls_by_dialect(nullable, {"body": arguments})[dialect]
    got = await run(client, body)
    assert got["format"] == dialect
    (result,) = got["results"]
    assert (result["is_error"], result["status"]) == (False, 200), got
    assert json.dumps(arguments, separators=(",", ":")) in json.dumps(got["messages"]).replace("\\", "")


async def test_parts_and_form_of_results_are_chosen_for_the_request(client, upstream):
    upstream.listed = [{"id": number, "name": f"n{number}", "text": "x" * 50} for number in range(3)]
    got = await run(client, chat(("p_many", "{}")), fields="$[*].id $[*].name", result_format="csv")
    content = got["messages"][0]["content"]
    assert content.splitlines() == ["id,name", "0,n0", "1,n1", "2,n2"]
    inner = {"name": "p_many", "arguments": {}, "fields": ["$[*].id"]}
    got = await run(client, chat(("call_tool", inner)), fields="$[*].name")
    assert json.loads(got["messages"][0]["content"]) == [{"id": 0}, {"id": 1}, {"id": 2}]
    found = await run(client, chat(("find_tools", {"query": "many"})), fields="/none", result_format="csv")
    assert "p_many" in found["messages"][0]["content"]
    for query, pointer in (({"fields": "a.b"}, "fields"), ({"result_format": "xml"}, "result_format")):
        wrong = await client.post("/tool-calls", params=query, json=chat(("p_many", "{}")))
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, f"#/query/{pointer}")


async def test_hint_about_a_deadline_names_no_header(client, upstream):
    late = await client.post("/tool-calls", json=chat(("p_slow", "{}")), headers={"X-Timeout-Ms": "300"})
    result = late.json()["results"][0]
    assert (result["is_error"], result["status"]) == (True, 504)
    assert "X-Timeout-Ms" not in late.text
    assert "provider" in result["error"]["hint"]
