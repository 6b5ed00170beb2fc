"""`stream=true`: each result as soon as its call has ended, and the whole response at the end."""

import asyncio
import json

import pytest


def calls(*names):
    return [
        {"type": "tool_use", "id": f"t{index}", "name": name, "input": {}} for index, name in enumerate(names)
    ]


def events_of(text: str):
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            yield fields["event"], json.loads(fields["data"])


async def test_a_fast_call_is_sent_before_a_slow_one_has_ended(client, upstream) -> None:
    async with (
        asyncio.timeout(15),
        client.stream(
            "POST", "/tool-calls", params={"stream": "true"}, json=calls("p_slow", "p_read")
        ) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        received = ""
        pieces = response.aiter_text()
        async for piece in pieces:
            received += piece
            if "event: result" in received and received.endswith("\n\n"):
                break
        ((kind, first),) = events_of(received)
        assert (kind, first["id"], first["message"]["tool_use_id"]) == ("result", "t1", "t1")
        upstream.released.set()
        rest = "".join([piece async for piece in pieces])
    (_, second), (kind, whole) = events_of(rest)
    assert (second["id"], kind) == ("t0", "end")
    (message,) = whole["messages"]
    assert [block["tool_use_id"] for block in message["content"]] == ["t0", "t1"]
    assert [one["id"] for one in whole["results"]] == ["t0", "t1"]


async def test_lines_of_json_for_a_client_that_accepts_these(client) -> None:
    response = await client.post(
        "/tool-calls?stream=1", json=calls("p_read", "p_fail"), headers={"Accept": "application/x-ndjson"}
    )
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert sorted(lines[-1]) == ["end"]
    assert sorted(line["result"]["id"] for line in lines[:-1]) == ["t0", "t1"]
    whole = await client.post("/tool-calls", json=calls("p_read", "p_fail"))
    assert lines[-1]["end"]["messages"] == whole.json()["messages"]


async def test_a_stream_without_calls_has_only_its_end(client) -> None:
    response = await client.post("/tool-calls?stream=true&format=anthropic", json={"content": []})
    ((kind, whole),) = events_of(response.text)
    assert (kind, whole["messages"]) == ("end", [])


async def test_a_client_that_leaves_a_stream_cancels_its_calls(client, upstream) -> None:
    async with asyncio.timeout(15):
        async with client.stream("POST", "/tool-calls?stream=true", json=calls("p_slow")):
            await upstream.arrived.wait()
        await upstream.cancelled.wait()


@pytest.mark.parametrize("query", ["stream=true&stream=true", "stream=later"])
async def test_a_request_that_cannot_be_read_is_a_problem_and_no_stream(client, query) -> None:
    response = await client.post(f"/tool-calls?{query}", json=[])
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
async def test_json_with_line_breaks_is_one_event(client, accept) -> None:
    call = {"id": "a", "tool_name": "p.lines", "arguments": {}}
    response = await client.post("/tool-calls?stream=1&format=utcp", json=call, headers={"Accept": accept})
    if accept == "text/event-stream":
        (_, one), (_, end) = events_of(response.text)
    else:
        one, end = (json.loads(line) for line in response.text.splitlines())
        one, end = one["result"], end["end"]
    assert one["message"]["result"] == {"total": 1, "items": []}
    assert end["messages"] == [one["message"]]
