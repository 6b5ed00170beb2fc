"""U+0000 and lone surrogates, which neither PostgreSQL nor the file system take, in every string of every operation."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fuzz.checked_client import CheckedClient
from tests.fuzz.contract import ContractOperation, operations_of
from tests.fuzz.coverage_table import CoverageRecorder
from tests.fuzz.objects import FuzzObjects
from tests.fuzz.planted import PlantedGateway, fuzz_objects, planted_gateway
from tests.fuzz.schemathesis_run import LONG
from tests.fuzz.text_variants import TextVariants
from tests.fuzz.valid_requests import ContractRequest, valid_request
from tests.harness.contract import CONTRACT
from tests.harness.servers import Pair

SOURCE = "unstorable-texts"
pytestmark = [pytest.mark.xdist_group("unstorable-texts"), pytest.mark.time_limit(300)]
TEXTS = {"nul": "a\x00b", "lone surrogate": "a\ud800b"}
# A lone surrogate as three bytes, as CESU-8 has it: no UTF-8.
_IN_URLS = {"nul": "a%00b", "lone surrogate": "a%ED%A0%80b"}
_JSON = "application/json"


@pytest.fixture(scope="module")
def planted(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedGateway]:
    with planted_gateway(servers, tmp_path_factory.mktemp("unstorable")) as running:
        yield running


def variants_of(operation: ContractOperation, valid: ContractRequest, name: str) -> list[ContractRequest]:
    """Return the requests of an operation, each with the text in one place of the body or the query."""
    found: list[ContractRequest] = []
    content = operation.definition.get("requestBody", {}).get("content", {})
    if valid.content is not None and _JSON in content:
        variants = TextVariants(CONTRACT, TEXTS[name])
        examples = [json.loads(valid.content)] if valid.headers["Content-Type"] == _JSON else [{}]
        examples += [one["value"] for one in content[_JSON].get("examples", {}).values()]
        bodies: list[Any] = [
            body for example in examples for body in variants.of(content[_JSON]["schema"], example)
        ]
        found += [
            replace(
                valid, headers={**valid.headers, "Content-Type": _JSON}, content=json.dumps(body).encode()
            )
            for body in bodies
        ]
    for media_type in content.keys() - {_JSON, "multipart/form-data"}:
        headers = {**valid.headers, "Content-Type": media_type}
        text = TEXTS[name].encode("utf-8", "surrogatepass")
        found.append(replace(valid, headers=headers, content=text))
    return found


def addresses_of(operation: ContractOperation, valid: ContractRequest, name: str) -> list[str]:
    """Return the URLs of an operation, each with the text in one parameter of the path or the query."""
    text = _IN_URLS[name]
    joined = "&".join(f"{one}={value}" for one, value in valid.query.items())
    addresses = [
        operation.path.format(**{**valid.path, one: text}) + (f"?{joined}" if joined else "")
        for one in operation.path_parameters
    ]
    for parameter in operation.parameters("query"):
        kept = "".join(f"{one}={value}&" for one, value in valid.query.items() if one != parameter)
        addresses.append(f"{valid.url}?{kept}{parameter}={text}")
    return addresses


@dataclass
class Sweep:
    """Sends variants of the requests of one operation after the other; `findings` are about their responses."""

    client: CheckedClient
    admin: httpx2.Client
    objects: FuzzObjects
    findings: list[str]

    def send_all(self, operation: ContractOperation, *, bodies: bool) -> None:
        """Send each text in each place; after a request that has created something, those for other objects."""
        valid = valid_request(operation, self.objects)
        for name in TEXTS:
            for url in addresses_of(operation, valid, name):
                self._send_url(operation, valid, url)
            variants = variants_of(operation, valid, name) if bodies else []
            for index in range(len(variants)):
                response = self.client.send(variants[index])
                if b":internal-error" in response.body:
                    # In the report of a batch.
                    self.findings.append(f"{operation.id}: internal error: {variants[index].content!r}")
                if response.status == 422 and not has_pointer(response.json()):
                    self.findings.append(f"{operation.id}: no pointer: {variants[index].content!r}")
                if response.status in (201, 207) or operation.method == "DELETE":
                    valid = valid_request(operation, self.objects)
                    variants = variants_of(operation, valid, name)

    def _send_url(self, operation: ContractOperation, valid: ContractRequest, url: str) -> None:
        with self.admin.stream(
            operation.method, url, headers=dict(valid.headers), content=valid.content
        ) as response:
            if response.status_code >= 500:
                self.findings.append(f"{operation.id} {url}: {response.status_code}")


def has_pointer(problem: dict[str, Any]) -> bool:
    """Return whether a problem says where the text is; in a document that cannot be read, it is anywhere.

    What only the database has rejected has no pointer.
    """
    if problem["type"].endswith(":invalid-document"):
        return True
    return (
        bool(problem.get("errors")) and problem["detail"] != "The input holds a value that cannot be stored."
    )


def test_no_text_in_a_body_or_url_is_an_internal_error(planted: PlantedGateway, coverage: Path) -> None:
    client = CheckedClient(planted.gateway, CoverageRecorder(coverage, SOURCE), planted.search)
    with fuzz_objects(planted) as objects, planted.gateway.client() as admin:
        sweep = Sweep(client, admin, objects, client.findings)
        bodies: list[Any] = []
        for operation in operations_of(CONTRACT).values():
            content = operation.definition.get("requestBody", {}).get("content")
            sweep.send_all(operation, bodies=LONG or content not in bodies)
            bodies.append(content)
    client.close()
    assert sorted(set(client.findings)) == []
