"""pytest plugin in the interpreter of the released clients: their own suites call through a running gateway.

A suite starts its upstream and gives the client its address. In place of that, each call template that the client is given is
registered at the gateway, and the client is given what the gateway's manual says of it:

- `register_manual` registers the call template as a provider, and returns the manual of that provider (`GET /utcp`).
- `call_tool` and `call_tool_streaming` find the tool, or create it with `POST /tools`, read its entry in the manual and
  call that entry with the released client of the entry's own protocol: `http`, or `streamable_http` for streams.

Two things are given back in the form in which the suite knows them: tools have the names that the provider gave them (the
manual has `provider_tool`), and the error of a call has the status that the upstream sent (`X-Upstream-Status`).

Environment: SUITE_REPORT, a file for the results; SUITE_GATEWAY and SUITE_KEY, without which the suite runs against its own
upstreams; SUITE_MANUAL, `direct` for the upstreams' own call templates in manuals; SUITE_DOCUMENTS, a folder of documents.
"""

import importlib
import itertools
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import local_upstreams
import pytest
from utcp.data.call_template import CallTemplateSerializer
from utcp.data.register_manual_response import RegisterManualResult
from utcp.data.utcp_manual import UtcpManual, UtcpManualSerializer

Json = dict[str, Any]

GATEWAY = os.environ.get("SUITE_GATEWAY", "")
KEY = os.environ.get("SUITE_KEY", "")
IS_DIRECT = os.environ.get("SUITE_MANUAL") == "direct"
# The module of each protocol, its class, its call template, and whether its tools are discovered at the server.
PROTOCOLS = (
    ("utcp_http.http_communication_protocol", "HttpCommunicationProtocol", "HttpCallTemplate"),
    ("utcp_http.sse_communication_protocol", "SseCommunicationProtocol", "SseCallTemplate"),
    ("utcp_http.streamable_http_communication_protocol", "StreamableHttpCommunicationProtocol", "StreamableHttpCallTemplate"),
    ("utcp_text.text_communication_protocol", "TextCommunicationProtocol", "TextCallTemplate"),
    ("utcp_socket.tcp_communication_protocol", "TCPTransport", "TCPProvider"),
    ("utcp_socket.udp_communication_protocol", "UDPTransport", "UDPProvider"),
    ("utcp_gql.gql_communication_protocol", "GraphQLCommunicationProtocol", "GraphQLCallTemplate"),
    ("utcp_mcp.mcp_communication_protocol", "McpCommunicationProtocol", "McpCallTemplate"),
)  # fmt: skip
DISCOVERED = ("mcp",)
# A client of streams has the plugin of `streamable_http`.
STREAMING = "&protocol=streamable_http"
# For documents that name no server: the gateway registers no operations that cannot be called.
_UNKNOWN_SERVER = "https://api.example.com"

plain: dict[str, type[Any]] = {}
"""The client of each protocol as it was released, by the name of the protocol's call template class."""
_numbers = itertools.count(1)
_run = os.urandom(3).hex()


class State:
    """What a test has registered: names of providers, by the JSON of the call template. `requests` counts all requests."""

    def __init__(self) -> None:
        self.providers: dict[str, str] = {}
        self.names: list[str] = []
        self.tools: dict[str, str] = {}
        self.requests = 0


state = State()


def fields_of(template: Any) -> Json:
    """The call template as JSON, without members that are null."""
    fields: Json = CallTemplateSerializer().to_dict(template)
    return {name: value for name, value in fields.items() if value is not None}


def gateway_template(path: str, method: str = "GET") -> Any:
    from utcp_http.http_call_template import HttpCallTemplate

    return HttpCallTemplate(
        name="gateway", url=GATEWAY + path, http_method=method, headers={"Authorization": f"Bearer {KEY}"}
    )


async def request(path: str, body: Json | None = None) -> Any:
    """Send a request to the gateway with the client of `http`, so that an error is what that client makes of it."""
    state.requests += 1
    template = gateway_template(path, "GET" if body is None else "POST")
    arguments = {} if body is None else {"body": body}
    return await plain["HttpCallTemplate"]().call_tool(None, "gateway", arguments, template)


def request_now(method: str, path: str, body: Json | None = None) -> Any:
    """As `request`, where the suite does not await; raise ValueError with the gateway's problem."""
    state.requests += 1
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(GATEWAY + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(sent, timeout=60) as response:
            raw = response.read()
    except urllib.error.HTTPError as error:
        raise ValueError(error.read().decode()) from None
    return json.loads(raw) if raw else None


def provider_name(given: str = "") -> str:
    """A name for a provider: the template's own where it is legal and free."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", given)[:50]
    if not name or name in state.names:
        name = f"s{_run}-{next(_numbers)}"
    state.names.append(name)
    return name


async def register(template: Any) -> str:
    """Return the name of the provider with this call template, registered if necessary."""
    fields = fields_of(template)
    key = json.dumps(fields, sort_keys=True)
    if key not in state.providers:
        name = provider_name(template.name)
        await request("/providers", {"name": name, "source": {"call_template": {**fields, "name": name}}})
        state.providers[key] = name
    return state.providers[key]


def name_given(name: str, fields: Json) -> str:
    """The name that the provider gave to the tool `provider.name`; one of MCP begins with its server's name and a dot."""
    short = name.partition(".")[2]
    for server in (fields.get("config") or {}).get("mcpServers", ()):
        if short.startswith(f"{server}_"):
            return f"{server}.{short.removeprefix(f'{server}_')}"
    return short


async def manual_of(provider: str, fields: Json, query: str = "") -> UtcpManual:
    """The manual of a provider, as the client of `http` reads it; tools have the provider's names."""
    listed = (await request(f"/tools?provider={provider}&limit=200"))["items"]
    state.requests += 1
    template = gateway_template(f"/utcp?provider={provider}{query}")
    result = await plain["HttpCallTemplate"]().register_manual(None, template)
    if not result.success:
        raise ValueError(f"The client rejects the gateway's manual: {result.errors}")
    names = {tool["alias"]: name_given(tool["name"], fields) for tool in listed}
    for tool in result.manual.tools:
        tool.name = names.get(tool.name, tool.name)
    return result.manual


async def swapped_register(template: Any) -> RegisterManualResult:
    try:
        provider = await register(template)
        query = f"&mode=direct&protocol={template.call_template_type}" if IS_DIRECT else ""
        manual = await manual_of(provider, fields_of(template), query)
    except (aiohttp.ClientError, ValueError) as error:
        nothing = UtcpManual(manual_version="0.0.0", tools=[])
        return RegisterManualResult(
            success=False, manual_call_template=template, manual=nothing, errors=[str(error)]
        )
    return RegisterManualResult(success=True, manual_call_template=template, manual=manual, errors=[])


async def tool_entry(template: Any, name: str, arguments: Json, query: str = "") -> Any:
    """The entry of a tool in the gateway's manual."""
    fields = fields_of(template)
    if fields["call_template_type"] in DISCOVERED:
        provider = await register(template)
    else:
        key = json.dumps([fields, name, sorted(arguments)], sort_keys=True)
        provider = state.tools.get(key, "")
        name = re.sub(r"[^A-Za-z0-9_-]", "_", name.rpartition(".")[2])
        if not provider:
            provider = provider_name()
            inputs = {"type": "object", "properties": {argument: {} for argument in arguments}}
            await request(
                "/tools", {"provider": provider, "name": name, "inputs": inputs, "call_template": fields}
            )
            state.tools[key] = provider
    manual = await manual_of(provider, fields, query)
    for tool in manual.tools:
        if tool.name == name:
            return tool
    raise ValueError(f"The gateway's manual has no tool {name}")


def with_key(template: Any) -> Any:
    """The call template with the key in place of its variable, which a UtcpClient does."""
    text = json.dumps(CallTemplateSerializer().to_dict(template)).replace("${GATEWAY_TOKEN}", KEY)
    return CallTemplateSerializer().validate_dict(json.loads(text))


def arguments_for(tool: Any, arguments: Json) -> Json:
    properties = tool.inputs.properties or {}
    return {"body": arguments} if set(properties) == {"body"} else arguments


def with_upstream_status(error: aiohttp.ClientResponseError) -> aiohttp.ClientResponseError:
    status = (error.headers or {}).get("X-Upstream-Status")
    if status is not None:
        error.status = int(status)
    return error


async def swapped_call(name: str, arguments: Json, template: Any) -> Any:
    streams = template.call_template_type in ("sse", "streamable_http")
    tool = await tool_entry(template, name, arguments, STREAMING if streams else "")
    called = with_key(tool.tool_call_template)
    state.requests += 1
    try:
        return await plain[type(called).__name__]().call_tool(
            None, tool.name, arguments_for(tool, arguments), called
        )
    except aiohttp.ClientResponseError as error:
        raise with_upstream_status(error) from None


async def swapped_stream(name: str, arguments: Json, template: Any) -> AsyncIterator[Any]:
    tool = await tool_entry(template, name, arguments, STREAMING)
    called = with_key(tool.tool_call_template)
    given = arguments_for(tool, arguments)
    state.requests += 1
    try:
        async for item in plain[type(called).__name__]().call_tool_streaming(None, tool.name, given, called):
            yield item
    except aiohttp.ClientResponseError as error:
        raise with_upstream_status(error) from None


def swap(module_name: str, class_name: str, template_name: str) -> None:
    """Replace the methods of a protocol that connect to an upstream. What the client itself rejects stays the client's."""
    module = importlib.import_module(module_name)
    kind = getattr(module, class_name)
    template_kind = getattr(module, template_name)
    methods = ("register_manual", "call_tool", "call_tool_streaming")
    originals = {name: getattr(kind, name) for name in methods}
    plain[template_kind.__name__] = type(f"Plain{class_name}", (kind,), originals)
    if not GATEWAY:
        return

    async def register_manual(self: Any, caller: Any, manual_call_template: Any) -> Any:
        if not isinstance(manual_call_template, template_kind):
            return await originals["register_manual"](self, caller, manual_call_template)
        return await swapped_register(manual_call_template)

    async def call_tool(
        self: Any, caller: Any, tool_name: str, tool_args: Json, tool_call_template: Any
    ) -> Any:
        if not isinstance(tool_call_template, template_kind):
            return await originals["call_tool"](self, caller, tool_name, tool_args, tool_call_template)
        return await swapped_call(tool_name, tool_args, tool_call_template)

    async def call_tool_streaming(
        self: Any, caller: Any, tool_name: str, tool_args: Json, tool_call_template: Any
    ) -> AsyncIterator[Any]:
        async for item in swapped_stream(tool_name, tool_args, tool_call_template):
            yield item

    kind.register_manual, kind.call_tool, kind.call_tool_streaming = (
        register_manual,
        call_tool,
        call_tool_streaming,
    )


def swap_converter() -> None:
    """Let the gateway convert OpenAPI documents; its manual in direct mode has the upstreams' call templates."""
    converter = importlib.import_module("utcp_http.openapi_converter").OpenApiConverter
    created = converter.__init__

    def create(self: Any, openapi_spec: Json, *arguments: Any, **options: Any) -> None:
        created(self, openapi_spec, *arguments, **options)
        self.given = openapi_spec

    def convert(self: Any) -> UtcpManual:
        name = provider_name()
        base = self._base_url_override or self.spec_url or _UNKNOWN_SERVER
        template: Json = {"call_template_type": "text", "content": json.dumps(self.given), "base_url": base}
        if self.auth_tools is not None:
            template["auth_tools"] = self.auth_tools.model_dump()
        body = {"name": name, "source": {"call_template": template}, "options": {"direct": True}}
        request_now("POST", "/providers", body)
        listed = request_now("GET", f"/tools?provider={name}&limit=200")["items"]
        names = {tool["alias"]: tool["name"].partition(".")[2] for tool in listed}
        manual = request_now("GET", f"/utcp?provider={name}&mode=direct")
        for tool in manual["tools"]:
            tool["name"] = names[tool["name"]]
        return UtcpManualSerializer().validate_dict(manual)

    converter.__init__, converter.convert = create, convert


def serve_public_addresses(upstreams: Any) -> None:
    """Lead requests to the documents of a public directory to those of this machine."""
    original = aiohttp.ClientSession._request

    async def _request(self: Any, method: str, address: Any, **options: Any) -> Any:
        return await original(self, method, upstreams.local(str(address)), **options)

    aiohttp.ClientSession._request = _request  # type: ignore[method-assign]


results: Json = {}


@pytest.hookimpl
def pytest_configure(config: Any) -> None:
    for protocol in PROTOCOLS:
        swap(*protocol)
    if GATEWAY:
        swap_converter()
    config.local_upstreams = local_upstreams.start(Path(os.environ.get("SUITE_DOCUMENTS", "")))
    serve_public_addresses(config.local_upstreams)


@pytest.hookimpl
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    os.environ["SUITE_MCP_PORT"] = str(local_upstreams.free_port())
    for item in items:
        if hasattr(item.module, "COUNTRIES_API_URL"):
            item.module.COUNTRIES_API_URL = config.local_upstreams.countries
        if hasattr(item.module, "HTTP_SERVER_PORT"):
            item.module.HTTP_SERVER_PORT = int(os.environ["SUITE_MCP_PORT"])


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in state.names:
        try:
            request_now("DELETE", f"/providers/{name}")
        except ValueError:
            # The gateway rejected its registration.
            continue
    state.__init__()  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    report = yield
    name = f"{item.path.name}::{item.name}"
    if report.when == "call" or (report.failed and name not in results):
        error = "" if call.excinfo is None else call.excinfo.exconly(tryshort=True)
        results[name] = {"outcome": report.outcome, "requests": state.requests, "error": error[:2000]}
    return report


@pytest.hookimpl
def pytest_sessionfinish(session: Any) -> None:
    session.config.local_upstreams.stop()
    Path(os.environ["SUITE_REPORT"]).write_text(json.dumps(results, indent=1))
