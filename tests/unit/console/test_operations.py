"""Which operations a key may use, read from the routes of the application."""

import pytest

from app.console.http.operations import Operations
from app.console.views.navigation import _ITEMS
from app.core.settings import Settings
from app.main import create_app
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each


@pytest.fixture(scope="module")
def operations() -> Operations:
    return Operations.of(create_app(Settings(_env_file=None)))


def _principal(*scopes: str) -> Principal:
    return Principal(key_id="k", name="test", tenant_id=TENANT, scopes=frozenset(scopes))


@for_each(
    ("operation", "scopes", "is_allowed"),
    [
        ("GET /tools", ["tools:read"], True),
        ("GET /tools", ["calls:read"], False),
        ("POST /tools/{name}/call", ["tools:call"], True),
        ("POST /tools/{name}/call", ["tools:read"], False),
        ("DELETE /providers/{name}", ["admin"], True),
        ("GET /me", [], True),
        ("GET /health/ready", [], True),
    ],
)
def test_scopes_of_operations(
    operations: Operations, operation: str, scopes: list[str], is_allowed: bool
) -> None:
    assert operations.allowed(operation, _principal(*scopes)) is is_allowed


def test_an_operation_that_does_not_exist_is_an_error(operations: Operations) -> None:
    with pytest.raises(KeyError):
        operations.allowed("GET /nothing", _principal("admin"))


def test_each_page_of_the_navigation_shows_an_operation(operations: Operations) -> None:
    assert all(operations.scopes(item.operation) for item in _ITEMS)
    assert len({item.shortcut for item in _ITEMS}) == len(_ITEMS)
