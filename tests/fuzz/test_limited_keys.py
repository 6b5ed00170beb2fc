"""Keys with few rights, at every operation of the contract: they learn nothing of what they may not see."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.security.scopes import SCOPES
from app.storage.database import asyncpg_dsn
from tests.fuzz.checked_client import CheckedClient, CheckedResponse
from tests.fuzz.contract import ContractOperation, read_operations
from tests.fuzz.coverage_table import CoverageRecorder
from tests.fuzz.objects import FuzzObjects
from tests.fuzz.planted import PlantedGateway, fuzz_objects, planted_gateway
from tests.fuzz.schemathesis_run import EXAMPLES, LONG, SECONDS, SchemathesisRun
from tests.fuzz.valid_requests import ContractRequest, valid_request
from tests.harness.servers import Pair

SOURCE = "limited-keys"
pytestmark = pytest.mark.xdist_group("limited-keys")
HIDDEN = "hidden7f3a"
"""Stands in every name and text of the objects that limited keys may not see."""
_CHECKS = "not_a_server_error,status_code_conformance,response_schema_conformance,content_type_conformance,secrets_stay_inside"


@dataclass(frozen=True, slots=True)
class HiddenObjects:
    """A gateway with objects that limited keys may not see, and a valid request for each operation to one of them."""

    planted: PlantedGateway
    operations: Mapping[str, ContractOperation]
    requests: tuple[ContractRequest, ...]


@pytest.fixture(scope="module")
def hidden(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiddenObjects]:
    with planted_gateway(servers, tmp_path_factory.mktemp("limited")) as planted:
        operations = read_operations(planted.gateway)
        with fuzz_objects(planted, prefix=HIDDEN, tags=(HIDDEN,)) as objects:
            requests = tuple(valid_request(operation, objects) for operation in operations.values())
        yield HiddenObjects(planted, operations, requests)


@pytest.fixture
def client(hidden: HiddenObjects, coverage: Path) -> Iterator[CheckedClient]:
    found = CheckedClient(hidden.planted.gateway, CoverageRecorder(coverage, SOURCE), hidden.planted.search)
    yield found
    found.close()


def _restrictions(limit: str, objects: FuzzObjects) -> dict[str, Any]:
    """Return the restriction of a key that may see the objects."""
    return {"providers": sorted(set(objects.providers))} if limit == "providers" else {"tags": objects.tags}


def _mentions_hidden(request: ContractRequest, response: CheckedResponse) -> bool:
    """Return whether a response names a hidden object; what the request itself names does not count."""
    text = response.body.decode(errors="replace") + repr(sorted(response.headers.items()))
    named = [*request.path.values(), *request.query.values(), *_named_by_body(request)]
    for value in sorted(named, key=len, reverse=True):
        text = text.replace(value, "")
    return HIDDEN in text


def _named_by_body(request: ContractRequest) -> list[str]:
    """Return the tools that the body of a batch or of a command names, and the id of the command."""
    if request.content is None:
        return []
    if request.operation.id == "updateTools":
        return [operation["tool"] for operation in json.loads(request.content)["operations"]]
    if request.operation.id == "runCommand":
        command = json.loads(request.content)
        return [command["commandName"], command["commandId"]]
    return []


@pytest.mark.parametrize("limit", ["providers", "tags"])
def test_a_restricted_key_sees_its_own_objects_and_no_others(
    hidden: HiddenObjects, client: CheckedClient, limit: str
) -> None:
    findings = []
    with fuzz_objects(hidden.planted, prefix=f"own-{limit}", tags=(f"own-{limit}",)) as objects:
        own = [valid_request(operation, objects) for operation in hidden.operations.values()]
        key = objects.new_key(["admin"], **_restrictions(limit, objects))["key"]
    for request in hidden.requests:
        operation = request.operation
        response = client.send(request, key=key)
        if _is_about_a_hidden_object(request) and response.status not in (403, 404):
            findings.append(f"{operation.id} of a hidden object: {response.status} {response.body[:300]!r}")
        if _mentions_hidden(request, response):
            findings.append(f"{operation.id} of a hidden object names others: {response.body[:600]!r}")
    for request in own:
        response = client.send(request, key=key)
        if _mentions_hidden(request, response):
            findings.append(f"{request.operation.id} of an own object names others: {response.body[:600]!r}")
        if request.operation.path.startswith("/providers/{name}") and response.status >= 400:
            findings.append(
                f"{request.operation.id} of an own object: {response.status} {response.body[:300]!r}"
            )
    assert [*findings, *client.findings] == []


def _is_about_a_hidden_object(request: ContractRequest) -> bool:
    """Return whether the path names an object of a provider; scopes and problem types are public, and entries of
    the plugin catalogue are shown as if they were off.
    """
    return bool(request.path) and not request.operation.is_public and request.operation.id != "getPlugin"


def test_a_reader_of_tools_reads_tools_only(hidden: HiddenObjects, client: CheckedClient) -> None:
    with fuzz_objects(hidden.planted, prefix="reader") as objects:
        key = objects.new_key(["tools:read"])["key"]
        requests = [valid_request(operation, objects) for operation in hidden.operations.values()]
    statuses = {one.operation.id: client.send(one, key=key).status for one in requests}
    expected = {
        one.operation.id: 403 if one.operation.required_scopes - {"tools:read"} else 200 for one in requests
    }
    # Any key may rotate itself; the request names another.
    expected["rotateKey"] = 403
    # The client has the cookie of the session that it has created, and is no page of the gateway.
    expected["deleteSession"] = 403
    # Lists of tools need this scope alone, calls another one.
    expected |= {"mcp": 200, "toolsetMcp": 200}
    assert client.findings == []
    assert {name: 200 if status < 300 else status for name, status in statuses.items()} == expected


def test_an_expired_key_is_rejected(hidden: HiddenObjects, client: CheckedClient) -> None:
    with fuzz_objects(hidden.planted, prefix="expired") as objects:
        created = objects.new_key(SCOPES, expires_at="2999-01-01T00:00:00Z")
    asyncio.run(_expire(hidden.planted.gateway.database_url, created["id"]))
    accepted = {
        one.operation.id for one in hidden.requests if client.send(one, key=created["key"]).status != 401
    }
    assert accepted == {one.id for one in hidden.operations.values() if one.is_public}
    assert client.findings == []


async def _expire(dsn: str, key_id: str) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))  # type: ignore[no-untyped-call]
    await connection.execute(
        "UPDATE keys SET expires_at = now() - interval '1 second' WHERE key_id = $1", key_id
    )
    await connection.close()


@pytest.mark.time_limit(SECONDS + 60)
@pytest.mark.skipif(not LONG, reason="only in make fuzz")
@pytest.mark.parametrize("limit", ["providers", "tags", "tools:read"])
def test_no_generated_request_shows_a_limited_key_what_is_hidden(
    hidden: HiddenObjects, limit: str, tmp_path: Path, coverage: Path
) -> None:
    with fuzz_objects(
        hidden.planted, prefix=f"generated-{limit.partition(':')[0]}", tags=("generated",)
    ) as objects:
        objects.provider()
        if limit == "tools:read":
            key = objects.new_key([limit], tags=objects.tags)["key"]
        else:
            key = objects.new_key(["admin"], **_restrictions(limit, objects))["key"]
    run = SchemathesisRun(
        "examples,fuzzing,stateful",
        "1",
        key,
        EXAMPLES,
        source=SOURCE,
        checks=_CHECKS,
        needles=(HIDDEN,),
    )
    run.execute(hidden.planted, tmp_path, coverage=coverage)
