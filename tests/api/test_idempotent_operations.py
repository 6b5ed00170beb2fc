"""`Idempotency-Key` on POST /keys and POST /providers: processed once, the first response again."""

import asyncio
import json

import pytest
from sqlalchemy import text
from starlette.responses import Response

from app.api.idempotency import IdempotentOperation, IdempotentResponder
from app.core.errors import IdempotencyRunning, Unavailable
from app.security.principal import Principal
from app.storage.models import TENANT

KEY = {"name": "agent", "scopes": ["tools:read"]}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Books", "version": "1"},
    "servers": [{"url": "https://books.example"}],
    "paths": {"/books": {"get": {"operationId": "listBooks", "responses": {"200": {"description": "ok"}}}}},
}


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get(
        idempotency_max_response_bytes=64_000,
    )


@pytest.fixture
async def admin(application):
    yield await application.client("admin")
    await application.close_clients()


async def rows(application, query):
    async with application.services.database.read_session() as session:
        return (await session.execute(text(query))).all()


async def test_a_repeated_key_creation_gets_the_same_key_again(application, admin):
    headers = {"Idempotency-Key": "create-1"}
    first = await admin.post("/keys", json=KEY, headers=headers)
    # Equal JSON is the same body, and a quoted key the same key.
    again = await admin.post(
        "/keys", json=dict(reversed(KEY.items())), headers={"Idempotency-Key": '"create-1"'}
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["cache-control"] == first.headers["cache-control"] == "no-store"
    assert len(await rows(application, "SELECT 1 FROM keys WHERE name = 'agent'")) == 1


async def test_the_stored_key_is_sealed_and_expires_within_ten_minutes(application, admin):
    created = await admin.post("/keys", json=KEY, headers={"Idempotency-Key": "create-2"})
    secret = created.json()["key"].encode()
    stored = await rows(
        application, "SELECT sealed, expires_at <= now() + interval '10 minutes' FROM idempotency_keys"
    )
    assert stored
    for sealed, is_short in stored:
        assert secret not in sealed
        assert created.json()["id"].encode() not in sealed
        assert is_short


async def test_another_body_is_rejected(admin):
    headers = {"Idempotency-Key": "create-3"}
    assert (await admin.post("/keys", json=KEY, headers=headers)).status_code == 201
    problem = (await admin.post("/keys", json={**KEY, "name": "other"}, headers=headers)).json()
    assert (problem["status"], problem["type"]) == (422, "urn:utcp-gateway:problem:idempotency-mismatch")
    assert "call_id" not in problem


async def test_keys_of_other_clients_and_operations_are_other_keys(application, admin):
    other = await application.client("admin")
    headers = {"Idempotency-Key": "shared"}
    made = [await one.post("/keys", json=KEY, headers=headers) for one in (admin, other)]
    assert made[0].json()["id"] != made[1].json()["id"]
    registered = await admin.post("/providers?name=shared", json=DOCUMENT, headers=headers)
    assert registered.status_code == 201


@pytest.mark.parametrize("value", ["", "x" * 256, '"unclosed', "two words"])
async def test_a_malformed_key_is_rejected(admin, value):
    response = await admin.post("/keys", json=KEY, headers={"Idempotency-Key": value})
    assert response.status_code in (400, 422)
    assert response.json()["errors"][0]["pointer"] == "#/header/Idempotency-Key"


async def test_two_keys_in_one_request_are_rejected(admin):
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert (await admin.post("/keys", json=KEY, headers=headers)).status_code == 400


async def test_a_rejected_request_releases_its_key(admin):
    headers = {"Idempotency-Key": "create-4"}
    past = {**KEY, "expires_at": "2001-01-01T00:00:00Z"}
    assert (await admin.post("/keys", json=past, headers=headers)).status_code == 409
    assert (await admin.post("/keys", json=KEY, headers=headers)).status_code == 201


async def test_a_replay_needs_the_right_to_create(application, admin):
    headers = {"Idempotency-Key": "create-5"}
    assert (await admin.post("/keys", json=KEY, headers=headers)).status_code == 201
    reader = await application.client("tools:read")
    assert (await reader.post("/keys", json=KEY, headers=headers)).status_code == 403


async def test_a_repeated_registration_gets_the_first_response_again(application, admin):
    headers = {"Idempotency-Key": "register-1"}
    first = await admin.post("/providers?name=books", json=DOCUMENT, headers=headers)
    again = await admin.post("/providers?name=books", json=DOCUMENT, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201), first.text
    assert again.json() == first.json()
    assert again.headers["etag"] == first.headers["etag"] == '"1"'
    assert again.headers["idempotency-replayed"] == "true"
    other = await admin.post("/providers?name=books2", json=DOCUMENT, headers=headers)
    assert other.json()["type"].endswith("idempotency-mismatch")
    events = await rows(application, "SELECT 1 FROM events WHERE object_name = 'books'")
    assert len(events) == 1


async def test_the_boundary_of_a_multipart_body_is_no_part_of_the_request(admin):
    results = []
    for _ in range(2):
        files = {"file": ("books.json", json.dumps(DOCUMENT), "application/json"), "name": (None, "parts")}
        request = admin.build_request(
            "POST", "/providers", files=files, headers={"Idempotency-Key": "register-2"}
        )
        results.append((request.headers["content-type"], await admin.send(request)))
    assert results[0][0] != results[1][0]
    assert [one.status_code for _, one in results] == [201, 201], results[1][1].text
    assert results[1][1].headers["idempotency-replayed"] == "true"


async def test_a_response_that_is_too_large_to_be_stored_is_not_repeated(admin):
    many = {f"/books/{n}": {"get": {"responses": {"200": {"description": "ok"}}}} for n in range(400)}
    headers = {"Idempotency-Key": "register-3"}
    body = {**DOCUMENT, "paths": many}
    assert (await admin.post("/providers?name=large", json=body, headers=headers)).status_code == 201
    problem = (await admin.post("/providers?name=large", json=body, headers=headers)).json()
    assert problem["type"].endswith("idempotency-not-stored")
    assert problem["stored_status"] == 201


async def test_credentials_of_a_body_are_not_stored_with_the_key(application, admin):
    body = {
        "name": "secretive",
        "source": {"document": DOCUMENT},
        "variables": {"TOKEN": {"value": "CANARY-1234567890"}},
    }
    made = await admin.post("/providers", json=body, headers={"Idempotency-Key": "register-4"})
    assert made.status_code == 201, made.text
    stored = await rows(application, "SELECT * FROM idempotency_keys")
    assert "CANARY" not in str(
        [[bytes(c) if isinstance(c, memoryview) else c for c in row] for row in stored]
    )


class Operation:
    """An operation that waits to be let go, over the store of the application."""

    def __init__(self, application):
        self.runs = 0
        self.go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.error = None
        store = application.services.calls.idempotency
        self._responder = IdempotentResponder(store, "the-key", 1_000)

    async def respond(self, name):
        principal = Principal(key_id="someone", name="x", tenant_id=TENANT, scopes=frozenset())
        operation = IdempotentOperation(name, seconds=30)
        return await self._responder.respond(operation, self._work, principal=principal, content=b"same")

    async def _work(self):
        self.runs += 1
        self.begun.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return Response(b"done", 201)


async def test_a_request_that_is_still_running_is_a_conflict(application):
    operation = Operation(application)
    first = asyncio.create_task(operation.respond("running"))
    await operation.begun.wait()
    with pytest.raises(IdempotencyRunning) as raised:
        await operation.respond("running")
    assert (raised.value.status, raised.value.slug) == (409, "idempotency-running")
    assert raised.value.extra == {}
    operation.go_on.set()
    assert (await first).body == b"done"
    assert (await operation.respond("running")).headers["idempotency-replayed"] == "true"
    assert operation.runs == 1


async def test_a_request_goes_on_after_its_client_has_disconnected(application):
    operation = Operation(application)
    first = asyncio.create_task(operation.respond("left"))
    await operation.begun.wait()
    first.cancel()
    await asyncio.wait([first])
    operation.go_on.set()
    async with asyncio.timeout(10):
        while True:
            try:
                response = await operation.respond("left")
                break
            except IdempotencyRunning:
                await asyncio.sleep(0.02)
    assert response.body == b"done"
    assert operation.runs == 1


async def test_where_the_database_was_lost_the_request_is_not_processed_again(application):
    operation = Operation(application)
    operation.go_on.set()
    operation.error = Unavailable("The database cannot be reached.")
    with pytest.raises(Unavailable):
        await operation.respond("lost")
    with pytest.raises(IdempotencyRunning):
        await operation.respond("lost")
    assert operation.runs == 1


async def test_without_a_key_each_request_is_processed(admin):
    made = [await admin.post("/keys", json=KEY) for _ in range(2)]
    assert made[0].json()["id"] != made[1].json()["id"]
