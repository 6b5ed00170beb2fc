"""A part of `make client-suites`: small suites, and the behaviours of the 0.x client, with their recorded outcomes."""

from collections.abc import Iterator

import pytest

from tests.harness.gateway import RunningGateway
from tests.harness.servers import Pair
from tests.interop.behaviours.cases import BEHAVIOURS
from tests.interop.behaviours.run import compare
from tests.interop.environments import interpreter, required
from tests.interop.suites.run import run, serve_for_suites
from tests.interop.suites.sources import ENVIRONMENT, folder_of, suite_named
from tests.interop.suites.table import behaviour_results, read_results, suite_result

_PROTOCOLS = ("tcp", "udp", "http")


@pytest.fixture(scope="module")
def calling_gateway(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that calls what the suites start."""
    interpreter(ENVIRONMENT)
    with serve_for_suites(servers, tmp_path_factory.mktemp("suites")) as running:
        yield running


@pytest.mark.parametrize("name", ["text", "streamable_http"])
def test_the_suite_of_a_client_has_its_recorded_outcome(name: str, calling_gateway: RunningGateway) -> None:
    suite = suite_named(name)
    required(lambda: folder_of(suite))
    outcomes = run(suite, calling_gateway)
    errors = {case: one.error for case, one in outcomes.items() if not one.passed}
    assert suite_result(outcomes) == read_results()["suites"][name], errors


def test_the_behaviours_of_a_client_have_their_recorded_outcomes(calling_gateway: RunningGateway) -> None:
    interpreter("utcp0")
    compared = compare([one for one in BEHAVIOURS if one.protocol in _PROTOCOLS], 0, calling_gateway)
    recorded = read_results()["behaviours"]["0"]
    assert behaviour_results(compared) == {protocol: recorded[protocol] for protocol in _PROTOCOLS}
