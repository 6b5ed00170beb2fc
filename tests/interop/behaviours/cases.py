"""The behaviours of UTCP's protocols: what a client does with a call template, as the specification and the models say.

Each is a call, or the discovery of a manual, with the outcome that a released client has when it speaks to the upstream by
itself. The same client must have the same outcome through a gateway.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.behaviours.upstreams import Upstreams

Json = dict[str, Any]

FILES = Path(__file__).parent
MCP_SERVER = FILES.parent / "suites" / "client_side" / "mcp_server.py"
MCP_NAME = "s"
"""The name of the MCP server in its template."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """One behaviour: `template` in 0.x spelling without its type and name; `arguments` None for a discovery.

    `generations` are the clients that have it: 0 for 0.x, 1 for 1.x.
    """

    protocol: str
    name: str
    template: Callable[[Upstreams], Json]
    arguments: Json | None = field(default_factory=dict)
    tool: str = "echo"
    generations: tuple[int, ...] = (0, 1)

    @property
    def id(self) -> str:
        """`protocol: name`."""
        return f"{self.protocol}: {self.name}"


ARGUMENTS: Json = {"word": "wörld", "number": 7, "flag": True, "list": [1, "b"], "deep": {"a": None}}
_SHORT: Json = {"word": "wörld", "number": 7}
_TEXT = {
    "request_data_format": "text", "request_data_template": "GET UTCP_ARG_word_UTCP_ARG UTCP_ARG_number_UTCP_ARG",
}  # fmt: skip
_PLAIN = {"request_data_format": "text"}


def _socket(protocol: str, manner: str = "echo", framing: Json | None = None, **members: Any) -> Any:
    def template(upstreams: Upstreams) -> Json:
        port = upstreams.port(protocol, manner, **(framing or {}))
        return {"host": "127.0.0.1", "port": port, "timeout": 3_000, "request_data_format": "json", **members}

    return template


def _tcp() -> Iterator[Behaviour]:
    def case(name: str, arguments: Json | None, *given: Any, **members: Any) -> Behaviour:
        return Behaviour("tcp", name, _socket("tcp", *given, **members), arguments)

    yield case("JSON of all arguments", ARGUMENTS)
    yield case("JSON without arguments", {})
    yield case("a text template, other types as JSON", _SHORT, **_TEXT)
    yield case("an object in a text template", {"word": {"a": [1]}, "number": True}, **_TEXT)
    yield case("text without a template: the values", _SHORT, **_PLAIN)
    for width, endian in ((1, "big"), (2, "big"), (4, "big"), (8, "big"), (2, "little"), (4, "little")):
        members = {
            "framing_strategy": "length_prefix", "length_prefix_bytes": width, "length_prefix_endian": endian,
        }  # fmt: skip
        framing = {"kind": "length_prefix", "width": width, "endian": endian}
        yield case(f"length prefix of {width} bytes, {endian} endian", _SHORT, "echo", framing, **members)
    for name, delimiter, read in (
        ("U+0000 as an escape", "\\x00", b"\x00"), ("a line feed", "\n", b"\n"), ("several characters", "<END>", b"<END>"),
        ("CR LF as escapes", "\\r\\n", b"\r\n"),
    ):  # fmt: skip
        framing = {"kind": "delimiter", "delimiter": read}
        members = {"framing_strategy": "delimiter", "message_delimiter": delimiter}
        yield case(f"delimiter: {name}", _SHORT, "echo", framing, **members)
    fixed = {"framing_strategy": "fixed_length", "fixed_message_length": 16}
    yield case("a response of fixed length", {"a": 1}, "echo", {"kind": "fixed_length"}, **fixed)
    yield case("at most max_response_size bytes", _SHORT, "long", max_response_size=1_000)
    yield case("raw bytes", _SHORT, response_byte_format=None)
    yield case("another encoding", _SHORT, "latin-1", response_byte_format="latin-1")
    yield case("bytes that the encoding cannot decode", _SHORT, "latin-1")
    yield case("an empty response", _SHORT, "empty")
    prefixed = {"framing_strategy": "length_prefix"}
    yield case("a message that is cut", _SHORT, "cut", {"kind": "length_prefix"}, **prefixed)
    cut = {"kind": "delimiter"}
    yield case("a message without its delimiter", _SHORT, "cut", cut, framing_strategy="delimiter", message_delimiter="\\x00")  # fmt: skip
    yield case("silence before a framed message", _SHORT, "silent", {"kind": "length_prefix"}, **{**prefixed, "timeout": 400})  # fmt: skip
    yield case("silence before a stream", _SHORT, "silent", timeout=400)
    yield Behaviour("tcp", "a port without a server", lambda _: {"host": "127.0.0.1", "port": 9, "timeout": 2_000}, _SHORT)  # fmt: skip
    yield case("a line break in a text template", {"word": "a\nb", "number": 1}, **_TEXT)
    yield case("a manual", None)
    yield case("a manual with a length prefix", None, "echo", {"kind": "length_prefix"}, **prefixed)
    yield case("a manual in raw bytes", None, response_byte_format=None)
    yield case("what is no manual", None, "garbage")


def _udp() -> Iterator[Behaviour]:
    def case(name: str, arguments: Json | None, *given: Any, **members: Any) -> Behaviour:
        return Behaviour("udp", name, _socket("udp", *given, **members), arguments)

    yield case("JSON of all arguments", ARGUMENTS)
    yield case("JSON without arguments", {})
    yield case("a text template, other types as JSON", _SHORT, **_TEXT)
    yield case("an object in a text template", {"word": {"a": [1]}, "number": True}, **_TEXT)
    yield case("text without a template: the values", _SHORT, **_PLAIN)
    yield case("several datagrams", _SHORT, "three", number_of_response_datagrams=3)
    yield case("the first of several datagrams", _SHORT, "three", number_of_response_datagrams=1)
    yield case("fewer datagrams than expected", _SHORT, "three", number_of_response_datagrams=4)
    yield case("no datagrams", _SHORT, "silent", number_of_response_datagrams=0)
    yield case("raw bytes", _SHORT, response_byte_format=None)
    yield case("another encoding", _SHORT, "latin-1", response_byte_format="latin-1")
    yield case("bytes that the encoding cannot decode", _SHORT, "latin-1")
    yield case("a large datagram", {"word": "x" * 4_000})
    yield case("silence", _SHORT, "silent", timeout=400)
    yield case("a line break in a text template", {"word": "a\nb", "number": 1}, **_TEXT)
    yield case("a manual", None)
    yield case("a manual in raw bytes", None, response_byte_format=None)
    yield case("what is no manual", None, "garbage")


def _at(path: str, **members: Any) -> Callable[[Upstreams], Json]:
    def template(upstreams: Upstreams) -> Json:
        found = {"url": upstreams.origin + path, **members}
        auth = found.get("auth")
        if auth is not None and "token_url" in auth:
            found["auth"] = {**auth, "token_url": upstreams.origin + auth["token_url"]}
        return found

    return template


def _key(location: str, name: str) -> Json:
    return {"auth_type": "api_key", "api_key": "k-1", "var_name": name, "location": location}


_BASIC: Json = {"auth_type": "basic", "username": "user", "password": "pass"}
_OAUTH2: Json = {"auth_type": "oauth2", "token_url": "/token", "client_id": "id", "client_secret": "secret", "scope": "read"}  # fmt: skip
_OAUTH2_BASIC: Json = {**_OAUTH2, "token_url": "/token-basic"}
_AUTH = (
    ("a key in a header", "header", _key("header", "X-Key")),
    ("a key in the query", "query", _key("query", "key")),
    ("a key in a cookie", "cookie", _key("cookie", "key")),
    ("Basic", "basic", _BASIC),
    ("OAuth2, client in the body", "oauth2", _OAUTH2),
    ("OAuth2, client in the header", "oauth2", _OAUTH2_BASIC),
)


def _http() -> Iterator[Behaviour]:
    def case(name: str, path: str, arguments: Json | None, **members: Any) -> Behaviour:
        return Behaviour("http", name, _at(path, **members), arguments)

    yield case("arguments in the query", "/echo", {"q": "sea & sky", "n": 3}, http_method="GET")
    yield case("a list in the query", "/echo", {"q": ["a", "b"]}, http_method="GET")
    yield case("arguments in the path", "/echo/{a}/x", {"a": "b", "q": "1"}, http_method="GET")
    yield case("characters that a path escapes", "/echo/{a}", {"a": "ä b"}, http_method="GET")
    yield case("a body", "/echo", {"body": ARGUMENTS}, http_method="POST")
    yield case(
        "a body of another name", "/echo", {"data": [1, 2], "q": "1"}, http_method="PUT", body_field="data"
    )
    yield case(
        "header fields", "/echo", {"X-Part": "a", "q": "1"}, http_method="GET", header_fields=["X-Part"]
    )
    yield case("headers of the template", "/echo", {}, http_method="GET", headers={"X-Fixed": "f"})
    for method in ("DELETE", "PATCH"):
        yield case(f"the method {method}", "/echo", {"q": "1"}, http_method=method)
    for name, kind, auth in _AUTH:
        yield case(f"auth: {name}", f"/private/{kind}", {}, http_method="GET", auth=auth)
    yield case("auth: a wrong key", "/private/header", {}, http_method="GET", auth=_key("header", "X-Other"))
    for code in (400, 403, 404, 429, 500, 503):
        yield case(f"status {code}", f"/status/{code}", {}, http_method="GET")
    yield case("a text", "/text", {}, http_method="GET")
    yield Behaviour("http", "a manual", _at("/manual", http_method="GET"), None, generations=(0,))
    yield Behaviour("http", "a manual", _at("/manual?v1=1", http_method="GET"), None, generations=(1,))
    yield case("an OpenAPI document", "/openapi.json", None, http_method="GET")
    yield case("a manual that is not there", "/status/404", None, http_method="GET")


def _streams() -> Iterator[Behaviour]:
    def sse(name: str, path: str, arguments: Json, **members: Any) -> Behaviour:
        return Behaviour("sse", name, _at(path, **members), arguments)

    def lines(name: str, path: str, **members: Any) -> Behaviour:
        return Behaviour("http_stream", name, _at(path, http_method="GET", **members), {})

    yield sse("all events", "/events", {"q": "1"})
    yield sse("events of one type", "/events", {}, event_type="tick")
    json_headers = {"Content-Type": "application/json"}
    yield sse("a body", "/events", {"b": {"x": 1}}, body_field="b", headers=json_headers)
    for name, kind, auth in _AUTH:
        yield sse(f"auth: {name}", f"/private-events/{kind}", {}, auth=auth)
        yield lines(f"auth: {name}", f"/private/{kind}", auth=auth)
    yield sse("status 500", "/status/500", {}, reconnect=False)
    yield lines("lines of JSON", "/lines")
    yield lines("JSON", "/json")
    yield lines("bytes", "/bytes")
    yield lines("status 500", "/status/500")


def _graphql() -> Iterator[Behaviour]:
    def case(
        name: str, tool: str, arguments: Json | None, path: str = "/graphql", **members: Any
    ) -> Behaviour:
        return Behaviour("graphql", name, _at(path, **members), arguments, tool)

    yield case("a query without arguments", "hello", {})
    yield case("a query with an argument", "greet", {"name": "Ada"})
    yield case("a mutation", "rename", {"to": "b"}, operation_type="mutation")
    yield case("an error of a resolver", "fails", {})
    yield case("a field that is not there", "missing", {})
    yield case("an argument that is not there", "greet", {"nobody": "x"})
    for name, kind, auth in (_AUTH[0], *_AUTH[3:]):
        yield case(f"auth: {name}", "hello", {}, f"/private-graphql/{kind}", auth=auth)
    yield case("auth: a wrong key", "hello", {}, "/private-graphql/header")
    yield case("the fields of the schema", "", None)


def _file(name: str) -> Callable[[Upstreams], Json]:
    return lambda _: {"file_path": str(FILES / name)}


def _files() -> Iterator[Behaviour]:
    for generation, name in ((0, "manual.json"), (1, "manual_v1.json")):
        yield Behaviour("text", "the content of a file", _file(name), {"any": 1}, generations=(generation,))
        yield Behaviour("text", "a manual", _file(name), None, generations=(generation,))
    yield Behaviour("text", "a file that is not there", _file("missing.json"), {})
    yield Behaviour("text", "a manual that is not there", _file("missing.json"), None)


def _mcp(upstreams: Upstreams) -> Json:
    server = {"transport": "stdio", "command": upstreams.python, "args": [str(MCP_SERVER)]}
    return {"config": {"mcpServers": {MCP_NAME: server}}}


def _mcp_tools() -> Iterator[Behaviour]:
    for name, tool, arguments in (
        ("structured content", "echo", {"message": "a"}), ("text", "greet", {"name": "Ada"}),
        ("a list", "list_items", {"count": 3}), ("a number", "add_numbers", {"a": 5, "b": 7}),
        ("an argument that is missing", "greet", {}), ("a tool that is not there", "missing", {}),
    ):  # fmt: skip
        yield Behaviour("mcp", name, _mcp, arguments, tool)
    yield Behaviour("mcp", "the tools of the server", _mcp, None, "")


BEHAVIOURS = (*_tcp(), *_udp(), *_http(), *_streams(), *_graphql(), *_files(), *_mcp_tools())
