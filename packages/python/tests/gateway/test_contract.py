"""Each request of the client is one of openapi/gateway.json: operation, parameters, headers and body."""

import inspect
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, replace
from urllib.parse import unquote_plus

import pytest
from contract_server import ContractServer, SentRequest, example, serve_contract

from utcp_gateway_client.gateway import AsyncGateway, AsyncStream, CallOptions, Gateway, Stream

ID = "019a0000-0000-7000-8000-000000000014"
ALL_OPTIONS = CallOptions(
    timeout=5, idempotency_key="order-7", max_bytes=5000, max_tokens=1000, fields="/total $.items[*].id", repair="safe"
)  # fmt: skip
MESSAGE = {"choices": [{"message": {"role": "assistant", "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "library_searchBooks", "arguments": "{}"}},
]}}]}  # fmt: skip

# Arguments of each method: what has a default is given in one case, and left out in another.
CASES: dict[str, list[tuple[tuple, dict]]] = {
    "search": [(("a book",), {}), (("a book",), {"limit": 3, "provider": "library", "tag": "books"})],
    "tools": [
        ((), {}),
        (("a book",), {"format": "anthropic", "strict": True, "limit": 3, "provider": "library", "tag": "books"}),
        ((["library.searchBooks", "library.getStock"],), {"strict": False}),
    ],
    "export": [
        ((), {}),
        (("a book",), {"format": "gemini", "strict": "auto", "limit": 3, "provider": "library", "tag": "books"}),
    ],
    "call": [(("library.searchBooks",), {}), (("library.searchBooks", {"q": "sea"}, ALL_OPTIONS), {})],
    "call_result": [(("library.searchBooks",), {}), (("library.searchBooks", {"q": "sea"}, ALL_OPTIONS), {})],
    "stream": [
        (("library.searchBooks",), {}),
        (("library.searchBooks", {"q": "sea"}, replace(ALL_OPTIONS, idempotency_key=None)), {}),
    ],
    **{
        name: [((MESSAGE,), {}), ((MESSAGE,), {"format": "openai-chat", "strict": True, "assistant": True, "options": ALL_OPTIONS})]
        for name in ("run", "run_response", "run_stream")
    },
    **{
        name: [((), {}), (("a book",), {"limit": 3, "provider": "library", "tag": "books"})]
        for name in ("langchain_tools", "pydantic_ai_tools")
    },
    "tool": [(("library.searchBooks",), {})],
    "list_tools": [((), {}), ((), {"provider": "library", "tag": "books"})],
    "toolsets": [((), {})],
    "me": [((), {})],
    "health": [((), {})],
    "continuation": [
        (("c_AbCdEfGhJkMnPqRsTuVwXy",), {}),
        (("c_AbCdEfGhJkMnPqRsTuVwXy",), {"max_bytes": 500, "max_tokens": 100, "format": "csv"}),
    ],
    "read_more": [
        (("c_AbCdEfGhJkMnPqRsTuVwXy",), {}),
        (("c_AbCdEfGhJkMnPqRsTuVwXy",), {"max_bytes": 500, "max_tokens": 100, "format": "csv"}),
    ],
    "approvals": [((), {}), ((), {"state": "pending", "kind": "call", "provider": "library"})],
    "approve": [((ID,), {}), ((ID,), {"comment": "Ordered by phone."})],
    "reject": [((ID,), {}), ((ID,), {"comment": "No."})],
    "approval": [((ID,), {})],
    "approval_result": [((ID,), {})],
    "wait_for_approval": [((ID,), {}), ((ID,), {"timeout": 1})],
}  # fmt: skip
# Methods without a request.
LOCAL = {"close", "aclose", "as_async"}
IN_TOOLSETS = {
    "search",
    "tools",
    "export",
    "call",
    "call_result",
    "stream",
    "run",
    "run_response",
    "run_stream",
}


@pytest.fixture(scope="module")
def served() -> Iterator[ContractServer]:
    with serve_contract() as server:
        yield server


@pytest.fixture
def server(served: ContractServer) -> ContractServer:
    served.clear()
    # The example of an approval is one that waits.
    approval = example(served.contract.operation("GET", "/approvals/{id}"), "")
    executed = json.dumps(json.loads(approval[2]) | {"state": "executed"}).encode()
    served.responses["GET /approvals/{id}"] = (200, "application/json", executed)
    # The example of a toolset's export is one of another dialect.
    exported = example(served.contract.operation("GET", "/tools/export"), "")
    served.responses["GET /toolsets/{name}/export"] = exported
    # The example of a part is followed by another one.
    part = json.loads(example(served.contract.operation("GET", "/continuations/{handle}"), "")[2])
    last = json.dumps(part | {"continuation": None}).encode()
    served.responses["GET /continuations/{handle}"] = (200, "application/json", last)
    return served


def methods(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")} - LOCAL


def use(gateway: Gateway, name: str, *arguments, **options):
    """Call the method and read all that it returns."""
    result = getattr(gateway, name)(*arguments, **options)
    return list(result) if isinstance(result, Iterator | Stream) else result


async def use_async(gateway: AsyncGateway, name: str, *arguments, **options):
    """Call the method and read all that it returns."""
    result = getattr(gateway, name)(*arguments, **options)
    result = await result if inspect.isawaitable(result) else result
    return [each async for each in result] if isinstance(result, AsyncIterator | AsyncStream) else result


@pytest.mark.parametrize("toolset", [None, "support"])
@pytest.mark.parametrize("name", CASES)
def test_requests_are_those_of_the_contract(server, name, toolset):
    with Gateway(server.url, "ugw_key", toolset) as gateway:
        for arguments, options in CASES[name]:
            if toolset and name == "list_tools" and options:
                continue  # The list of a toolset has no filters.
            sent = len(server.requests)
            use(gateway, name, *arguments, **options)
            assert len(server.requests) > sent
            if ALL_OPTIONS in (*arguments, *options.values()):
                request = server.requests[-1]
                text = unquote_plus(request.target) + str(request.headers)
                for value in ("order-7", "5000", "1000", "/total $.items[*].id", "repair=safe"):
                    assert value in text
    assert server.errors == []
    if toolset and name in IN_TOOLSETS:
        assert all("/toolsets/{name}/" in each for each in server.operations())


@pytest.mark.parametrize("name", CASES)
async def test_async_requests_are_those_of_the_contract(server, name):
    async with AsyncGateway(server.url, "ugw_key") as gateway:
        for arguments, options in CASES[name]:
            await use_async(gateway, name, *arguments, **options)
    assert server.requests
    assert server.errors == []


@pytest.mark.parametrize("kind", [Gateway, AsyncGateway])
def test_each_method_and_parameter_has_a_case(kind):
    assert methods(kind) == set(CASES)
    for name, cases in CASES.items():
        signature = inspect.signature(getattr(kind, name))
        given = {
            each
            for arguments, options in cases
            for each in signature.bind(None, *arguments, **options).arguments
        }
        assert given == set(signature.parameters), name
    assert [each.name for each in fields(CallOptions) if getattr(ALL_OPTIONS, each.name) is None] == []


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "error"),
    [
        ("GET", "/tool", {}, b"", "no operation"),
        ("POST", "/tools/search?q=a", {}, b"", "no operation"),
        ("GET", "/tools/search?q=a&top=3", {}, b"", "query parameter top"),
        ("GET", "/explain", {}, b"", "query parameter tool is missing"),
        ("GET", "/tools/search?q=a&limit=many", {}, b"", "query parameter limit"),
        ("GET", "/approvals/1", {}, b"", "path parameter id"),
        ("GET", "/me", {"x-later": "1"}, b"", "header parameter x-later"),
        ("POST", "/toolsets", {"content-type": "application/json"}, b'{"nme": "a"}', "body is not valid"),
        ("POST", "/toolsets", {"content-type": "text/plain"}, b"a", "no body of the type"),
        ("POST", "/toolsets", {}, b"", "body is missing"),
    ],
)  # fmt: skip
def test_request_that_is_not_of_the_contract_is_found(served, method, target, headers, body, error):
    found = served.contract.errors(SentRequest(method, target, headers, body))
    assert any(error in each for each in found), found
