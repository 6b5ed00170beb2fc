"""Every operation of the contract responds with success and with each error that it documents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.checked_client import CheckedClient
from tests.fuzz.contract import operations_of, read_operations
from tests.fuzz.coverage_table import CoverageRecorder, CoverageTable, Reached, recorded
from tests.fuzz.objects import OBJECTS
from tests.fuzz.planted import PlantedGateway, fuzz_objects, planted_gateway
from tests.fuzz.provocations import MAX_BODY_BYTES, OPERATION_PROVOCATIONS, Provoker, provoke
from tests.fuzz.valid_requests import BODIES, QUERIES
from tests.harness.servers import Pair

SOURCE = "provocations"
pytestmark = pytest.mark.xdist_group("coverage")


@pytest.fixture(scope="module")
def planted(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedGateway]:
    limits = dict.fromkeys(("MAX_REQUEST_BYTES", "MAX_DOCUMENT_BYTES"), str(MAX_BODY_BYTES))
    folder = tmp_path_factory.mktemp("coverage")
    with planted_gateway(servers, folder, ALLOWED_HOSTS="127.0.0.1", **limits) as running:
        yield running


def test_every_operation_responds_with_success_and_with_each_documented_error(
    planted: PlantedGateway, coverage: Path
) -> None:
    operations = read_operations(planted.gateway)
    client = CheckedClient(planted.gateway, CoverageRecorder(coverage, SOURCE), planted.search)
    with fuzz_objects(planted) as objects:
        provoker = Provoker(planted.gateway, client, objects, {})
        for operation in operations.values():
            provoke(provoker, operation)
    client.close()
    table = CoverageTable(operations, (one for one in recorded(coverage) if one.source == SOURCE))
    assert [*table.gaps(), *client.findings, *planted.leaks_beside_responses()] == [], table.rendered()
    # The upstream did get the secrets that were searched for.
    received = b"\n".join(planted.site.requests)
    assert all(
        planted.secrets[name].encode() in received for name in ("credential", "static-header", "token")
    )


def test_what_is_declared_for_an_operation_or_a_path_is_about_one_of_the_contract(
    planted: PlantedGateway,
) -> None:
    operations = read_operations(planted.gateway)
    assert operations.keys() >= BODIES.keys() | QUERIES.keys() | OPERATION_PROVOCATIONS.keys()
    paths = [f"{operation.path}/" for operation in operations.values()]
    assert [path for path in OBJECTS if not any(one.startswith(f"{path}/") for one in paths)] == []


def test_the_table_reports_what_was_not_reached() -> None:
    responses: dict[str, dict[str, str]] = {"200": {}, "304": {}, "404": {}, "503": {}}
    definition = {"operationId": "getThing", "responses": responses}
    operations = operations_of({"paths": {"/things/{id}": {"get": definition, "parameters": []}}})
    table = CoverageTable(operations, [Reached("getThing", 404, "x"), Reached("getThing", 418, "x")])
    assert table.gaps() == ["getThing: no 2xx", "getThing: 304 is documented, but was never the response"]
    assert table.undocumented() == ["getThing: 418 is not documented"]
    assert table.rendered() == "getThing  304:0  404:1  418:1"
