"""Every released client of MCP takes the result of each kind of response of an upstream without an exception,
except for one kind that one client does not support.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.mcp.fixture import PNG, WAV
from tests.interop.test_mcp_clients import CLIENTS, run

LARGE = json.dumps([{"number": number, "text": "x" * 90} for number in range(2_000)])
INTEGERS = '{"a":9223372036854775807,"b":-9223372036854775808,"c":18446744073709551615}'


NOT_SUPPORTED = ("langchain-mcp", "audio")
"""LangChain's adapters have no content for sounds, whoever the server is."""


@dataclass(frozen=True)
class Kind:
    """A response, and what clients get of it: a part of its text, the type of its media, or an error."""

    status: int
    media_type: str
    body: bytes
    text: str
    is_exact: bool = False
    media: str = ""
    is_error: bool = False


KINDS = {
    "object": Kind(200, "application/json", b'{"a": 1}', '{"a": 1}', is_exact=True),
    "array": Kind(200, "application/json", b"[1, 2]", "[1, 2]", is_exact=True),
    "number": Kind(200, "application/json", b"5", "5", is_exact=True),
    "string": Kind(200, "application/json", b'"text"', '"text"', is_exact=True),
    "boolean": Kind(200, "application/json", b"true", "true", is_exact=True),
    "null": Kind(200, "application/json", b"null", "null", is_exact=True),
    "integers": Kind(200, "application/json", INTEGERS.encode(), INTEGERS, is_exact=True),
    "text": Kind(200, "text/plain; charset=utf-8", "grüß".encode(), "grüß", is_exact=True),
    "xml": Kind(200, "application/xml", b"<a>1</a>", "<a>1</a>", is_exact=True),
    "latin": Kind(200, "text/plain; charset=iso-8859-1", "grüß".encode("latin-1"), "grüß", is_exact=True),
    "not_utf_8": Kind(200, "application/json", b'{"a": "gr\xfc\xdf"}', ""),
    "no_content": Kind(204, "", b"", "(no content, HTTP 204)", is_exact=True),
    "empty": Kind(200, "application/json", b"", "(no content, HTTP 200)", is_exact=True),
    "image": Kind(200, "image/png", PNG, "SHA-256", media="image/png"),
    "audio": Kind(200, "audio/wav", WAV, "SHA-256", media="audio/wav"),
    "binary": Kind(
        200, "application/zip", b"PK\x03\x04\x00\xff", "6 bytes, SHA-256", media="application/zip"
    ),
    "large": Kind(200, "application/json", LARGE.encode(), '{"number":0'),
    "not_found": Kind(404, "application/json", b'{"detail": "no book"}', "no book", is_error=True),
    "failed": Kind(500, "text/plain", b"broken", "500", is_error=True),
    "slow": Kind(200, "application/json", b"{}", "", is_error=True),
}


def _application() -> web.Application:
    async def respond(request: web.Request) -> web.Response:
        kind = KINDS[request.match_info["kind"]]
        if request.match_info["kind"] == "slow":
            await asyncio.sleep(20)
        headers = {"Content-Type": kind.media_type} if kind.media_type else {}
        return web.Response(status=kind.status, body=kind.body, headers=headers)

    application = web.Application()
    application.router.add_get("/{kind}", respond)
    return application


@pytest.fixture(scope="module")
def gateway(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a tool for each kind of response."""

    def tool(name: str) -> dict[str, Any]:
        template = {"call_template_type": "http", "url": f"{url}/{name}", "http_method": "GET"}
        return {"name": name, "inputs": {"type": "object"}, "tool_call_template": template}

    folder = tmp_path_factory.mktemp("results")
    with (
        beside(web_server(_application(), handler_cancellation=True)) as url,
        serve(servers, folder, FIRST_BYTE_TIMEOUT="0.5") as running,
        running.client() as admin,
    ):
        manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool(name) for name in KINDS]}
        created = admin.post("/providers", json={"name": "kinds", "source": {"manual": manual}})
        assert created.status_code == 201, created.text
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_takes_every_kind_of_result(gateway: RunningGateway, client: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [(f"kinds_{name}", {}) for name in KINDS]
    results = run(client, f"{gateway.url}/mcp/all", gateway.key, calls)["results"]
    for (name, kind), (is_error, contents) in zip(KINDS.items(), results, strict=True):
        if (client, name) == NOT_SUPPORTED:
            assert is_error == "raised"
            assert "not yet supported" in contents
            continue
        # The adapter returns the text of an error to the model, without the flag.
        assert is_error is (kind.is_error and client != "langchain-mcp"), (name, contents)
        # Hosts that show the first block only show the image.
        at = 1 if kind.media.startswith("image/") else 0
        (first, text), others = contents[at], contents[:at] + contents[at + 1 :]
        assert first == "text"
        assert text == kind.text if kind.is_exact else kind.text in text, name
        # The type of an embedded resource is a member of what is embedded.
        assert [media or kind.media for _, media in others] == ([kind.media] if kind.media else []), name
        if name == "large":
            assert len(text) < len(LARGE)
            assert "continuation" in text
