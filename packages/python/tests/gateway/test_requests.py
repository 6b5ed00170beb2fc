"""Requests of the client: retries, errors, timeouts, and that the key is nowhere else than in its header."""

import json
import logging
import re
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from gateway_peer import Answer, Peer, peer, problem

from utcp_gateway_client.gateway import ApprovalPending, AsyncGateway, CallOptions, Gateway, errors

KEY = "ugw_canary_0123456789abcdef"


@pytest.fixture
def server() -> Iterator[Peer]:
    with peer() as running:
        yield running


@pytest.fixture
def gateway(server: Peer) -> Iterator[Gateway]:
    with Gateway(server.url, KEY, timeout=20) as made:
        yield made


def test_dropped_connection_is_repeated_with_the_same_idempotency_key(server, gateway):
    server.answers += [Answer(drop=True), Answer(body={"total": 1})]
    assert gateway.call("shop.order", {"book": "bk-1"}) == {"total": 1}
    first, second = server.received
    assert (first.method, first.path, first.body) == ("POST", "/tools/shop.order/call", b'{"book":"bk-1"}')
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["user-agent"].startswith("utcp-gateway-client/")
    assert 0 < int(second.headers["x-timeout-ms"]) < 20_000


def test_two_calls_have_two_idempotency_keys(server, gateway):
    server.answers += [Answer(body=1), Answer(body=2)]
    assert [gateway.call("shop.order"), gateway.call("shop.order")] == [1, 2]
    assert len({request.headers["idempotency-key"] for request in server.received}) == 2


def test_given_idempotency_key_is_sent(server, gateway):
    server.answers.append(Answer(body=1))
    gateway.call("shop.order", {}, CallOptions(idempotency_key="order-7", max_bytes=500, repair="safe"))
    headers = server.received[0].headers
    assert (headers["idempotency-key"], headers["prefer"]) == ("order-7", "max-bytes=500, repair=safe")


@pytest.mark.parametrize(("status", "slug"), [(429, "rate-limited"), (503, "overloaded"), (503, "stopping")])
def test_retryable_problems_are_repeated(server, gateway, status, slug):
    server.answers += [problem(status, slug, retryable=True, retry_after=0), Answer(body="done")]
    assert gateway.call("shop.order") == "done"


def test_problem_that_is_not_retryable_is_raised_at_once(server, gateway):
    members = {"errors": [{"pointer": "/limit", "detail": "Must be an integer.", "expected": "integer"}]}
    server.answers.append(problem(422, "invalid-arguments", hint="Correct it.", call_id="c-1", **members))
    with pytest.raises(errors.InvalidArguments) as caught:
        gateway.call("shop.order", {"limit": "x"})
    error = caught.value
    assert error.errors == [errors.FieldError("/limit", "Must be an integer.", "integer")]
    assert (error.status, error.slug, error.hint, error.call_id) == (
        422,
        "invalid-arguments",
        "Correct it.",
        "c-1",
    )
    assert "/limit: Must be an integer." in str(error)
    assert len(server.received) == 1


def test_retries_end(server, gateway):
    server.answers += [problem(503, "unavailable", retryable=True, retry_after=0) for _ in range(4)]
    with pytest.raises(errors.Unavailable):
        gateway.me()
    assert len(server.received) == 4


def test_retry_after_beyond_the_timeout_is_raised_at_once(server, gateway):
    server.answers.append(problem(429, "rate-limited", retryable=True, retry_after=3600))
    with pytest.raises(errors.RateLimited) as caught:
        gateway.call("shop.order")
    assert caught.value.retry_after == 3600


def test_call_that_still_runs_is_waited_for_beyond_the_number_of_retries(server):
    server.answers += [problem(409, "idempotency-running", retryable=True, retry_after=0) for _ in range(5)]
    server.answers.append(Answer(body="done"))
    with Gateway(server.url, KEY, retries=1) as gateway:
        assert gateway.call("shop.order") == "done"


def test_error_of_a_proxy_is_repeated_and_then_raised(server):
    server.answers += [
        Answer(502, b"<html>", media_type="text/html"),
        Answer(502, b"", media_type="text/html"),
    ]
    with Gateway(server.url, KEY, retries=1) as gateway, pytest.raises(errors.UnexpectedResponse) as caught:
        gateway.call("shop.order")
    assert caught.value.status == 502
    assert len(server.received) == 2


def test_slow_response_is_a_timeout(server):
    server.answers.append(Answer(body={}, delay=0.5))
    with (
        Gateway(server.url, KEY, timeout=0.2, retries=0) as gateway,
        pytest.raises(errors.GatewayTimeout) as caught,
    ):
        gateway.me()
    assert caught.value.sent


def test_server_that_accepts_no_connection_is_a_timeout():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        # The queue of connections is full, so that the next one is not accepted.
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            with (
                Gateway(f"http://127.0.0.1:{address[1]}", KEY, timeout=0.2, retries=0) as gateway,
                pytest.raises(errors.GatewayTimeout) as caught,
            ):
                gateway.me()
        finally:
            for each in waiting:
                each.close()
    assert (caught.value.sent, caught.value.retryable) == (False, True)


def test_wait_for_a_free_connection_that_is_too_long_is_a_timeout(server):
    server.answers += [Answer(body=STREAM, media_type="text/event-stream")]
    limits = httpx2.Limits(max_connections=1)
    # The stream is not read, so it holds the only connection.
    with (
        Gateway(server.url, KEY, timeout=0.2, retries=0, limits=limits) as gateway,
        gateway.stream("shop.prices"),
        pytest.raises(errors.GatewayTimeout) as caught,
    ):
        gateway.me()
    assert (caught.value.sent, len(server.received)) == (False, 1)


async def test_slow_response_is_a_timeout_of_the_async_client(server):
    server.answers.append(Answer(body={}, delay=0.5))
    async with AsyncGateway(server.url, KEY, timeout=0.2, retries=0) as gateway:
        with pytest.raises(errors.GatewayTimeout):
            await gateway.me()


def test_address_without_a_server_is_unreachable():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with Gateway(url, KEY, retries=0) as gateway, pytest.raises(errors.GatewayUnreachable) as caught:
            gateway.me()
    assert caught.value.sent is False


def test_response_that_is_not_of_the_contract(server, gateway):
    server.answers += [Answer(body={"hello": 1}), Answer(body=b"<html>", media_type="text/html")]
    for _ in range(2):
        with pytest.raises(errors.UnexpectedResponse):
            gateway.me()


def test_connection_is_used_again(server, gateway):
    server.answers += [Answer(body=1), Answer(body=2)]
    gateway.call("shop.order")
    gateway.call("shop.order")
    assert len(gateway._transport.http._transport._pool.connections) == 1


@pytest.mark.parametrize(
    ("media_type", "body", "value"),
    [
        ("application/json", b'{"a":1}', {"a": 1}),
        ("application/hal+json", b"[1]", [1]),
        ("text/plain; charset=latin-1", b"\xe9", "\xe9"),
        ("image/png", b"\x89PNG\x00", b"\x89PNG\x00"),
        ("", b"", None),
    ],
)
def test_values(server, gateway, media_type, body, value):
    server.answers.append(Answer(body=body, media_type=media_type))
    assert gateway.call("shop.order") == value


STREAM = (
    b': heartbeat\n\ndata: {"gold":41}\n\nevent: price\nid: 7\ndata: plain\n\n'
    b'event: gateway-text\ndata: "a\xe2\x80\xa8b"\n\nevent: gateway-bytes\ndata: {"media_type":"x/y","base64":"AAE="}\n\n'
)


def test_stream(server, gateway):
    end = b'event: gateway-end\ndata: {"events":4}\n\n'
    server.answers.append(Answer(body=STREAM + end, media_type="text/event-stream"))
    with gateway.stream("shop.prices") as stream:
        events = [(event.event, event.id, event.data) for event in stream]
    assert events == [
        ("", "", {"gold": 41}), ("price", "7", "plain"), ("", "", "a\u2028b"), ("", "", b"\x00\x01"),
    ]  # fmt: skip
    assert stream.end == {"events": 4}


def test_streamed_call_is_not_repeated_once_it_was_sent(server, gateway):
    server.answers.append(Answer(drop=True))
    with pytest.raises(errors.GatewayUnreachable) as caught:
        gateway.stream("shop.prices")
    assert caught.value.sent
    assert "idempotency-key" not in server.received[0].headers
    with pytest.raises(ValueError, match="Idempotency-Key"):
        gateway.stream("shop.prices", {}, CallOptions(idempotency_key="a"))


def test_stream_without_its_last_event_is_broken(server, gateway):
    server.answers.append(Answer(body=STREAM, media_type="text/event-stream"))
    with pytest.raises(errors.StreamBroken):
        list(gateway.stream("shop.prices"))


def test_error_in_a_stream_is_raised_after_its_events(server, gateway):
    last = (
        b'event: gateway-error\ndata: {"type":"urn:utcp-gateway:problem:upstream-timeout","status":504}\n\n'
    )
    server.answers.append(Answer(body=STREAM + last, media_type="text/event-stream"))
    stream = gateway.stream("shop.prices")
    seen = []
    with pytest.raises(errors.UpstreamTimeout):
        seen.extend(event.data for event in stream)
    assert len(seen) == 4


def test_call_that_waits_for_approval(server, gateway):
    approval = {
        "id": "019a0000-0000-7000-8000-000000000014", "kind": "call", "state": "pending",
        "subject": {"type": "tool", "name": "shop.order", "provider": "shop"}, "requested_by": "k",
        "requested_at": "2026-11-22T09:00:00Z", "expires_at": "2026-11-22T09:00:00Z", "decided_by": None,
        "decided_at": None, "comment": "", "ended_at": None, "call_id": None, "failure": None,
        "arguments": {}, "operations": None, "operation_count": None,
    }  # fmt: skip
    result = {"call_id": None, "upstream_status": 200, "media_type": "application/json", "json": {"total": 1}}
    server.answers += [
        Answer(202, {"approval": approval}, {"X-Call-Id": approval["id"]}), Answer(body=approval),
        Answer(body={**approval, "state": "executed"}), Answer(body=result),
    ]  # fmt: skip
    with pytest.raises(ApprovalPending) as caught:
        gateway.call("shop.order")
    assert caught.value.wait() == {"total": 1}
    server.answers.append(Answer(body={**approval, "state": "rejected", "comment": "No."}))
    with pytest.raises(errors.ApprovalDenied) as denied:
        caught.value.wait()
    assert denied.value.comment == "No."


async def test_async_client_has_the_same_rules(server):
    end = b'event: gateway-end\ndata: {"events":4}\n\n'
    server.answers += [
        Answer(drop=True), Answer(body={"total": 1}), Answer(body=STREAM + end, media_type="text/event-stream"),
        problem(404, "not-found", suggestions=["shop.orders"]),
    ]  # fmt: skip
    async with AsyncGateway(server.url, KEY) as gateway:
        assert await gateway.call("shop.order") == {"total": 1}
        async with await gateway.stream("shop.prices") as stream:
            assert [event.event async for event in stream] == ["", "price", "", ""]
        assert stream.end == {"events": 4}
        with pytest.raises(errors.NotFound) as caught:
            await gateway.tool("shop.ordr")
    assert caught.value.suggestions == ["shop.orders"]


def test_both_clients_have_the_same_methods():
    def methods(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert {"close", "as_async", *methods(AsyncGateway)} - {"aclose"} == methods(Gateway)


def test_key_is_in_no_repr_error_or_log(server, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("UTCP_GATEWAY_URL", server.url)
    monkeypatch.setenv("UTCP_GATEWAY_KEY", KEY)
    server.answers += [
        Answer(drop=True),
        problem(500, "internal-error"),
        Answer(body=b"<", media_type="text/html"),
    ]
    texts = []
    with Gateway(retries=0) as gateway:
        for _ in range(3):
            try:
                gateway.me()
            except errors.GatewayError as error:
                texts += [
                    repr(error),
                    str(error),
                    str(vars(error)),
                    "".join(traceback.format_exception(error)),
                ]
        texts += [repr(gateway), repr(gateway._operations.settings), repr(gateway._transport.http)]
    assert [request.headers["authorization"] for request in server.received] == [f"Bearer {KEY}"] * 3
    assert len(texts) == 15
    for text in [*texts, caplog.text]:
        assert KEY not in text
    with pytest.raises(ValueError, match="characters") as caught:
        Gateway(server.url, f"{KEY}\r\nX: y")
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("url", ["", "ftp://a", "http://", "http://user:pw@host", "http://host?x=1"])
def test_url_that_cannot_be_one(monkeypatch, url):
    monkeypatch.delenv("UTCP_GATEWAY_URL", raising=False)
    with pytest.raises(ValueError, match="URL"):
        Gateway(url)


def test_each_slug_of_the_gateway_has_a_class():
    page = (Path(__file__).parents[4] / "docs" / "errors.md").read_text()
    slugs = set(re.findall(r"^\| \[([a-z0-9-]+)\]", page, re.MULTILINE))
    without = slugs - set(errors.ERROR_BY_SLUG)
    # Those of the browser are answered to pages of the console only.
    browser = {"cross-site-request", "https-required"}
    assert without == browser | {"internal-error", "loop-detected", "not-implemented", "seal-broken"}
    assert set(errors.ERROR_BY_SLUG) <= slugs


def test_toolset_has_paths_of_its_own(server):
    answer = {"format": "openai-chat", "messages": [{"role": "tool"}], "results": [], "cut": None}
    server.answers += [Answer(body={"items": []}), Answer(body=answer), Answer(body=1)]
    with Gateway(server.url, KEY, "books") as gateway:
        assert gateway.search("a book") == []
        assert gateway.run({"tool_calls": []}, strict=True) == [{"role": "tool"}]
        gateway.call("find")
    assert [request.path for request in server.received] == [
        "/toolsets/books/search?q=a+book&limit=10",
        "/toolsets/books/tool-calls?strict=true",
        "/toolsets/books/tools/find/call",
    ]
    assert json.loads(server.received[1].body) == {"tool_calls": []}


async def test_async_twin_of_a_client_has_its_settings(server, monkeypatch):
    monkeypatch.setenv("UTCP_GATEWAY_KEY", "ugw_of-the-environment")
    server.answers = [Answer(body={"items": []})] * 2
    for key, expected in ((KEY, f"Bearer {KEY}"), ("", None)):
        with Gateway(server.url, key, "desk") as blocking:
            async with blocking.as_async() as twin:
                assert repr(twin) == f"Async{blocking!r}"
                assert await twin.search("books") == []
        assert server.received[-1].path.startswith("/toolsets/desk/search")
        assert server.received[-1].headers.get("authorization") == expected
