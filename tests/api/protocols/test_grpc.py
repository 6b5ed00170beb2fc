"""A provider of `grpc`, registered and called through a running gateway."""

import time
from collections.abc import Iterator

import httpx2
import orjson
import pytest

from tests.api.protocols.grpc_upstream import GrpcUpstream, grpc_upstream

SECRET = "canary-of-metadata-88"


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcUpstream]:
    with grpc_upstream(SECRET) as running:
        yield running


@pytest.mark.parametrize("kind", ["provider_type", "call_template_type"])
def test_a_server_is_discovered_called_and_streamed(
    client: httpx2.Client, server: GrpcUpstream, kind: str
) -> None:
    name = "grpc_old" if kind == "provider_type" else "grpc_new"
    template = {
        kind: "grpc", "name": name, "host": "127.0.0.1", "port": server.port, "use_ssl": False,
        "auth": {"auth_type": "api_key", "api_key": "$GRPC_KEY", "var_name": "X-Key", "location": "header"},
    }  # fmt: skip
    made = client.post(
        "/providers",
        json={
            "name": name,
            "source": {"call_template": template},
            "variables": {"GRPC_KEY": {"value": SECRET}},
        },
    )
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [f"grpc://127.0.0.1:{server.port}"]
    tools = {one["name"]: one for one in client.get(f"/tools?provider={name}&limit=50").json()["items"]}
    assert f"{name}.Contract_Echo" in tools
    arguments = {"word": "ä", "number": 3, "yes": True, "list": [1, "b"], "deep": {"a": None}}
    dry = client.post(f"/tools/{name}.Contract_Echo/call?dry_run=true", json=arguments)
    assert SECRET not in dry.text
    response = client.post(f"/tools/{name}.Contract_Echo/call", json=arguments)
    assert (response.status_code, response.json()) == (200, arguments)
    assert server.seen()["x-key"] == SECRET
    wrong = client.post(f"/tools/{name}.Contract_Echo/call", json={"number": "many"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/number")
    unknown = client.post(f"/tools/{name}.Contract_Echo/call", json={"numbr": 1})
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "/numbr")
    listed = client.post(f"/tools/{name}.Contract_Stream/call", json={})
    assert listed.json() == [{"n": 0}, {"n": 1}, {"n": 2}]
    with client.stream(
        "POST", f"/tools/{name}.Contract_Stream/call", json={}, headers={"Accept": "application/x-ndjson"}
    ) as streamed:
        began = [(orjson.loads(line), time.monotonic()) for line in streamed.iter_lines() if line.strip()]
    assert [line.get("data", line) for line, _ in began[:-1]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert began[2][1] - began[0][1] > 0.03
    shown = client.get(f"/tools/{name}.Contract_Echo").text + client.get(f"/providers/{name}").text
    assert SECRET not in shown + client.get("/export").text
    again = client.post(f"/providers/{name}/refresh")
    assert again.status_code == 200, again.text
    gone = client.delete(f"/providers/{name}")
    assert gone.status_code in (200, 204), gone.text
    assert client.post(f"/tools/{name}.Contract_Echo/call", json={}).status_code == 404


def test_a_refusal_of_the_credential_is_reported_without_it(
    client: httpx2.Client, server: GrpcUpstream
) -> None:
    template = {"call_template_type": "grpc", "host": "127.0.0.1", "port": server.port}
    made = client.post("/providers", json={"name": "grpcwrong", "source": {"call_template": template}})
    assert made.status_code == 201, made.text
    rejected = client.post("/tools/grpcwrong.Contract_Echo/call", json={})
    assert (rejected.status_code, rejected.json()["type"]) == (
        502, "urn:utcp-gateway:problem:upstream-unauthorized",
    )  # fmt: skip
    assert rejected.json()["upstream_body"]["code"] == "UNAUTHENTICATED"


def test_an_internal_address_is_not_called(client: httpx2.Client) -> None:
    template = {"call_template_type": "grpc", "host": "10.255.255.1", "port": 50051}
    rejected = client.post("/providers", json={"name": "grpcinner", "source": {"call_template": template}})
    assert (rejected.status_code, rejected.json()["type"]) == (
        403,
        "urn:utcp-gateway:problem:blocked-address",
    )
