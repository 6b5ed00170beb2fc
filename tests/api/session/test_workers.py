"""Sessions over several workers; and the texts of sessions, links and keys, which are in no output."""

import asyncio
import base64
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.api.test_canaries import Collected, dump_postgres, dump_redis
from tests.harness.canaries import LeakSearch
from tests.harness.gateway import RunningGateway, run_in_process, serve
from tests.harness.servers import Pair

# Only the notification of the change feed can end a session in the other worker: nothing is read again.
SETTINGS = {"FEED_POLL_SECONDS": "60", "KEY_CACHE_SECONDS": "900", "LOG_LEVEL": "debug"}
CONNECTIONS = 20


@pytest.fixture(scope="module")
def two_workers(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with two worker processes, and a log and databases for this module only."""
    with serve(servers, tmp_path_factory.mktemp("sessions"), workers=2, **SETTINGS) as running:
        yield running


def submit(gateway: RunningGateway, client: httpx2.Client, path: str, **fields: str) -> httpx2.Response:
    """Submit a form as a page of the gateway does."""
    headers = {"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"}
    return client.post(path, data=fields, headers=headers)


def session_of(response: httpx2.Response) -> str:
    """Return the text of the session in `Set-Cookie`."""
    return response.headers["Set-Cookie"].partition("=")[2].partition(";")[0]


def statuses(gateway: RunningGateway, cookie: str) -> set[int]:
    """Return the statuses of a page over many connections, which all workers serve."""
    found = set()
    for _ in range(CONNECTIONS):
        with gateway.client(key="") as client:
            client.headers["Cookie"] = cookie
            found.add(client.get("/console/signed-in").status_code)
    return found


def cookie_of(response: httpx2.Response) -> str:
    return response.headers["Set-Cookie"].partition(";")[0]


def wait_until_ended(gateway: RunningGateway, cookie: str) -> None:
    """Wait until every worker leads to the sign-in page."""
    deadline = time.monotonic() + 30
    while statuses(gateway, cookie) != {303}:
        assert time.monotonic() < deadline


def test_a_revoked_key_ends_its_sessions_in_every_worker(two_workers: RunningGateway) -> None:
    with two_workers.client() as admin, two_workers.client(key="") as browser:
        made = admin.post("/keys", json={"name": "agent", "scopes": ["tools:read"]}).json()
        cookie = cookie_of(submit(two_workers, browser, "/console/sign-in", key=made["key"]))
        assert statuses(two_workers, cookie) == {200}

        assert admin.delete(f"/keys/{made['id']}").status_code == 204

        wait_until_ended(two_workers, cookie)


def test_a_session_is_ended_in_every_worker(two_workers: RunningGateway) -> None:
    with two_workers.client(key="") as browser:
        cookie = cookie_of(submit(two_workers, browser, "/console/sign-in", key=two_workers.key))
        assert statuses(two_workers, cookie) == {200}

        browser.headers["Cookie"] = cookie
        assert submit(two_workers, browser, "/console/sign-out").status_code == 303

    wait_until_ended(two_workers, cookie)


def test_texts_of_sessions_links_and_keys_are_in_no_output(two_workers: RunningGateway) -> None:
    seen = Collected()
    wrong_key, wrong_token = "ugw_" + "X" * 51, "ugl_" + "x" * 56
    environment = {"UTCP_GATEWAY_URL": two_workers.url, "UTCP_GATEWAY_KEY": two_workers.key}
    with two_workers.client(key="") as browser, two_workers.client() as admin:
        link = run_in_process("sign-in-link", environment=environment).out.strip()
        token = link.partition("#")[2]
        assert token.startswith("ugl_")
        signed_in = submit(two_workers, browser, "/console/sign-in", sign_in_token=token)
        session = session_of(signed_in)
        browser.headers["Cookie"] = cookie_of(signed_in)
        by_api = admin.post("/session")
        for response in (
            submit(two_workers, browser, "/console/sign-in", key=wrong_key, next="/console/tools"),
            submit(two_workers, browser, "/console/sign-in", sign_in_token=wrong_token),
            submit(two_workers, browser, "/console/sign-in", sign_in_token=token),
            submit(two_workers, browser, "/console/confirm", key=wrong_key),
            submit(two_workers, browser, "/console/confirm", key=two_workers.key),
            browser.get("/console/sign-in"),
            browser.get("/console/signed-in"),
            browser.get("/console/no-such-page"),
            browser.post("/console/sign-in", content=b"\xff" * 100, headers={"Origin": two_workers.url}),
            admin.get("/events?limit=200"),
            browser.get("/metrics"),
        ):
            seen.response(response)
        seen.parts.append(("the body of POST /session", by_api.content))
        seen.response(submit(two_workers, browser, "/console/sign-out"))
    planted = {
        "key": two_workers.key,
        "token": token,
        "session": session,
        "other session": session_of(by_api),
        "wrong key": wrong_key,
        "wrong token": wrong_token,
    }
    seen.parts.append(("log", two_workers.log.read_bytes()))
    seen.parts.append(("PostgreSQL", asyncio.run(dump_postgres(two_workers.database_url))))
    seen.parts.append(("Redis", dump_redis(two_workers.redis_url)))

    assert seen.leaks(planted) == []
    for text in (token, session):
        decoded = base64.urlsafe_b64decode(text[4:])
        for where, part in seen.parts:
            assert decoded[:32] not in part, where
            assert decoded[:32].hex().encode() not in part, where


def test_the_search_finds_a_session_that_leaks() -> None:
    text = "ugs_" + base64.urlsafe_b64encode(bytes(range(42))).decode()

    assert LeakSearch({"session": text}).leaks_in("a log", f'{{"cookie": "{text}"}}'.encode())
