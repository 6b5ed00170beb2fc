"""Addresses that must not be called, in every field that takes a URL; and paths that arguments cannot leave."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.gateway import RunningGateway, serve
from tests.harness.hosts import HOSTS
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream


class Canary:
    """A listener on every local address; no connection may ever arrive."""

    def __init__(self) -> None:
        self.connections: list[object] = []
        self._listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            self.connections.append(address)
            connection.close()

    def close(self) -> None:
        """Stops listening."""
        self._listener.close()


@pytest.fixture(scope="module")
def guarded(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that may call public addresses only, as outside the embedded mode."""
    folder = tmp_path_factory.mktemp("egress")
    with serve(
        servers, folder, ALLOW_NETWORKS="", CONNECT_TIMEOUT="1", FIRST_BYTE_TIMEOUT="1", TOTAL_TIMEOUT="2"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def listener() -> Iterator[Canary]:
    """The canary listener."""
    canary = Canary()
    yield canary
    canary.close()


def test_the_list_is_long_enough() -> None:
    assert len(set(HOSTS)) >= 100


def document_at(urls: list[str]) -> dict[str, Any]:
    """An OpenAPI document whose operation `x{n}` lies at the n-th URL and needs a token from there."""
    paths = {
        f"/x{n}": {
            "get": {
                "operationId": f"x{n}", "servers": [{"url": url}], "security": [{f"o{n}": []}], "responses": {},
            }
        }
        for n, url in enumerate(urls)
    }  # fmt: skip
    schemes = {
        f"o{n}": {
            "type": "oauth2",
            "flows": {"clientCredentials": {"tokenUrl": f"{url}/token", "scopes": {}}},
        }
        for n, url in enumerate(urls)
    }
    return {
        "openapi": "3.0.3", "info": {"title": "x", "version": "1"},
        "servers": [{"url": "https://api.example.com"}], "paths": paths,
        "components": {"securitySchemes": schemes},
    }  # fmt: skip


def credential_at(url: str) -> dict[str, Any]:
    """An OAuth2 credential whose token URL is at `url`."""
    return {
        "kind": "oauth2", "client_id": "c", "client_secret": "s3cr3t-value", "token_url": f"{url}/token",
        "allowed_origins": [url],
    }  # fmt: skip


def test_no_field_that_takes_a_url_reaches_an_inner_address(
    guarded: RunningGateway, listener: Canary
) -> None:
    """Every string in every field; one test, because what counts is the listener at the end."""
    urls = [f"http://{host}:{listener.port}" for host in HOSTS]
    with guarded.client() as client, ThreadPoolExecutor(8) as pool:

        def register(number: int, url: str) -> None:
            for field, body in {
                "source": {"name": f"s{number}", "source": {"url": f"{url}/openapi.json"}},
                "template": {"name": f"t{number}", "call_template_type": "http", "url": f"{url}/utcp"},
                "provider": {"name": f"p{number}", "provider_type": "http", "url": f"{url}/utcp"},
            }.items():
                response = client.post("/providers", json=body)
                assert response.status_code >= 400, f"{field} {url}: {response.text}"
                assert response.status_code != 500, f"{field} {url}: {response.text}"

        def create(number: int, url: str) -> None:
            template = {"call_template_type": "http", "url": f"{url}/x", "http_method": "GET"}
            body = {"provider": f"h{number}", "name": "x", "call_template": template}
            if client.post("/tools", json=body).status_code == 201:
                call(f"h{number}.x")

        def give_credential(number: int, url: str) -> bool:
            response = client.put(f"/providers/document/credentials/o{number}", json=credential_at(url))
            assert response.status_code in (201, 422), f"credential {url}: {response.text}"
            return response.status_code == 201

        def call(tool: str) -> None:
            response = client.post(f"/tools/{tool}/call", json={})
            assert response.status_code in (403, 404, 422, 424, 502, 504), f"{tool}: {response.text}"

        numbers = range(len(urls))
        list(pool.map(register, numbers, urls))
        list(pool.map(create, numbers, urls))
        # A client secret is sent over https only.
        secure = [f"https://{host}:{listener.port}" for host in HOSTS]
        made = client.post(
            "/providers", json={"name": "document", "source": {"document": document_at(secure)}}
        )
        assert made.status_code == 201, made.text
        # The others are not valid URLs.
        assert made.json()["tool_count"] >= 90
        list(pool.map(call, [f"document.x{number}" for number in numbers]))
        stored = list(pool.map(give_credential, numbers, secure))
        accepted = [url for url, was_stored in zip(secure, stored, strict=True) if was_stored]
        assert len(accepted) >= 90
        list(pool.map(call, [f"document.x{number}" for number in numbers]))
        inline = {
            "name": "inline",
            "source": {"document": document_at(accepted)},
            "credentials": {f"o{number}": credential_at(url) for number, url in enumerate(accepted)},
        }
        made = client.post("/providers", json=inline)
        assert made.status_code == 201, made.text
        assert made.json()["tool_count"] == len(accepted)
        list(pool.map(call, [f"inline.x{number}" for number in range(len(accepted))]))
    assert listener.connections == []


@pytest.fixture(scope="module")
def site(gateway: RunningGateway) -> Iterator[Upstream]:
    """An upstream with a tool whose path has two parameters."""
    with upstream() as running, gateway.client() as client:
        made = client.post(
            "/tools",
            json={
                "provider": "traversal",
                "name": "read",
                "call_template": {
                    "call_template_type": "http",
                    "http_method": "GET",
                    "url": f"{running.url}/echo/users/{{user}}/files/{{file}}/end",
                },
                "inputs": {
                    "type": "object",
                    "properties": {"user": {"type": "string"}, "file": {"type": "string"}},
                    "required": ["user", "file"],
                },
            },
        )
        assert made.status_code == 201, made.text
        yield running


DOTS = st.sampled_from(
    ["..", ".", "%2e%2e", "%252e%252e", "../x", "a/../b", "..;", "..\\", "/", "//", "%2f..%2f", "?x", "#x", "\x00",
     "..%00", "․․", "．．", "%c0%ae", "{user}", "${HOME}", "a b", "é", "\r\n", "%"]
)  # fmt: skip
VALUES = st.one_of(DOTS, st.text(max_size=12), st.builds(lambda a, b: a + b, DOTS, DOTS))
EXAMPLES = 2000 if os.environ.get("FUZZ_LONG") else 400
ON_THE_WIRE = re.compile(r"/echo/users/([^/?#]+)/files/([^/?#]+)/end")


def test_arguments_stay_within_their_segments(gateway: RunningGateway, site: Upstream) -> None:
    with gateway.client() as client:

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(user=VALUES, file=VALUES)
        def check(user: str, file: str) -> None:
            site.requests.clear()
            try:
                arguments = {"user": user, "file": file}
                response = client.post("/tools/traversal.read/call", json=arguments)
            except UnicodeEncodeError:
                return
            if response.status_code != 200:
                assert response.status_code in (400, 422), response.text
                assert site.requests == []
                return
            path = str(site.requests[-1]["path"])
            found = ON_THE_WIRE.fullmatch(path)
            assert found, path
            assert all(segment not in (".", "..") for segment in found.groups())
            assert "%2e%2e" not in path.lower()

        check()
