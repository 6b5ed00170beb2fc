"""Operations: which templates could make the same calls, whatever their tools are called."""

import pytest

from app.protocols.operations import operation_of
from tests.harness.cases import for_each

BANK = "https://bank.example"


def http(path, method="POST", origin=BANK, **members):
    return {"call_template_type": "http", "http_method": method, "url": f"{origin}{path}", **members}


def mcp(tool, url=f"{BANK}/mcp"):
    server = {"transport": "http", "url": url}
    return {"call_template_type": "mcp", "tool_name": tool, "config": {"mcpServers": {"s": server}}}


def grpc(method):
    return {
        "call_template_type": "grpc", "host": "bank.example", "port": 443, "service_name": "Bank", "method_name": method
    }  # fmt: skip


def tcp(host="bank.example", port=443, scheme="tcp"):
    return {"call_template_type": scheme, "host": host, "port": port}


def local(host, scheme="http"):
    return http("/a", origin=f"{scheme}://{host}")


def graphql(query):
    return {"call_template_type": "graphql", "url": f"{BANK}/graphql", "query": query}


TRANSFER = http("/transfers/{id}")
SAME = {
    "itself": (TRANSFER, TRANSFER),
    "another name of the parameter": (TRANSFER, http("/transfers/{other}")),
    "a fixed value": (TRANSFER, http("/transfers/5")),
    "a parameter for a fixed segment": (http("/transfers/all"), http("/{what}/all")),
    "a part of a segment": (TRANSFER, http("/transfers/a{id}.json")),
    "a query expansion": (http("/balance"), http("/balance{?a}")),
    "a fragment expansion": (http("/balance"), http("/balance{#a}")),
    "an expansion of two parameters before a query": (http("/balance"), http("/balance{?a,b}?c=1")),
    "a query expansion after a parameter": (TRANSFER, http("/transfers/{id}{?a}{&b}")),
    "a query expansion within a segment": (http("/balance"), http("/bal{?a}ance")),
    "a URL that is not called": (TRANSFER, http("/x/../transfers/{id}")),
    "an argument with a slash": (TRANSFER, http("/{id}")),
    "an argument that is the end of a longer path": (TRANSFER, http("/transfers/{id}/notes")),
    "a variable after a query expansion": (TRANSFER, http("/transfers{?a}/${PATH}")),
    "an unknown variable in the host": (TRANSFER, http("/x", origin="https://${HOST}")),
    "an argument with slashes": (http("/a/b/c/d"), http("/a/{x}/d")),
    "an argument with a slash within a segment": (http("/a/b/c/d"), http("/a/x{y}/d")),
    "arguments with slashes on both sides": (http("/a/{x}/b"), http("/{y}/a/{z}/b")),
    "arguments that share a slash": (http("/a/b/a/b/c"), http("/{x}/a/b/{y}")),
    "text over a socket": (TRANSFER, tcp()),
    "text over a socket of the other port": (TRANSFER, tcp(port=80)),
    "the other scheme": (TRANSFER, http("/transfers/1", origin="http://bank.example")),
    "the other scheme with a port": (TRANSFER, http("/transfers/1", origin="http://bank.example:443")),
    "the handshake of a WebSocket": (
        http("/feed", method="GET"),
        {"call_template_type": "websocket", "url": "wss://bank.example/feed"},
    ),
    "a WebSocket without TLS": (
        {"call_template_type": "websocket", "url": "wss://bank.example/a"},
        {"call_template_type": "websocket", "url": "ws://bank.example/a"},
    ),
    "gRPC without TLS": (grpc("Transfer"), {**grpc("Transfer"), "use_ssl": True}),
    "gRPC by hand": (grpc("Transfer"), http("/Bank/Transfer")),
    "a slash before the service of gRPC": (grpc("Transfer"), {**grpc("Transfer"), "service_name": "/Bank"}),
    "a dot before the service of gRPC": (grpc("Transfer"), {**grpc("Transfer"), "service_name": ".Bank"}),
    "a slash before the method of gRPC": (grpc("Transfer"), grpc("/Transfer")),
    "a dot after the host": (TRANSFER, http("/transfers/1", origin="https://bank.example.")),
    "an address of two parts": (local("127.0.0.1:8080"), local("127.1:8080")),
    "an address as a number": (local("10.0.0.1:8080"), local("167772161:8080")),
    "an address in hexadecimal digits": (local("10.0.0.1"), local("0x0a.0.0.1")),
    "an address in octal digits": (local("10.0.0.1"), local("012.0.0.01")),
    "an address with a dot after it": (local("10.0.0.1"), local("10.0.0.1.")),
    "a mapped address": (local("10.0.0.1:8080"), local("[::ffff:10.0.0.1]:8080")),
    "a mapped address in hexadecimal digits": (local("10.0.0.1"), local("[::ffff:a00:1]")),
    "an address in long form": (local("[fe80::1]"), local("[fe80:0:0::0001]")),
    "localhost": (local("localhost:8080"), local("127.0.0.1:8080")),
    "localhost over IPv6": (local("localhost:8080"), local("[::1]:8080")),
    "localhost with a dot after it": (local("localhost.:8080"), local("127.1:8080")),
    "an address in octal digits without dots": (local("localhost"), local("017700000001")),
    "any address": (local("localhost:8080"), local("0.0.0.0:8080")),
    "a slash at the end": (TRANSFER, http("/transfers/{id}/")),
    "two slashes": (TRANSFER, http("//transfers//{id}")),
    "percent-encoding": (TRANSFER, http("/%74ransfers/{id}")),
    "an encoded slash": (TRANSFER, http("/transfers%2F5")),
    "case": (TRANSFER, http("/Transfers/{id}")),
    "a query": (TRANSFER, http("/transfers/{id}?now=1")),
    "the port of the scheme": (TRANSFER, http("/transfers/1", origin="https://BANK.example:443")),
    "the method's case": (TRANSFER, http("/transfers/1", method="post")),
    "an unknown variable in the path": (TRANSFER, http("/${PATH}")),
    "an unknown variable for the origin": (TRANSFER, {**TRANSFER, "url": "${BASE}/transfers/{id}"}),
    "other headers": (TRANSFER, http("/transfers/{id}", headers={"X-A": "1"})),
    "another protocol over HTTP": (TRANSFER, {**TRANSFER, "call_template_type": "streamable_http"}),
    "a tool of MCP": (mcp("transfer"), mcp("transfer", f"{BANK}/mcp/")),
    "MCP by hand": (mcp("transfer"), http("/mcp")),
    "GraphQL by hand": (graphql("mutation { transfer(a: 1) { id } }"), http("/graphql")),
    "a field of GraphQL": (graphql("mutation { transfer(a: 1) { id } }"), graphql("mutation M { x: transfer { n } y }")),
    "a fragment of GraphQL": (graphql("mutation { transfer }"), graphql("mutation { ...F } fragment F on M { transfer }")),
    "a method of gRPC": (grpc("Transfer"), {**grpc("Transfer"), "headers": {"a": "1"}}),
    "a socket": (
        {"call_template_type": "tcp", "host": "bank.example", "port": 7, "request_data_template": "a"},
        {"call_template_type": "tcp", "host": "bank.example", "port": 7, "request_data_template": "b"},
    ),
}  # fmt: skip
OTHER = {
    "another path": (TRANSFER, http("/accounts/{id}")),
    "a longer path": (http("/transfers/5"), http("/transfers/{id}/notes")),
    "another method": (TRANSFER, http("/transfers/{id}", method="GET")),
    "another origin": (TRANSFER, http("/transfers/{id}", origin="https://other.example")),
    "another tool of MCP": (mcp("transfer"), mcp("balance")),
    "another field of GraphQL": (graphql("mutation { transfer }"), graphql("query { balance }")),
    "another method of gRPC": (grpc("Transfer"), grpc("Balance")),
    "a dollar of OpenAPI": (
        http("/$count", parameters=[]), http("/$metadata", parameters=[]),
    ),
    "another end after a parameter": (http("/a/{x}/b"), http("/a/{x}/c")),
    "a segment that a parameter needs": (http("/a/b"), http("/a/{x}/b")),
    "another middle between parameters": (http("/x/a/y"), http("/{x}/b/{y}")),
    "another path before a query expansion": (http("/balance"), http("/transfers{?a}")),
    "a port that is no scheme's": (TRANSFER, http("/transfers/1", origin="https://bank.example:8443")),
    "text over another socket": (TRANSFER, tcp(port=8443)),
    "another address": (local("127.0.0.1:8080"), local("10.1:8080")),
    "a name that begins like an address": (local("10.0.0.1"), local("10.0.0.1.example")),
    "another port": (
        {"call_template_type": "tcp", "host": "bank.example", "port": 7},
        {"call_template_type": "tcp", "host": "bank.example", "port": 8},
    ),
    "another text": (
        {"call_template_type": "text", "content": "a"}, {"call_template_type": "text", "content": "b"},
    ),
}  # fmt: skip


@for_each("name", list(SAME))
def test_spellings_of_one_operation_are_recognised(name):
    if "GraphQL" in name:
        pytest.importorskip("graphql")
    kept, other = map(operation_of, SAME[name])
    assert kept.may_be(other), (kept, other)
    assert other.may_be(kept), (other, kept)


@for_each("name", list(OTHER))
def test_other_operations_are_told_apart(name):
    if "GraphQL" in name:
        pytest.importorskip("graphql")
    kept, other = map(operation_of, OTHER[name])
    assert not kept.may_be(other), (kept, other)
