"""The library API over HTTP: each kind of auth, its document, and its credentials."""

import base64
import json
import stat

import aiohttp
import pytest

from app.cli.sample import serve_sample_api
from examples.library_api.credentials import CredentialsError, LibraryCredentials
from examples.library_api.registration import registration
from tests.harness.cases import for_each


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    with serve_sample_api(tmp_path_factory.mktemp("data"), port=0) as found:
        yield found


@pytest.fixture(scope="module")
def base(body) -> str:
    return body["source"]["url"].removesuffix("/openapi.json")


@pytest.fixture
async def http(base):
    async with aiohttp.ClientSession(base) as session:
        yield session


async def answer(request) -> tuple[int, object]:
    async with request as found:
        text = await found.text()
        return found.status, json.loads(text) if text else None


def key(body) -> dict[str, str]:
    return {"X-Library-Key": body["credentials"]["memberKey"]["value"]}


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}


def login(body) -> dict[str, str]:
    found = body["credentials"]["staffLogin"]
    return basic(found["username"], found["password"])


async def token(http, body, scope: str | None = None) -> dict[str, str]:
    found = body["credentials"]["libraryOAuth"]
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    form |= {"client_id": found["client_id"], "client_secret": found["client_secret"]}
    status, said = await answer(http.post("/oauth/token", data=form))
    assert status == 200
    return {"Authorization": f"Bearer {said['access_token']}"}


# Public


async def test_a_search_finds_words_in_titles_without_auth(http):
    status, found = await answer(http.get("/books", params={"q": "SEA"}))
    assert status == 200
    assert [b["title"] for b in found["items"]] == ["The Sea-Wolf", "Twenty Thousand Leagues Under the Sea"]
    assert found["total"] == 2


async def test_array_boolean_and_enumeration_parameters_narrow_a_search(http):
    query = [("genre", "crime"), ("genre", "poetry"), ("available", "true"), ("sort", "year"), ("limit", "3")]
    _, found = await answer(http.get("/books", params=query))
    years = [b["year"] for b in found["items"]]
    assert years == sorted(years)
    assert len(years) == 3
    assert all(set(b["genres"]) & {"crime", "poetry"} and b["available"] for b in found["items"])
    _, none_left = await answer(http.get("/books", params={"available": "false"}))
    assert none_left["total"] >= 1
    _, everything = await answer(http.get("/books", params={"limit": "50"}))
    assert everything["total"] >= 20


async def test_one_book_by_id_and_a_missing_one(http):
    status, book = await answer(http.get("/books/bk-001"))
    assert (status, book["author"]) == (200, "Herman Melville")
    assert await answer(http.get("/books/bk-999")) == (404, {"detail": "There is no book bk-999."})


@pytest.mark.parametrize(
    "path", ["/books/moby", "/books?genre=cookery", "/books?available=perhaps", "/opening-hours?day=today"]
)
async def test_a_wrong_value_is_422_in_json(http, path):
    status, said = await answer(http.get(path))
    assert status == 422
    assert said["detail"]


async def test_opening_hours(http):
    _, monday = await answer(http.get("/opening-hours", params={"day": "monday"}))
    assert monday == {"day": "monday", "opens": "09:00", "closes": "18:00"}
    _, sunday = await answer(http.get("/opening-hours", params={"day": "sunday"}))
    assert sunday == {"day": "sunday", "opens": None, "closes": None}


# API key


async def test_members_need_the_key(http, body):
    for headers in ({}, {"X-Library-Key": "wrong"}, {"X-Library-Key": ""}):
        status, said = await answer(http.get("/members", headers=headers))
        assert (status, list(said)) == (401, ["detail"])
    status, members = await answer(http.get("/members", headers=key(body)))
    assert (status, members["items"][0]["name"]) == (200, "Ada Byron")


async def test_a_loan_with_a_nested_body_takes_a_copy_from_the_shelf(http, body):
    request = {
        "member_id": "mb-002",
        "items": [{"book_id": "bk-003", "days": 14}],
        "delivery": {"method": "post", "address": {"street": "4 Alexander St", "city": "Rochester"}},
    }
    status, loan = await answer(http.post("/loans", json=request, headers=key(body)))
    assert (status, loan["delivery"], loan["items"]) == (201, request["delivery"], request["items"])
    _, mine = await answer(http.get("/loans", params={"member_id": "mb-002"}, headers=key(body)))
    assert loan in mine["items"]
    assert await answer(http.post("/loans", json=request, headers=key(body))) == (
        409,
        {"detail": "No copy of bk-003 is left."},
    )
    _, book = await answer(http.get("/books/bk-003"))
    assert book["available"] is False


async def test_a_loan_is_made_of_all_books_or_none(http, body):
    request = {"member_id": "mb-003", "items": [{"book_id": "bk-001"}, {"book_id": "bk-010"}]}
    status, _ = await answer(http.post("/loans", json=request, headers=key(body)))
    assert status == 409
    _, mine = await answer(http.get("/loans", params={"member_id": "mb-003"}, headers=key(body)))
    assert mine["items"] == []


@for_each(
    ("change", "status"),
    [
        ({"items": []}, 422),
        ({"items": [{"book_id": "bk-001", "days": 0}]}, 422),
        ({"unknown": 1}, 422),
        ({"delivery": {"method": "post"}}, 409),
        ({"member_id": "mb-999"}, 404),
        ({"items": [{"book_id": "bk-999"}]}, 404),
    ],
)
async def test_a_loan_that_cannot_be_made_says_why(http, body, change, status):
    request = {"member_id": "mb-001", "items": [{"book_id": "bk-001"}]} | change
    found, said = await answer(http.post("/loans", json=request, headers=key(body)))
    assert found == status
    assert said["detail"]


# Basic auth


async def test_the_inventory_needs_the_login(http, body):
    for headers in ({}, basic("librarian", "wrong"), basic("wrong", "x")):
        async with http.get("/inventory/bk-005", headers=headers) as found:
            assert found.status == 401
            assert found.headers["WWW-Authenticate"].startswith("Basic")
    status, stock = await answer(http.get("/inventory/bk-005", headers=login(body)))
    assert (status, stock["lent"], stock["shelf"]) == (200, 0, "B2")


async def test_the_stock_can_be_changed_in_part(http, body):
    status, stock = await answer(http.patch("/inventory/bk-006", json={"copies": 9}, headers=login(body)))
    assert (status, stock["copies"]) == (200, 9)
    _, again = await answer(http.patch("/inventory/bk-006", json={"shelf": "D9"}, headers=login(body)))
    assert (again["copies"], again["shelf"]) == (9, "D9")
    status, _ = await answer(http.patch("/inventory/bk-006", json={"copies": -1}, headers=login(body)))
    assert status == 422


async def test_copies_that_are_lent_cannot_vanish(http, body):
    request = {"member_id": "mb-001", "items": [{"book_id": "bk-007"}]}
    status, _ = await answer(http.post("/loans", json=request, headers=key(body)))
    assert status == 201
    status, _ = await answer(http.patch("/inventory/bk-007", json={"copies": 0}, headers=login(body)))
    assert status == 409


# OAuth2


async def test_a_reservation_is_made_listed_and_cancelled_with_a_token(http, body):
    headers = await token(http, body, "reservations:read reservations:write")
    wish = {"member_id": "mb-001", "book_id": "bk-002"}
    status, kept = await answer(http.post("/reservations", json=wish, headers=headers))
    assert (status, kept["book_id"]) == (201, "bk-002")
    assert (await answer(http.post("/reservations", json=wish, headers=headers)))[0] == 409
    _, mine = await answer(http.get("/reservations", params={"member_id": "mb-001"}, headers=headers))
    assert mine["items"] == [kept]
    assert await answer(http.delete(f"/reservations/{kept['id']}", headers=headers)) == (204, None)
    assert (await answer(http.delete(f"/reservations/{kept['id']}", headers=headers)))[0] == 404


async def test_a_token_without_the_scope_is_403_and_names_the_scope(http, body):
    headers = await token(http, body, "reports:read")
    async with http.get("/reservations", headers=headers) as found:
        assert found.status == 403
        assert 'scope="reservations:read"' in found.headers["WWW-Authenticate"]
    status, report = await answer(http.get("/reports/popular", headers=headers))
    assert (status, list(report)) == (200, ["items"])


@for_each("value", [None, "Bearer wrong", "Bearer ", "Basic x", "wrong"])
async def test_without_a_valid_token_it_is_401(http, value):
    async with http.get("/reservations", headers={"Authorization": value} if value else {}) as found:
        assert found.status == 401
        assert found.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


async def test_the_token_endpoint_takes_the_client_in_a_basic_header_too(http, body):
    found = body["credentials"]["libraryOAuth"]
    headers = basic(found["client_id"], found["client_secret"])
    async with http.post("/oauth/token", data={"grant_type": "client_credentials"}, headers=headers) as said:
        assert said.status == 200
        assert said.headers["Cache-Control"] == "no-store"
        issued = await said.json()
    assert issued["token_type"] == "Bearer"
    assert issued["expires_in"] == 300
    assert set(issued["scope"].split()) == {"reservations:read", "reservations:write", "reports:read"}


@for_each(
    ("form", "status", "error"),
    [
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_id": "nobody"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": None}, 400, "invalid_request"),
        ({"scope": "admin"}, 400, "invalid_scope"),
    ],
)
async def test_a_wrong_token_request_gets_the_standards_error(http, body, form, status, error):
    found = body["credentials"]["libraryOAuth"]
    good = {"grant_type": "client_credentials", "client_id": found["client_id"]}
    good |= {"client_secret": found["client_secret"]}
    sent = {name: value for name, value in (good | form).items() if value is not None}
    assert await answer(http.post("/oauth/token", data=sent)) == (status, {"error": error})


@for_each("header", ["Basic", "Basic !!!", "Basic bm9jb2xvbg==", "Basic /////w==", "Bearer x"])
async def test_a_broken_basic_header_is_an_invalid_client(http, header):
    request = http.post("/oauth/token", data={"grant_type": "x"}, headers={"Authorization": header})
    assert await answer(request) == (401, {"error": "invalid_client"})


# The document


async def test_the_document_declares_the_schemes_the_scopes_and_its_own_address(http, base):
    _, document = await answer(http.get("/openapi.json"))
    assert [server["url"] for server in document["servers"]] == [base]
    schemes = document["components"]["securitySchemes"]
    assert (schemes["memberKey"]["type"], schemes["memberKey"]["in"]) == ("apiKey", "header")
    assert schemes["memberKey"]["name"] == "X-Library-Key"
    assert (schemes["staffLogin"]["type"], schemes["staffLogin"]["scheme"]) == ("http", "basic")
    flow = schemes["libraryOAuth"]["flows"]["clientCredentials"]
    assert flow["tokenUrl"] == "/oauth/token"
    assert set(flow["scopes"]) == {"reservations:read", "reservations:write", "reports:read"}


async def test_every_operation_is_described_and_names_its_needs(http):
    _, document = await answer(http.get("/openapi.json"))
    needs = {}
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["description"]
            assert operation["tags"]
            needs[operation["operationId"]] = operation.get("security", [])
    assert needs == {
        "searchBooks": [],
        "getBook": [],
        "getOpeningHours": [],
        "listMembers": [{"memberKey": []}],
        "createLoan": [{"memberKey": []}],
        "listLoans": [{"memberKey": []}],
        "getStock": [{"staffLogin": []}],
        "updateStock": [{"staffLogin": []}],
        "createReservation": [{"libraryOAuth": ["reservations:write"]}],
        "listReservations": [{"libraryOAuth": ["reservations:read"]}],
        "cancelReservation": [{"libraryOAuth": ["reservations:write"]}],
        "getPopularBooks": [{"libraryOAuth": ["reports:read"]}],
    }


async def test_every_slot_of_the_registration_is_a_scheme_of_the_document(http, body, base):
    _, document = await answer(http.get("/openapi.json"))
    assert set(body["credentials"]) == set(document["components"]["securitySchemes"])
    assert body["credentials"]["libraryOAuth"]["token_url"] == f"{base}/oauth/token"
    assert body["name"] == "library"


# Credentials


def test_credentials_are_made_once_per_file_and_closed_to_others(tmp_path):
    one = LibraryCredentials.load(tmp_path / "a.json")
    assert LibraryCredentials.load(tmp_path / "a.json") == one
    assert LibraryCredentials.load(tmp_path / "b.json") != one
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600
    assert one.password not in repr(one)


@for_each("text", ["", "[]", "{}", "null", '{"library_key": 1}'])
def test_damaged_credentials_raise_an_error_that_names_the_file(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(CredentialsError, match=r"a\.json are damaged; remove the file"):
        LibraryCredentials.load(tmp_path / "a.json")


def test_credentials_in_a_missing_folder_raise_an_error(tmp_path):
    with pytest.raises(CredentialsError, match="cannot be used: No such file or directory"):
        LibraryCredentials.load(tmp_path / "missing" / "a.json")


def test_registration_has_a_kind_for_each_slot():
    made = registration("http://127.0.0.1:8001/", LibraryCredentials.generate())
    assert made["source"] == {"url": "http://127.0.0.1:8001/openapi.json"}
    assert {slot: c["kind"] for slot, c in made["credentials"].items()} == {
        "memberKey": "api_key",
        "staffLogin": "basic",
        "libraryOAuth": "oauth2",
    }
