"""Outcomes of calls as a model reads them: real calls of an upstream in the same loop."""

import asyncio
import gzip
import json

import pytest
from aiohttp import web

from app.calls.results import Media, error_result, read_result
from app.calls.results.bodies import MAX_MEDIA_BYTES, read_body
from app.calls.results.problems import approval_result
from tests.harness.cases import for_each

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@for_each(
    ("media_type", "body", "text", "structured"),
    [
        pytest.param("application/json", b'{"b": 1.10}', '{"b": 1.10}', b'{"b": 1.10}', id="json"),
        pytest.param("application/hal+json", b"[1]", "[1]", b"[1]", id="json-suffix"),
        pytest.param(
            "application/json; charset=utf-16", '{"a":"é"}'.encode("utf-16"), '{"a":"é"}',
            '{"a":"é"}'.encode(), id="utf-16",
        ),
        pytest.param("application/json", b"\xef\xbb\xbf[1]", "[1]", b"[1]", id="byte-order-mark"),
        pytest.param("application/json", b"{not json", "{not json", None, id="broken-json"),
        pytest.param("text/plain; charset=iso-8859-1", b"caf\xe9", "café", None, id="latin-1"),
        pytest.param("application/xml", b"<a/>", "<a/>", None, id="xml"),
        pytest.param("application/yaml", b"a: 1\n", "a: 1\n", None, id="yaml"),
        pytest.param("text/plain", b" \n", "(blank text, HTTP 200)", None, id="blank"),
    ],
)  # fmt: skip
async def test_a_text_is_passed_on_as_it_came(call, upstream, media_type, body, text, structured) -> None:
    upstream.media_type, upstream.body = media_type, body
    result = await read_result(await call())
    assert (result.text, result.body, result.is_error, result.media) == (text, structured, False, ())
    assert result.call_id


async def test_no_content_is_said(call, upstream) -> None:
    upstream.status, upstream.body = 204, b""
    result = await read_result(await call())
    assert result.text == "(no content, HTTP 204)"
    assert result.body is None


@for_each(
    ("media_type", "body", "kind"),
    [
        pytest.param("image/png", PNG, "image/png", id="png"),
        pytest.param("image/jpeg", PNG, "image/png", id="wrongly-stated"),
        pytest.param("application/octet-stream", b"\xff\xd8\xff\xe0", "image/jpeg", id="unstated"),
        pytest.param("image/jpg", b"\x00\xff", "image/jpeg", id="other-name"),
        pytest.param("image/webp", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", id="webp"),
        pytest.param("audio/mpeg", b"ID3\x00\xff", "audio/mpeg", id="audio"),
        pytest.param("application/pdf", b"%PDF-1.7\xff", "application/pdf", id="pdf"),
        pytest.param("application/zip", b"PK\x03\x04", "application/zip", id="zip"),
    ],
)
async def test_a_binary_is_media_and_described(call, upstream, media_type, body, kind) -> None:
    upstream.media_type, upstream.body = media_type, body
    result = await read_result(await call())
    assert result.media == (Media(kind, body),)
    assert result.text.startswith(f"({kind}, {len(body)} bytes, SHA-256 ")


async def test_a_large_image_is_described_only(call, upstream) -> None:
    upstream.media_type, upstream.body = "image/png", PNG + bytes(MAX_MEDIA_BYTES)
    result = await read_result(await call())
    assert result.media == ()
    assert result.text.endswith("It is not included: it has more than 5,242,880 bytes.")


def test_a_body_in_a_content_coding_is_no_text() -> None:
    result = read_body(gzip.compress(b"{}"), "application/json", status=200, content_coding="gzip")
    assert result.text.startswith("(application/json, in the content coding gzip, ")
    assert (result.body, result.media) == (None, ())


@for_each(
    ("media_type", "body", "text", "structured"),
    [
        pytest.param(
            "text/event-stream", b'data: {"a":1}\n\ndata: {"a":2}\n\n', '{"a":1}\n{"a":2}',
            [{"a": 1}, {"a": 2}], id="server-sent",
        ),
        pytest.param("text/event-stream", b'data: {"a":1}\n\n', '{"a":1}', {"a": 1}, id="one"),
        pytest.param("text/event-stream", b"data: x\n\ndata: y\n\n", "x\ny", None, id="texts"),
        pytest.param("application/x-ndjson", b'{"a":1}\n{"a":2}\n', '{"a":1}\n{"a":2}', [{"a": 1}, {"a": 2}], id="lines"),
        pytest.param("text/event-stream", b"", "(no events, HTTP 200)", None, id="none"),
    ],
)  # fmt: skip
@for_each("accepts_events", [False, True], ids=["whole", "events"])
async def test_events_are_collected(
    call, upstream, services, media_type, body, text, structured, accepts_events
) -> None:
    upstream.media_type, upstream.body = media_type, body
    seen = []

    async def on_event(event) -> None:
        seen.append(event.data)

    result = await read_result(await call(accepts_events=accepts_events), on_event=on_event)
    assert result.text == text
    assert (None if result.body is None else json.loads(result.body)) == structured
    assert b"\n".join(seen).decode() == (text if body else "")
    assert services.metrics.calls_in_flight == 0


async def test_events_that_do_not_end_are_a_result_with_a_note(call, upstream, services) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"tick":1}\n\n')
        await asyncio.sleep(30)
        return response

    upstream.respond = respond
    loop = asyncio.get_running_loop()
    outcome = await call(deadline=loop.time() + 1, accepts_events=True)
    result = await read_result(outcome)
    assert result.text.startswith('{"tick":1}\n\nNote: The events end here, after 1: ')
    assert not result.is_error
    assert services.metrics.calls_in_flight == 0


async def test_an_error_response_is_quoted_with_its_provider(call, upstream) -> None:
    upstream.status, upstream.body = 404, b'{"detail":"no such book"}'
    result = await read_result(await call(), base_url="https://gateway.example")
    assert result.text == 'HTTP 404 from p: {"detail":"no such book"}'
    assert result.is_error
    assert result.error["upstream_status"] == 404
    assert result.error["type"] == "urn:utcp-gateway:problem:upstream-rejected"
    assert result.error["documentation_url"].startswith("https://gateway.example/")
    assert result.error["call_id"] == result.call_id


async def test_a_long_error_response_is_an_excerpt(call, upstream) -> None:
    upstream.status, upstream.body, upstream.media_type = 400, b"x" * 9000, "text/plain"
    result = await read_result(await call())
    assert result.text.endswith("x [truncated]")
    assert len(result.text) < 4100


async def test_an_upstream_s_limit_says_when_to_retry(call, upstream) -> None:
    upstream.status, upstream.body, upstream.headers = 429, b"slow down", {"Retry-After": "3600"}
    upstream.media_type = "text/plain"
    result = await read_result(await call("p.write"))
    assert result.text == "HTTP 429 from p: slow down\nRetry in 3600 s."
    assert result.retry_after == 3600


async def test_a_timeout_warns_of_the_effect_of_a_call_that_is_not_safe(call, upstream) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    upstream.respond = respond
    loop = asyncio.get_running_loop()
    result = await read_result(await call("p.write", deadline=loop.time() + 0.3))
    assert result.is_error
    assert "may have had its effect" in result.text
    result = await read_result(await call("p.read", deadline=loop.time() + 0.3))
    assert "may have had its effect" not in result.text


async def test_invalid_arguments_are_listed_by_pointer(call, upstream) -> None:
    result = await read_result(await call(arguments={"n": "x", "color": "gren"}))
    assert result.is_error
    assert "- /n: This must be of type integer." in result.text
    assert "- /color: This must be one of the listed values." in result.text
    assert upstream.requests == []


async def test_an_unknown_tool_has_the_nearest_names(call, services) -> None:
    await services.search.on_changes([])
    result = await read_result(await call("p.raed"))
    assert result.is_error
    assert "There is no tool p.raed." in result.text


async def test_a_call_that_waits_for_approval_has_its_url(call, upstream) -> None:
    outcome = await call("p.approved")
    result = await read_result(outcome, base_url="https://gateway.example")
    assert f"https://gateway.example/approvals/{outcome.approval['id']}" in result.text
    assert result.is_error
    assert upstream.requests == []


def test_what_is_hidden_of_a_call_that_waits_is_listed() -> None:
    hidden = [{"pointer": f"/arguments/{n}", "reason": "declared-secret", "bytes": 6} for n in range(22)]
    waiting = {"id": "x", "state": "pending"}
    text = approval_result(waiting | {"hidden": hidden[:1]}).text
    assert text.endswith("does not see these values: /arguments/0 (declared-secret, 6 bytes).")
    assert approval_result(waiting | {"hidden": hidden}).text.endswith(" and 2 more.")
    assert "does not see" not in approval_result(waiting | {"hidden": []}).text


async def test_an_unexpected_error_shows_no_internals() -> None:
    result = error_result(RuntimeError("password=hunter2"), call_id="c")
    assert result.is_error
    assert "hunter2" not in result.text + json.dumps(result.error)
    assert result.error["error_id"]
