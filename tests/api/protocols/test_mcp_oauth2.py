"""An MCP server behind OAuth2 client credentials (RFC 6749 section 4.4; MCP, Authorization)."""

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from aiohttp import web

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway
from tests.protocols.peers.mcp import McpPeer

SECRET = "secret-of-an-oauth-client-91"


class ProtectedPeer(McpPeer):
    """An MCP server, and its authorization server at the same origin; only the newest token is valid."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self.issued: list[str] = []
        self.grants: list[dict[str, str]] = []
        self.revoked = False

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            return self._token()
        is_valid = bool(self.issued) and not self.revoked
        if not is_valid or request.headers.get("Authorization") != f"Bearer {self.issued[-1]}":
            metadata = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            challenge = {"WWW-Authenticate": f'Bearer error="invalid_token", resource_metadata="{metadata}"'}
            return web.json_response({"error": "invalid_token"}, status=401, headers=challenge)
        return await super()._respond(request)

    def _token(self) -> web.Response:
        sent = self.requests[-1]
        form = {name: values[0] for name, values in parse_qs(sent.body.decode()).items()}
        scheme, _, encoded = sent.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            name, _, password = base64.b64decode(encoded).decode().partition(":")
            form |= {"client_id": name, "client_secret": password}
        self.grants.append({name: value for name, value in form.items() if name != "client_secret"})
        if form.get("grant_type") != "client_credentials" or form.get("client_secret") != SECRET:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.revoked = False
        self.issued.append(f"token-number-{len(self.issued)}-of-the-client")
        return web.json_response(
            {"access_token": self.issued[-1], "token_type": "Bearer", "expires_in": 3600}
        )


@pytest.fixture
def peer() -> Iterator[ProtectedPeer]:
    running = ProtectedPeer()
    with beside(running.serve()):
        yield running


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    with gateway.client() as made:
        yield made
        for name in ("guarded", "unguarded"):
            made.delete(f"/providers/{name}")


def in_the_template(peer: ProtectedPeer, secret: str) -> dict[str, Any]:
    auth = {"auth_type": "oauth2", "token_url": f"{peer.url}/token", "client_id": "me", "client_secret": secret,
            "scope": "tools"}  # fmt: skip
    servers = {"far": {"type": "http", "url": f"{peer.url}/mcp"}}
    template = {"call_template_type": "mcp", "auth": auth, "config": {"mcpServers": servers}}
    return {"name": "guarded", "source": {"call_template": template}}


def beside_the_servers(peer: ProtectedPeer, secret: str) -> dict[str, Any]:
    credential = {"kind": "oauth2", "token_url": f"{peer.url}/token", "client_id": "me", "client_secret": secret,
                  "scope": "tools"}  # fmt: skip
    servers = {"far": {"type": "http", "url": f"{peer.url}/mcp"}}
    return {"name": "guarded", "mcpServers": servers, "credentials": {"discovery": credential}}


@pytest.mark.parametrize("form", [in_the_template, beside_the_servers])
def test_a_server_is_listed_and_called_with_a_token_that_is_renewed_once_it_is_rejected(
    client: httpx2.Client, peer: ProtectedPeer, form: Any
) -> None:
    made = client.post("/providers", json=form(peer, SECRET))
    assert made.status_code == 201, made.text
    assert peer.grants == [{"grant_type": "client_credentials", "client_id": "me", "scope": "tools"}]
    for _ in range(2):
        called = client.post("/tools/guarded.far_echo/call", json={})
        assert (called.status_code, called.text) == (200, '"ok"')
    assert 1 <= len(peer.issued) <= 2
    before = len(peer.issued)
    peer.revoked = True
    assert client.post("/tools/guarded.far_echo/call", json={}).status_code == 200
    assert len(peer.issued) == before + 1
    shown = client.get("/providers/guarded").text + client.get("/export").text + client.get("/calls").text
    assert SECRET not in shown
    assert not any(token in shown for token in peer.issued)
    assert client.post("/providers/guarded/refresh").status_code == 200


@pytest.mark.parametrize("form", [in_the_template, beside_the_servers])
def test_a_client_that_the_authorization_server_rejects_registers_nothing(
    client: httpx2.Client, peer: ProtectedPeer, form: Any
) -> None:
    rejected = client.post("/providers", json=form(peer, "another-secret-of-nobody"))
    assert rejected.status_code == 502, rejected.text
    assert rejected.json()["type"].endswith("token-request-failed")
    assert "another-secret" not in rejected.text
    assert client.get("/providers/guarded").status_code == 404


def test_the_error_without_a_credential_names_the_metadata_of_the_server(
    client: httpx2.Client, peer: ProtectedPeer
) -> None:
    rejected = client.post(
        "/providers?name=unguarded", json={"mcpServers": {"far": {"url": f"{peer.url}/mcp"}}}
    )
    assert rejected.status_code == 502, rejected.text
    assert f"{peer.url}/.well-known/oauth-protected-resource/mcp" in rejected.json()["detail"]
    assert "discovery" in rejected.json()["detail"]
