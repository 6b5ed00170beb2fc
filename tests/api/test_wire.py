"""M16 through a running gateway: made-up operations are registered and called, and each request is exact.

The cases, what is expected of them and the comparison are those of `benchmarks.corpus`; here, what is
compared is what arrived at a socket.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.protocols.requests.plan_compiler import PreparedRequest
from benchmarks.corpus.cases import Bundle, Case, bundle, given_of
from benchmarks.corpus.execution import check_wire
from benchmarks.corpus.records import Record
from benchmarks.corpus.strata import EVERY_STRATUM, cases_of
from tests.harness.capture import Capture, Captured, capture
from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway

SEED = "2026"
EACH = 20
#: What the gateway sends by itself. Everything else has to come from the arguments.
OWN = {"cdn-loop", "host", "user-agent", "accept", "accept-encoding", "content-length"}


@pytest.fixture(scope="module")
def site() -> Iterator[Capture]:
    with capture() as running:
        yield running


@dataclass(frozen=True)
class CallingPlan:
    """Takes the place of a compiled plan in the comparison: it calls the tool, and returns what arrived."""

    client: httpx2.Client
    site: Capture
    tool: str

    def prepare(self, arguments: dict[str, Any]) -> PreparedRequest:
        """The upstream's request for these arguments."""
        response = self.client.post(f"/tools/{self.tool}/call", json=arguments)
        assert response.status_code == 200, (response.text, arguments)
        return self._prepared(self.site.only())

    def _prepared(self, request: Captured) -> PreparedRequest:
        names = [name.lower() for name, _ in request.headers]
        assert len(set(names)) == len(names), "a field on two lines"
        assert set(names) >= {"host", "content-length"}
        assert dict(request.headers)["Host"] == self.site.url.removeprefix("http://")
        headers = [(name, value) for name, value in request.headers if name.lower() not in OWN]
        typed = "content-type" in names
        body = request.body if request.body or typed else None
        return PreparedRequest(request.method, self.site.url + request.target, headers, body)


def registered(gateway: RunningGateway, name: str, cases: list[Case], site: Capture) -> Bundle:
    """The cases as one provider's tools."""
    made = bundle(cases, server=f"{site.url}/v1")
    with gateway.client() as client:
        response = client.post("/providers", json={"name": name, "source": {"document": made.made}})
    assert response.status_code == 201, response.text
    return made


@pytest.mark.parametrize("stratum", EVERY_STRATUM)
def test_every_request_arrives_as_the_tables_say(
    stratum: str, gateway: RunningGateway, site: Capture
) -> None:
    provider = f"wire-{list(EVERY_STRATUM).index(stratum)}"
    cases = cases_of(stratum, SEED, EACH)
    made = registered(gateway, provider, cases, site)
    findings, compared = [], 0
    with gateway.client() as client:
        for number, (case, pair) in enumerate(zip(cases, made.pairs, strict=True)):
            record = Record(pair.operation.key, f"/{stratum}")
            given = given_of(case, pair)
            assert given is not None
            check_wire(pair, CallingPlan(client, site, f"{provider}.case{number}"), given, "M16", record)
            findings += record.findings
            compared += bool(record.applies)
    assert findings == []
    assert compared == EACH


def test_there_are_enough_cases() -> None:
    assert len(EVERY_STRATUM) * EACH >= 600


class Altered(CallingPlan):
    """What arrived, with one part of it changed."""

    part = ""

    def prepare(self, arguments: dict[str, Any]) -> PreparedRequest:
        prepared = super().prepare(arguments)
        changes: dict[str, Any] = {
            "method": "PUT",
            "url": prepared.url.replace("v1", "v2"),
            "headers": [(name, value + "x") for name, value in prepared.headers],
            "body": (prepared.body or b"") + b"&x=y",
        }
        return prepared._replace(**{self.part: changes[self.part]})


@for_each(
    ("stratum", "part"),
    [
        ("text", "method"),
        ("path label", "url"),
        ("query form", "url"),
        ("header", "headers"),
        ("cookie", "headers"),
        ("+json", "headers"),
        ("urlencoded", "body"),
        ("text", "body"),
    ],
)
def test_another_request_is_noticed(stratum: str, part: str, gateway: RunningGateway, site: Capture) -> None:
    provider = f"altered-{list(EVERY_STRATUM).index(stratum)}-{part}"
    [case] = cases_of(stratum, SEED, 1)
    made = registered(gateway, provider, [case], site)
    given = given_of(case, made.pairs[0])
    assert given is not None
    record = Record("", "")
    with gateway.client() as client:
        plan = type("_", (Altered,), {"part": part})(client, site, f"{provider}.case0")
        check_wire(made.pairs[0], plan, given, "M16", record)
    assert record.findings
