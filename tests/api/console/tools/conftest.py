"""Tools to list, and clients of the pages."""

import pytest

from tests.harness.upstream import upstream


@pytest.fixture(scope="session")
def site():
    with upstream() as running:
        yield running


@pytest.fixture(scope="session")
def pad(gateway, site):
    """Sixty tools of the provider `pad`, and one that deletes."""
    inputs = {"type": "object", "properties": {"q": {"type": "string"}, "branch": {"type": "string"}}}

    def tool(name, method="GET", **fields):
        template = {"call_template_type": "http", "http_method": method, "url": f"{site.url}/echo"}
        return {
            "provider": "pad", "name": name, "description": f"Pads the {name}. Then it stops.", "inputs": inputs,
            "call_template": template, "tags": ["padding"], **fields,
        }  # fmt: skip

    with gateway.client() as client:
        for number in range(60):
            response = client.post("/tools", json=tool(f"quilt{number:02}"))
            assert response.status_code == 201, response.text
        assert (
            client.post(
                "/tools", json=tool("zap", "DELETE", description="Zap <b>it</b> by the forecast.")
            ).status_code
            == 201
        )
    return "pad"


@pytest.fixture
def console(gateway, pad):
    """Opens a page with a key of these scopes (admin without any)."""
    clients = []

    def client_of(*scopes, **limits):
        key = gateway.key
        if scopes:
            with gateway.client() as admin:
                body = {"name": " ".join(scopes), "scopes": list(scopes), **limits}
                response = admin.post("/keys", json=body)
                assert response.status_code == 201, response.text
                key = response.json()["key"]
        client = gateway.client("", follow_redirects=False)
        client.headers["X-API-Key"] = key
        clients.append(client)
        return client

    yield client_of
    for client in clients:
        client.close()
