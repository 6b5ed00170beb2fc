"""Every operation of the contract x each API key that must be denied; new routes are included automatically."""

import asyncio
import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import httpx2
import pytest

from app.api.authorisation import declared_scope, iter_routes
from app.core.settings import Settings
from app.main import create_app
from app.security.scopes import ADMIN, SCOPES
from app.storage.database import asyncpg_dsn
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT
from tests.harness.gateway import RunningGateway

OPEN = {"/health/live", "/health/ready", "/problems", "/problems/{slug}", "/scopes", "/scopes/{scope}"}
# It ends the session of a cookie.
OPEN_OPERATIONS = {("delete", "/session")}
METHODS = {"get", "put", "post", "delete", "patch", "head", "options", "trace"}
OPERATIONS = [
    (method.upper(), path)
    for path, item in CONTRACT["paths"].items()
    for method in item
    if method in METHODS and path not in OPEN and (method, path) not in OPEN_OPERATIONS
]
ALL_SCOPES = tuple(scope for scope in SCOPES if scope != ADMIN)


@pytest.fixture(scope="module")
def invalid_keys(gateway: RunningGateway) -> dict[str, str | None]:
    """The API keys that must be rejected, by what is wrong with them."""
    with gateway.client() as client:

        def key(name: str, **body: Any) -> dict[str, Any]:
            made = client.post("/keys", json={"name": name, "scopes": list(ALL_SCOPES), **body})
            assert made.status_code == 201, made.text
            found: dict[str, Any] = made.json()
            return found

        revoked = key("revoked")
        assert client.delete(f"/keys/{revoked['id']}").status_code == 204
        expired = key("expired", expires_at="2999-01-01T00:00:00Z")
        asyncio.run(_expire(gateway.database_url, expired["id"]))
        good = key("good")
    wrong_checksum = good["key"][:-1] + ("a" if good["key"][-1] != "a" else "b")
    unknown = good["key"].replace(good["id"], good["id"][::-1])
    return {
        "no key": None,
        "unknown key": unknown,
        "wrong checksum": wrong_checksum,
        "revoked": revoked["key"],
        "expired": expired["key"],
        "garbage": "Bearer",
    }


async def _expire(dsn: str, key_id: str) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    await connection.execute(
        "UPDATE keys SET expires_at = now() - interval '1 second' WHERE key_id = $1", key_id
    )
    await connection.close()


def filled(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "anything", path)


@pytest.fixture(scope="module")
def invalid_clients(
    gateway: RunningGateway, invalid_keys: dict[str, str | None]
) -> Iterator[dict[str, httpx2.Client]]:
    """A client with each of these keys."""
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(gateway.client(key=key or "")) for kind, key in invalid_keys.items()}


@pytest.mark.parametrize("kind", ["no key", "unknown key", "wrong checksum", "revoked", "expired", "garbage"])
@for_each(("method", "path"), OPERATIONS)
def test_a_client_without_a_valid_key_is_rejected(
    method: str, path: str, kind: str, invalid_clients: dict[str, httpx2.Client]
) -> None:
    response = invalid_clients[kind].request(method, filled(path))
    assert response.status_code == 401, f"{response.status_code} {response.text}"
    assert response.headers["content-type"] == "application/problem+json"
    assert "www-authenticate" in response.headers


def needed_scopes(method: str, path: str) -> set[str]:
    operation = CONTRACT["paths"][path][method.lower()]
    return set(operation["x-required-scopes"])


@pytest.fixture(scope="module")
def clients_without(gateway: RunningGateway) -> Iterator[Callable[[set[str]], httpx2.Client]]:
    """Return a client whose key has every scope but those that are given."""
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(gateway.client())

        @functools.cache
        def create(others: tuple[str, ...]) -> httpx2.Client:
            created = admin.post("/keys", json={"name": "too small", "scopes": others})
            assert created.status_code == 201, created.text
            return stack.enter_context(gateway.client(key=created.json()["key"]))

        yield lambda needed: create(tuple(scope for scope in ALL_SCOPES if scope not in needed))


@for_each(("method", "path"), [operation for operation in OPERATIONS if needed_scopes(*operation)])
def test_a_key_with_every_other_scope_is_denied(
    method: str, path: str, clients_without: Callable[[set[str]], httpx2.Client]
) -> None:
    needed = needed_scopes(method, path)
    assert needed
    response = clients_without(needed).request(method, filled(path))
    assert response.status_code == 403, f"{response.status_code} {response.text}"
    assert response.json()["type"].endswith("forbidden")


def test_the_operations_for_any_valid_key_are_exactly_these() -> None:
    found = {one for one in OPERATIONS if not needed_scopes(*one)}
    assert found == {
        ("GET", "/me"), ("GET", "/explain"), ("POST", "/keys/{key_id}/rotate"), ("POST", "/session"),
        ("POST", "/session/link"),
    }  # fmt: skip


def test_every_route_declares_who_may_use_it() -> None:
    """Walks the application itself: it finds also routes that are in no OpenAPI document."""
    app = create_app(Settings(_env_file=None))
    undeclared = {getattr(r, "path", str(r)) for r in iter_routes(app.routes) if declared_scope(r) is None}
    assert undeclared == {"/docs/assets"}


def test_the_public_routes_are_exactly_these() -> None:
    app = create_app(Settings(_env_file=None))
    routes = {getattr(r, "path", str(r)) for r in iter_routes(app.routes) if declared_scope(r) == "open"}
    # Pages of the console ask for a session themselves (tests/api/session).
    found = {path for path in routes if not path.startswith("/console")}
    assert found == {
        "/", "/docs", "/openapi.json", "/session", "/health/live", "/health/ready",
        "/problems", "/problems/{slug}", "/scopes", "/scopes/{scope}",
        *(
            f"/.well-known/oauth-protected-resource{path}{end}"
            for path in ("", "/mcp", "/mcp/all", "/mcp/search", "/toolsets/{name}/mcp")
            for end in ("", "/")
        ),
    }  # fmt: skip
