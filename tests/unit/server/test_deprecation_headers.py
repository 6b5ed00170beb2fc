"""A deprecated operation says so in each of its responses, and in the OpenAPI document."""

from collections.abc import AsyncIterator
from datetime import date

import httpx2
import pytest
from fastapi import APIRouter, Depends, FastAPI, Response
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.api.authorisation import public_route, requires
from app.api.deprecation import Deprecation, deprecated, deprecation_of
from app.core.errors import NotFound
from app.core.settings import Settings
from app.main import EDGES, create_app
from app.server import deprecation_headers
from app.server.call_route import GatewayApp
from tests.harness.cases import for_each

GUIDE = "https://gateway.example/guide"
DEPRECATION = Deprecation(
    since=date(2027, 1, 1), sunset=date(2027, 7, 1), guide=GUIDE, successor="/v2/shelves/{name}"
)
LINKS = (
    f'<{GUIDE}>; rel="deprecation", <{GUIDE}>; rel="sunset", </v2/shelves/{{name}}>; rel="successor-version"'
)
router = APIRouter(tags=["operation"])


@router.get("/shelves/{name}", operation_id="getShelf", deprecated=True, dependencies=[Depends(public_route)])
@deprecated(DEPRECATION)
async def get_shelf(name: str, response: Response) -> str:
    """Get a shelf."""
    if name == "none":
        raise NotFound("There is no such shelf.")
    response.headers["Link"] = '</shelves>; rel="first"'
    return name


@router.get(
    "/admin-shelves", operation_id="listShelves", deprecated=True, dependencies=[Depends(requires("admin"))]
)
@deprecated(DEPRECATION)
async def list_shelves() -> str:
    """List shelves."""
    return ""


@deprecated(DEPRECATION)
async def plain_shelf(_request: object) -> Response:
    return PlainTextResponse("plain")


class ShelvesEdge:
    """An edge with deprecated operations."""

    def install(self, app: FastAPI) -> None:
        app.include_router(router)
        app.router.routes.append(Route("/plain-shelf", plain_shelf))


@pytest.fixture(scope="module")
def application() -> FastAPI:
    return create_app(Settings(_env_file=None), edges=(*EDGES, ShelvesEdge()))


@pytest.fixture
async def client(application: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as made:
        yield made


@for_each(("path", "status"), [
    ("/shelves/a", 200), ("/shelves/none", 404), ("/shelves/a?unknown=1", 422), ("/admin-shelves", 401), ("/plain-shelf", 200),
])  # fmt: skip
async def test_each_response_of_a_deprecated_operation_has_the_headers(
    client: httpx2.AsyncClient, path: str, status: int
) -> None:
    response = await client.get(path)
    assert response.status_code == status
    assert response.headers["Deprecation"] == "@1798761600"
    assert response.headers["Sunset"] == "Thu, 01 Jul 2027 00:00:00 GMT"
    assert response.headers.get_list("Link")[-1] == LINKS


async def test_links_of_the_operation_itself_stay(client: httpx2.AsyncClient) -> None:
    links = (await client.get("/shelves/a")).headers.get_list("Link")
    assert links == ['</shelves>; rel="first"', LINKS]


@pytest.mark.parametrize("path", ["/health/live", "/problems", "/nowhere"])
async def test_responses_of_other_operations_have_none(client: httpx2.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert {"deprecation", "sunset"}.isdisjoint(response.headers)


def test_the_document_marks_the_operation_and_describes_its_headers(application: FastAPI) -> None:
    document = application.openapi()
    operation = document["paths"]["/shelves/{name}"]["get"]
    assert operation["deprecated"] is True
    assert operation["description"] == (
        "Get a shelf.\n\nDeprecated since 2027-01-01, may be removed on 2027-07-01:"
        f" use `/v2/shelves/{{name}}` instead; see {GUIDE}."
    )
    for response in operation["responses"].values():
        assert {"Deprecation", "Sunset", "Link"} <= set(response["headers"])
    assert "deprecated" not in document["paths"]["/health/live"]["get"]


def test_calls_keep_their_fast_route_while_other_operations_are_deprecated(application: FastAPI) -> None:
    assert isinstance(application, GatewayApp)
    application.build_middleware_stack()
    assert application.uses_fast_routes


def test_no_middleware_is_added_while_nothing_is_deprecated() -> None:
    application = create_app(Settings(_env_file=None))
    classes = [layer.cls for layer in application.user_middleware]
    assert deprecation_headers.DeprecationHeaders not in classes


def test_an_operation_that_is_deprecated_without_dates_is_an_error() -> None:
    application = FastAPI()

    @application.get("/undated", deprecated=True)
    async def undated() -> str:
        return ""

    with pytest.raises(ValueError, match="/undated is deprecated without dates"):
        deprecation_headers.install(application)


@pytest.mark.parametrize(
    ("sunset", "guide"), [(date(2026, 12, 31), GUIDE), (date(2027, 7, 1), "docs/versioning.md")]
)
def test_a_deprecation_ends_after_it_begins_and_has_a_guide_with_a_url(sunset: date, guide: str) -> None:
    with pytest.raises(ValueError, match="deprecated"):
        Deprecation(since=date(2027, 1, 1), sunset=sunset, guide=guide)


def test_an_endpoint_without_a_declaration_is_not_deprecated() -> None:
    assert deprecation_of(get_shelf) is DEPRECATION
    assert deprecation_of(public_route) is None
