"""OpenAPI documents of tests, and what they are converted into."""

from typing import Any

import orjson

from app.openapi.conversion.convert import convert
from app.providers.registration.from_openapi import from_conversion
from app.providers.registration.model import ParsedSource, RegistrationSource

API = "https://api.example.com"
API_KEY = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}


def document(*paths: str, schemes: dict[str, Any] | None = None, server: str = API) -> bytes:
    """An OpenAPI document with a GET operation for each path, which need all of the security schemes."""
    operations = {
        path: {"get": {"operationId": path.strip("/"), "responses": {"200": {"description": "ok"}}}}
        for path in paths or ("/pets",)
    }
    return orjson.dumps({
        "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": server}],
        "paths": operations, "security": [{name: [] for name in schemes}] if schemes else [],
        "components": {"securitySchemes": schemes or {}},
    })  # fmt: skip


def parsed_document(*paths: str, **given: Any) -> ParsedSource:
    """`document(...)`, converted in this process."""
    body = document(*paths, **given)
    return from_conversion(convert(body), source=RegistrationSource("document", body, "application/json"))
