"""Which `http` tools a UTCP client can call without the gateway."""

from typing import Any

import pytest

from app.protocols.http.direct import native
from app.protocols.record import NotDirect
from tests.harness.cases import for_each

PARAMETER = {"input": "a", "name": "a", "in": "query"}


def template(method: str = "GET", **parameter: Any) -> dict[str, Any]:
    parameters = [PARAMETER | parameter] if parameter else []
    return {"http_method": method, "url": "https://a.example/", "parameters": parameters}


@for_each("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_the_methods_of_utcp_are_passed_on(method: str) -> None:
    assert native(template(method))["http_method"] == method
    assert native({"http_method": method, "url": "https://a.example/"})["http_method"] == method


@for_each("method", ["HEAD", "OPTIONS", "QUERY", "PROPFIND", "get"])
def test_other_methods_are_not_direct(method: str) -> None:
    for given in (template(method), {"http_method": method, "url": "https://a.example/"}):
        with pytest.raises(NotDirect, match=f"UTCP has no http_method {method}"):
            native(given)


@for_each(
    "parameter",
    [
        {"in": "cookie"},
        {"in": "querystring", "content_type": "application/x-www-form-urlencoded"},
        {"style": "deepObject"},
        {"explode": False},
        {"encoding": {"b": {"content_type": "application/json"}}},
        {"item_styles": ["pipeDelimited"]},
        {"input": "b"},
    ],
)
def test_parameters_that_utcp_would_place_elsewhere_are_not_direct(parameter: dict[str, Any]) -> None:
    assert native(template(**PARAMETER))
    with pytest.raises(NotDirect, match="parameter a "):
        native(template(**parameter))
