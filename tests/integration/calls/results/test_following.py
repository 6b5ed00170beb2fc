"""All pages of a list, and operations that are polled until they are done: real calls of an upstream that has them."""

import json

import pytest
from aiohttp import web

from app.calls import CallRequest, execute
from app.calls.results import ResultBudget, read_result
from app.catalog.feed import ChangeNotice
from app.core.errors import UpstreamRejected
from tests.harness.cases import for_each
from tests.integration.calls.results.conftest import principal
from tests.stored import clear, store_provider, store_tool

INPUTS = {
    "type": "object",
    "properties": {name: {"type": ["integer", "string"]} for name in ("cursor", "page", "offset", "limit")},
    "additionalProperties": False,
}
ITEMS = [{"id": number, "price": 1.10, "text": "x" * 60} for number in range(7)]


class Lists:
    """An upstream with a list of seven items, three for each page, whose requests are in `seen`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []
        self.link = '<?offset={}>; rel="next"'
        self.polls = 2
        self.done_status = 200
        self.location = "/operations/1"
        self.fails_at: int | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, request.headers.get("X-Static")))
        query = request.query
        if request.path.startswith("/operations"):
            self.polls -= 1
            if self.polls > 0:
                return web.json_response({"state": "running"}, status=202, headers={"Retry-After": "0"})
            return web.json_response({"state": "done"}, status=self.done_status)
        if request.path == "/start":
            return web.json_response(
                {"state": "begun"}, status=202, headers={"Retry-After": "0", "Location": self.location}
            )
        offset = int(query.get("offset", "0"))
        if "page" in query:
            offset = 3 * (int(query["page"]) - 1)
        if query.get("cursor"):
            offset = int(query["cursor"].removeprefix("c"))
        if self.fails_at is not None and offset >= self.fails_at:
            return web.json_response({"detail": "no"}, status=403)
        part, after = ITEMS[offset : offset + 3], offset + 3
        more = after < len(ITEMS)
        if request.path == "/root":
            headers = {"Link": self.link.format(after)} if more else {}
            return web.json_response(part, headers={**headers, "ETag": '"1"'})
        body = {"total": 7, "data": {"items": part}, "next_cursor": f"c{after}" if more else None}
        body["next"] = f"{request.url.origin()}/object?offset={after}" if more else None
        return web.json_response(body)


@pytest.fixture
async def lists(upstream) -> Lists:
    lists = Lists()
    upstream.respond = lists.handle
    return lists


@pytest.fixture
async def run(services, upstream, lists):
    """`await run(path, options)` is the outcome of a call of a new tool with these response options."""
    assert lists.seen == []
    await clear(services.database)
    provider = await store_provider(services.database, "p", limits={"total": 5})

    async def run(path, options, arguments=None, *, method="GET", **fields):
        name = f"t{len(lists.seen)}"
        template = {
            "call_template_type": "http", "http_method": method, "url": f"{upstream.url}{path}",
            "headers": {"X-Static": "own"},
        }  # fmt: skip
        await store_tool(
            services.database, provider, name, call_template=template, inputs=INPUTS,
            override={"response_options": options},
        )  # fmt: skip
        await services.feed.catch_up()
        await services.catalog.on_changes([ChangeNotice("all")])
        request = CallRequest(principal(), f"p.{name}", "test", arguments=arguments or {}, **fields)
        return await execute(request, services.calls)

    return run


OBJECT = {"items": "/data/items"}


@for_each(
    ("path", "pages", "count"),
    [
        pytest.param("/root", {"by": "link"}, 3, id="link"),
        pytest.param("/object", {"by": "next", "pointer": "/next", **OBJECT}, 3, id="next"),
        pytest.param("/object", {"by": "cursor", "pointer": "/next_cursor", "argument": "cursor", **OBJECT}, 3, id="cursor"),
        pytest.param("/object", {"by": "page", "argument": "page", **OBJECT}, 3, id="page"),
        pytest.param("/object", {"by": "offset", "argument": "offset", **OBJECT}, 3, id="offset"),
    ],
)  # fmt: skip
async def test_all_pages_are_one_response(run, lists, path, pages, count) -> None:
    outcome = await run(path, {"all_pages": pages})
    assert outcome.error is None
    value = json.loads(await outcome.result.read())
    items = value if path == "/root" else value["data"]["items"]
    assert items == ITEMS
    headers = dict(outcome.result.headers)
    assert headers["X-Pages"] == str(count)
    assert not {"Link", "ETag"} & headers.keys()
    assert {header for _, _, header in lists.seen} == {"own"}
    if path == "/object":
        assert value["total"] == 7


async def test_the_number_of_pages_is_bounded(run, lists) -> None:
    outcome = await run("/root", {"all_pages": {"by": "link", "max_pages": 2}})
    assert json.loads(await outcome.result.read()) == ITEMS[:6]
    assert dict(outcome.result.headers)["X-Pages"] == "2;more"
    assert len(lists.seen) == 2
    result = await read_result(outcome)
    assert result.text.endswith("\n\nNote: The list has further pages, which were not read.")


@pytest.mark.parametrize("max_bytes", [256, 100_000])
async def test_the_note_about_further_pages_is_kept_in_a_budget(run, max_bytes) -> None:
    outcome = await run("/root", {"all_pages": {"by": "link", "max_pages": 2}})
    result = await read_result(outcome, budget=ResultBudget(max_bytes=max_bytes))
    assert result.text.count("Note: The list has further pages") == 1
    shown = json.loads(result.content)
    assert shown == ITEMS[: len(shown)]
    assert (len(shown) < 6) is (max_bytes == 256)


async def test_an_error_after_the_first_page_ends_the_list(run, lists) -> None:
    lists.fails_at = 3
    outcome = await run("/root", {"all_pages": {"by": "link"}})
    assert json.loads(await outcome.result.read()) == ITEMS[:3]
    assert dict(outcome.result.headers)["X-Pages"] == "1;more"


async def test_a_list_that_repeats_itself_ends(run, lists) -> None:
    lists.link = "<?offset=0>; rel=next"
    outcome = await run("/root", {"all_pages": {"by": "link"}})
    assert json.loads(await outcome.result.read()) == ITEMS[:3]
    assert len(lists.seen) == 2


@for_each(
    "link",
    [
        pytest.param("<http://127.0.0.1:1/root?offset=3>; rel=next", id="other-port"),
        pytest.param("<//evil.example/root>; rel=next", id="other-host"),
        pytest.param("<http://user:pass@{}/root>; rel=next", id="user"),
        pytest.param("<javascript:alert(1)>; rel=next", id="no-url"),
        pytest.param("<?offset=3>; rel=last", id="other-relation"),
    ],
)
async def test_a_link_to_elsewhere_is_not_followed(run, lists, upstream, link) -> None:
    lists.link = link.replace("{}", upstream.url.removeprefix("http://"))
    before = len(lists.seen)
    outcome = await run("/root", {"all_pages": {"by": "link"}})
    assert json.loads(await outcome.result.read()) == ITEMS[:3]
    assert len(lists.seen) == before + 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_pages_of_a_tool_with_effects_are_not_read(run, lists, method) -> None:
    outcome = await run("/root", {"all_pages": {"by": "link"}}, method=method)
    assert json.loads(await outcome.result.read()) == ITEMS[:3]
    assert len(lists.seen) == 1


async def test_what_is_no_such_list_is_unchanged(run, lists) -> None:
    outcome = await run("/object", {"all_pages": {"by": "link"}})
    assert json.loads(await outcome.result.read())["total"] == 7
    assert "X-Pages" not in dict(outcome.result.headers)
    assert len(lists.seen) == 1


async def test_an_operation_is_polled_until_it_is_done(run, lists) -> None:
    outcome = await run("/start", {"poll": True}, method="POST")
    assert json.loads(await outcome.result.read()) == {"state": "done"}
    assert outcome.result.status == 200
    assert [(method, path) for method, path, _ in lists.seen] == [
        ("POST", "/start"), ("GET", "/operations/1"), ("GET", "/operations/1"),
    ]  # fmt: skip


async def test_without_the_option_an_operation_is_not_polled(run, lists) -> None:
    outcome = await run("/start", {"poll": False}, method="POST")
    assert outcome.result.status == 202
    assert len(lists.seen) == 1


async def test_an_operation_elsewhere_is_not_polled(run, lists) -> None:
    lists.location = "http://127.0.0.1:1/operations/1"
    outcome = await run("/start", {"poll": True}, method="POST")
    assert outcome.result.status == 202
    assert len(lists.seen) == 1


async def test_an_operation_that_fails_is_the_error_of_the_call(run, lists) -> None:
    lists.done_status = 409
    outcome = await run("/start", {"poll": True}, method="POST")
    assert isinstance(outcome.error, UpstreamRejected)
    assert outcome.error.response.status == 409


async def test_an_operation_that_is_not_done_by_the_deadline_is_still_accepted(run, lists, services) -> None:
    lists.polls = 10**9
    deadline = services.calls.clock.loop.time() + 0.6
    outcome = await run("/start", {"poll": True}, method="POST", deadline=deadline)
    assert outcome.result.status == 202
    assert json.loads(await outcome.result.read())["state"] in ("running", "begun")


async def test_items_that_are_nested_too_deeply_are_the_first_page_as_it_came(run, upstream) -> None:
    page = b"[" * 400 + b"]" * 400

    async def respond(_request: web.Request) -> web.Response:
        headers = {"Link": '<?page=2>; rel="next"'}
        return web.Response(body=page, content_type="application/json", headers=headers)

    upstream.respond = respond
    outcome = await run("/deep", {"all_pages": {"by": "link"}})
    assert outcome.error is None
    assert await outcome.result.read() == page


async def test_a_first_page_above_the_limit_is_passed_on_without_being_held(run, upstream) -> None:
    body = json.dumps([{"text": "x" * (17 << 20)}]).encode()

    async def respond(_request):
        headers = {"Link": '</next>; rel="next"'}
        return web.Response(body=body, content_type="application/json", headers=headers)

    upstream.respond = respond
    outcome = await run("/root", {"all_pages": {"by": "link"}})
    assert outcome.result.body is None
    assert b"".join([piece async for piece in outcome.result.iterate()]) == body
    assert dict(outcome.result.headers)["X-Pages"] == "1;more"
    assert len(upstream.requests) == 1


async def test_large_pages_are_one_list(run, upstream) -> None:
    pages = [[{"number": number, "price": 0.1, "text": "x" * 70_000}] for number in range(3)]

    async def respond(request):
        number = int(request.query.get("offset", "0"))
        headers = {"Link": f'<?offset={number + 1}>; rel="next"'} if number < 2 else {}
        return web.json_response(pages[number], headers=headers)

    upstream.respond = respond
    outcome = await run("/root", {"all_pages": {"by": "link"}})
    assert json.loads(await outcome.result.read()) == [item for page in pages for item in page]
